"""What programs import of cloud-init's Python modules, on a machine whose cloud-init is Firstlight.

These modules read files and run the command cloud-init. Every other module of this name, and every other name in these
modules, raises an ImportError or AttributeError that names the command to use.
"""
import opcode
import sys

_COMMANDS = {
    "analyze": "cloud-init analyze",
    "cmd": "cloud-init --help",
    "config": "cloud-init single --name MODULE, cloud-init schema",
    "distros": "cloud-init query system_info",
    "net": "cloud-init devel net-convert",
    "sources": "cloud-init query --all",
    "stages": "cloud-init query --all",
    "templater": "cloud-init devel render",
    "user_data": "cloud-init devel make-mime",
}


def _message(name):
    """Return the message about a name that does not exist here."""
    command = _COMMANDS.get(name.split(".")[1], "cloud-init --help")
    return f"{name}: this machine's cloud-init (Firstlight) is not written in Python; use the command: {command}"


def _missing(module):
    """Return a module's function __getattr__."""

    def getattr_(name):
        # `from MODULE import NAME` replaces the text of an AttributeError by its own.
        caller = sys._getframe(1)
        is_import = caller.f_code.co_code[caller.f_lasti] == opcode.opmap["IMPORT_FROM"]
        raise (ImportError if is_import else AttributeError)(_message(f"{module}.{name}"))

    return getattr_


class _Others:
    """Finds nothing below cloudinit, and says so; it is asked last."""

    @staticmethod
    def find_spec(name, path=None, target=None):
        if name.startswith("cloudinit.") and name != "cloudinit.feature_overrides":
            # Without the name: `from cloudinit import NAME` hides an error that has it.
            raise ModuleNotFoundError(_message(name))


sys.meta_path.append(_Others)
