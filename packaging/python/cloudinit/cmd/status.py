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


class ConditionStatus(Enum):
    """Whether there are errors or warnings."""

    ERROR = "error"
    DEGRADED = "degraded"
    PEACHY = "healthy"


class EnabledStatus(Enum):
    """What decided whether cloud-init runs."""

    DISABLED_BY_GENERATOR = "disabled-by-generator"
    DISABLED_BY_KERNEL_CMDLINE = "disabled-by-kernel-command-line"
    DISABLED_BY_MARKER_FILE = "disabled-by-marker-file"
    DISABLED_BY_ENV_VARIABLE = "disabled-by-environment-variable"
    ENABLED_BY_GENERATOR = "enabled-by-generator"
    ENABLED_BY_KERNEL_CMDLINE = "enabled-by-kernel-command-line"
    ENABLED_BY_SYSVINIT = "enabled-by-sysvinit"
    UNKNOWN = "unknown"


class UXAppStatus(Enum):
    """One word for both, as versions before 24.1 have it."""

    NOT_RUN = "not run"
    RUNNING = "running"
    DONE = "done"
    ERROR = "error"
    DISABLED = "disabled"


class StatusDetails(NamedTuple):
    """The fields of cloud-init 26.2, and as properties those of versions before 24.1."""

    running_status: RunningStatus
    condition_status: ConditionStatus
    boot_status_code: EnabledStatus
    description: str
    errors: list
    recoverable_errors: dict
    last_update: str
    datasource: str
    v1: dict

    @property
    def status(self):
        """One word."""
        if self.condition_status is ConditionStatus.ERROR:
            return UXAppStatus.ERROR
        word = self.running_status.value
        return UXAppStatus("not run" if word == "not started" else word)

    @property
    def extended_status(self):
        """Both, as the command prints it."""
        word = self.running_status.value
        if self.condition_status is ConditionStatus.ERROR:
            return f"error - {word}"
        return f"degraded {word}" if self.condition_status is ConditionStatus.DEGRADED else word


def get_status_details(paths=None, wait=False):
    """Return the status; with `wait` when cloud-init has ended."""
    command = ["cloud-init", "status", "--format", "json", *(["--wait"] if wait else [])]
    found = json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=False).stdout)
    extended = found["extended_status"]
    running = extended.removeprefix("error - ").removeprefix("degraded ")
    condition = ConditionStatus.PEACHY
    if running != extended:
        condition = ConditionStatus.ERROR if extended.startswith("error") else ConditionStatus.DEGRADED
    try:
        with open("/run/cloud-init/status.json", encoding="utf-8") as file:
            v1 = json.load(file)["v1"]
    except FileNotFoundError:
        v1 = {}
    names = ("detail", "errors", "recoverable_errors", "last_update", "datasource")
    return StatusDetails(
        RunningStatus(running), condition, EnabledStatus(found["boot_status_code"]), *(found.get(name) for name in names), v1
    )


def is_cloud_init_enabled():
    """Return whether cloud-init runs in this boot."""
    return get_status_details().running_status is not RunningStatus.DISABLED


__getattr__ = _missing(__name__)
