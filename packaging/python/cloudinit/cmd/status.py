"""The status, by the command cloud-init status."""
import json
import subprocess
from enum import Enum
from typing import NamedTuple

from cloudinit import _missing


class RunningStatus(Enum):
    """Whether and how far cloud-init has run."""

    NOT_STARTED = "not started"
    RUNNING = "running"
    DONE = "done"
    DISABLED = "disabled"


class UXAppStatus(Enum):
    """The same with errors."""

    NOT_RUN = "not run"
    RUNNING = "running"
    DONE = "done"
    ERROR = "error"
    DISABLED = "disabled"


class StatusDetails(NamedTuple):
    """The fields of `cloud-init status --format json`."""

    running_status: RunningStatus
    status: UXAppStatus
    extended_status: str
    boot_status_code: str
    description: str
    errors: list
    recoverable_errors: dict
    last_update: str
    datasource: str


def get_status_details(paths=None, wait=False):
    """Return the status; with `wait` when cloud-init has ended."""
    command = ["cloud-init", "status", "--format", "json", *(["--wait"] if wait else [])]
    found = json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=False).stdout)
    status = UXAppStatus("not run" if found["status"] == "not started" else found["status"])
    running = {"not run": "not started", "error": "done"}.get(status.value, status.value)
    names = ("extended_status", "boot_status_code", "detail", "errors", "recoverable_errors", "last_update", "datasource")
    return StatusDetails(RunningStatus(running), status, *(found.get(name) for name in names))


def is_cloud_init_enabled():
    """Return whether cloud-init runs in this boot."""
    return get_status_details().status is not UXAppStatus.DISABLED


__getattr__ = _missing(__name__)
