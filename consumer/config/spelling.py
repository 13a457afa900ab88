"""How a setting is written: in flags, in the environment, in the file, and in commands that are printed."""

from __future__ import annotations

import json
from collections.abc import Mapping

from consumer.config.fields import Given
from consumer.config.settings import Settings


def given_by(field: str) -> Given:
    """Returns how a setting is given."""
    extra = Settings.model_fields[field].json_schema_extra
    assert isinstance(extra, dict)
    given = extra["given"]
    assert isinstance(given, Given)
    return given


def key_of(field: str) -> str:
    """Returns how a setting is spelt in flags and files: kebab-case."""
    return given_by(field).key or field.replace("_", "-")


def env_of(field: str) -> str:
    """Returns the environment variable of a setting."""
    return "STORAGE_CONSUMER_" + key_of(field).upper().replace("-", "_")


def flag_of(field: str) -> str:
    """Returns the flag of a setting, "" if there is none."""
    return f"--{key_of(field)}" if given_by(field).flag else ""


def file_key_of(field: str) -> str:
    """Returns where the file holds a setting, as ``[consumer] name``."""
    given = given_by(field)
    return f"{given.file} {given.file_key or key_of(field)}".strip()


def toml_text(value: object) -> str:
    """Returns a value as the file writes it, in one line."""
    match value:
        case bool():
            return "true" if value else "false"
        case str():
            return json.dumps(value, ensure_ascii=False)
        case Mapping():
            return "{ " + ", ".join(f"{key} = {toml_text(entry)}" for key, entry in value.items()) + " }"
        case list() | tuple():
            return "[" + ", ".join(map(toml_text, value)) + "]"
    return str(value)
