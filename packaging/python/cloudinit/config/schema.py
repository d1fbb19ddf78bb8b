"""Checks cloud-configs by the command cloud-init schema."""
import json
import logging
import os
import subprocess
import tempfile
from enum import Enum
from typing import NamedTuple

import yaml

from cloudinit import _missing

LOG = logging.getLogger(__name__)


class SchemaProblem(NamedTuple):
    """A path in a configuration and what is wrong there."""

    path: str
    message: str

    def format(self):
        """Return both as text."""
        return f"{self.path}: {self.message}"


class SchemaType(Enum):
    """What a document is."""

    CLOUD_CONFIG = "cloud-config"
    NETWORK_CONFIG = "network-config"
    NETWORK_CONFIG_V1 = "network-config-v1"
    NETWORK_CONFIG_V2 = "network-config-v2"

    @property
    def _document(self):
        """The name of the schema and of the command's type: one of network-config's describes both versions."""
        return self.value.removesuffix("-v1").removesuffix("-v2")


class _Dumper(yaml.SafeDumper):
    """Writes subclasses of the types of YAML as those."""


for _type, _represent in ((dict, _Dumper.represent_dict), (list, _Dumper.represent_list), (str, _Dumper.represent_str)):
    _Dumper.add_multi_representer(_type, _represent)


class SchemaValidationError(ValueError):
    """A document that is not valid."""

    def __init__(self, schema_errors=None, schema_deprecations=None):
        self.schema_errors = sorted(SchemaProblem(*problem) for problem in schema_errors or ())
        self.schema_deprecations = sorted(SchemaProblem(*problem) for problem in schema_deprecations or ())
        kinds = (("errors", self.schema_errors), ("deprecations", self.schema_deprecations))
        super().__init__("\n\n".join(
            f"Cloud config schema {kind}: " + ", ".join(problem.format() for problem in problems)
            for kind, problems in kinds if problems
        ))

    def has_errors(self):
        """Return whether there are errors, not only deprecations."""
        return bool(self.schema_errors)


def get_schema(schema_type=SchemaType.CLOUD_CONFIG):
    """Return the JSON schema that Firstlight installs."""
    with open(f"/usr/share/cloud-init/schema/{schema_type._document}.json", encoding="utf-8") as file:
        return json.load(file)


def _command(path, schema_type):
    """Return the command that checks a file."""
    return ["cloud-init", "schema", "--config-file", path, "--schema-type", schema_type._document]


def _check(path, schema_type):
    """Return the errors and the deprecations of a file."""
    command = [*_command(path, schema_type), "--format", "json"]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        findings = [finding for part in json.loads(done.stdout)["documents"] for finding in part["findings"]]
    except ValueError:
        raise RuntimeError(f"{' '.join(command)}: {done.stderr.strip() or done.returncode}") from None
    errors, deprecations = [], []
    for finding in findings:
        key, message = finding["key"], finding["message"]
        if finding["rule"] == "unknown-key":
            key, _, name = key.rpartition(".")
            message = f"Additional properties are not allowed ('{name}' was unexpected)"
        if finding["rule"] == "deprecated":
            deprecations.append((key, message))
        elif finding["severity"] == "error":
            errors.append((key, message))
    return errors, deprecations


def validate_cloudconfig_schema(
    config, schema=None, schema_type=SchemaType.CLOUD_CONFIG, strict=False, strict_metaschema=False,
    log_details=True, log_deprecations=False,
):
    """Check a configuration; return whether it is valid. With `strict` raise SchemaValidationError instead of logging."""
    with tempfile.NamedTemporaryFile("w", suffix=".yaml", encoding="utf-8") as file:
        file.write("#cloud-config\n" if schema_type is SchemaType.CLOUD_CONFIG else "")
        yaml.dump(config, file, Dumper=_Dumper)
        file.flush()
        errors, deprecations = _check(file.name, schema_type)
    if strict and (errors or deprecations and not log_deprecations):
        raise SchemaValidationError(errors, deprecations)
    for path, message in deprecations if log_deprecations or not strict else ():
        LOG.warning("%s: %s", path, message)
    for path, message in errors if log_details else ():
        LOG.warning("%s: %s", path, message)
    return not errors


def validate_cloudconfig_file(config_path, schema=None, schema_type=SchemaType.CLOUD_CONFIG, annotate=False, **_others):
    """Check a file; return whether it has something to check. Raise SchemaValidationError if it is not valid."""
    if not os.path.getsize(config_path):
        return False
    errors, deprecations = _check(config_path, schema_type)
    if annotate and (errors or deprecations):
        subprocess.run([*_command(config_path, schema_type), "--annotate"], check=False)
    if errors:
        raise SchemaValidationError(errors, deprecations)
    return True


__getattr__ = _missing(__name__)
