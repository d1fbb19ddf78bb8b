"""The configuration of this boot."""
import json

from cloudinit import _message, _missing

COMBINED = "/run/cloud-init/combined-cloud-config.json"


class Init:
    """Has the merged configuration of this boot in `cfg`, for root; an empty one before the network stage."""

    def __init__(self, *_args, **_kwargs):
        self._cfg = None

    def read_cfg(self, extra_fns=None):
        """Read the configuration again when it is next used."""
        self._cfg = None

    @property
    def cfg(self):
        """The merged configuration."""
        if self._cfg is None:
            try:
                with open(COMBINED, encoding="utf-8") as file:
                    self._cfg = json.load(file)
            except FileNotFoundError:
                self._cfg = {}
        return self._cfg

    def __getattr__(self, name):
        raise AttributeError(_message(f"cloudinit.stages.Init.{name}"))


__getattr__ = _missing(__name__)
