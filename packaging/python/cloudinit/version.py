"""The version of cloud-init that Firstlight is compatible with."""
from cloudinit import _missing

__VERSION__ = "@RELEASE@"
FEATURES = ["NETWORK_CONFIG_V1", "NETWORK_CONFIG_V2"]


def version_string():
    """Return the version."""
    return __VERSION__


__getattr__ = _missing(__name__)
