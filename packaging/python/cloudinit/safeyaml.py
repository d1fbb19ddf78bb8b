"""YAML with PyYAML's safe types."""
import yaml

from cloudinit import _missing

YAMLError = yaml.YAMLError


def load(blob):
    """Return the value of a text."""
    return yaml.safe_load(blob)


def dumps(obj, explicit_start=True, explicit_end=True, noalias=False):
    """Return the text of a value, between --- and ... unless told otherwise."""

    class Dumper(yaml.SafeDumper):
        def ignore_aliases(self, data):
            return noalias or super().ignore_aliases(data)

    return yaml.dump(
        obj, Dumper=Dumper, line_break="\n", indent=4, explicit_start=explicit_start, explicit_end=explicit_end,
        default_flow_style=False,
    )


__getattr__ = _missing(__name__)
