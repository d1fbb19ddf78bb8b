"""The switches of a build. Firstlight obeys ERROR_ON_USER_DATA_FAILURE, also in feature_overrides.py; the others tell what it does."""
from cloudinit import _missing

ERROR_ON_USER_DATA_FAILURE = True
ALLOW_EC2_MIRRORS_ON_NON_AWS_INSTANCE_TYPES = False
EXPIRE_APPLIES_TO_HASHED_USERS = True
NETPLAN_CONFIG_ROOT_READ_ONLY = True
NOCLOUD_SEED_URL_APPEND_FORWARD_SLASH = True
APT_DEB822_SOURCE_LIST_FILE = True
MANUAL_NETWORK_WAIT = True
STRIP_INVALID_MTU = False
DEPRECATION_INFO_BOUNDARY = "devel"

try:
    from cloudinit.feature_overrides import *  # noqa: F403
except ImportError:
    pass


def get_features():
    """Return the switches and their values."""
    return {name: value for name, value in globals().items() if name.isupper()}


__getattr__ = _missing(__name__)
