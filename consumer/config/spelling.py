"""How a setting is written: in flags, in the environment, in the file, and in commands that are printed."""

from __future__ import annotations

from typing import Any

from consumer.config.settings import Settings


def key_of(field: str) -> str:
    """How a setting is spelt in flags and files: kebab-case."""
    return _extra(field)["key"] or field.replace("_", "-")


def env_of(field: str) -> str:
    """The environment variable of a setting."""
    return "STORAGE_CONSUMER_" + key_of(field).upper().replace("-", "_")


def flag_of(field: str) -> str:
    """The flag of a setting, "" where there is none."""
    return f"--{key_of(field)}" if _extra(field)["flag"] else ""


def file_key_of(field: str) -> str:
    """Where the file holds a setting, as ``[consumer] name``."""
    extra = _extra(field)
    return f"{extra['file']} {extra['file_key'] or key_of(field)}".strip()


def is_several(field: str) -> bool:
    """Whether its flag can be given several times."""
    return bool(_extra(field)["several"])


def follows(field: str) -> bool:
    """Whether its flag is needed by a command that goes on with what another did."""
    return bool(_extra(field)["follows"])


def part_of(field: str) -> str:
    """What a setting is about (`fields.Part`)."""
    return str(_extra(field)["part"])


def metavar_of(field: str) -> str:
    """What stands for the value in help texts, "" for a switch."""
    return str(_extra(field)["metavar"])


def _extra(field: str) -> dict[str, Any]:
    extra = Settings.model_fields[field].json_schema_extra
    assert isinstance(extra, dict)
    return extra
