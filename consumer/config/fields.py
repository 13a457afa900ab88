"""The parts of a setting: its default, its documentation, and where it can be given."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, create_model

from consumer.codec import PROTOCOLS
from consumer.codec.protocol import Option, RowProtocol
from consumer.config import values

Part = Literal["process", "storage", "target", "names", "bad rows", "start", "spark", "applying", "waiting"]
"""What a setting with a flag is about."""


@dataclass(frozen=True, slots=True)
class Given:
    """How a setting is given."""

    metavar: str = ""
    """What stands for the value in help texts, "" for a switch."""
    flag: bool = True
    """Whether it has a flag."""
    file: str = "[consumer]"
    """The table that holds it in the file."""
    key: str = ""
    """Its name in flags, and in the file if `file_key` is empty; "": the field's name."""
    file_key: str = ""
    several: bool = False
    """Whether its flag can be given several times."""
    follows: bool = False
    """Whether its flag is needed by a command that continues what another command did."""
    part: Part = "applying"
    """What it is about: commands that use this show it in their help."""


def setting(default: Any, description: str, **given: Any) -> Any:
    """Returns a field with its documentation, and how it is `Given`."""
    return Field(default, description=description, json_schema_extra={"given": Given(**given)})  # type: ignore[dict-item]


def field_of(protocol: RowProtocol, option: Option) -> str:
    """Returns the name of the setting that holds `option`."""
    return f"{protocol.name}-{option.key}".replace("-", "_")


def _of_protocol(protocol: RowProtocol, option: Option) -> Any:
    kind = type(option.default)
    read = option.read or (values.boolean if kind is bool else None)
    checked = Annotated[kind, BeforeValidator(read)] if read else kind
    table = f"[sink.{protocol.name}]"
    return checked, setting(option.default, option.description, flag=False, file=table, file_key=option.key)


_OPTIONS = [(protocol, option) for protocol in PROTOCOLS.values() for option in protocol.own_options]
UNPROVEN = {"terminator": "terminator"} | {
    option.key: field_of(protocol, option) for protocol, option in _OPTIONS if option.may_be_open
}
"""Keys of a changefeed that its files can leave open, and the settings that hold them."""


def unproven_keys(value: object) -> tuple[str, ...]:
    """Returns some of these keys. Raises ValueError."""
    keys = tuple(values.texts(value, "a list of keys"))
    if unknown := next((key for key in keys if key not in UNPROVEN), None):
        raise ValueError(f"{unknown} is none of {', '.join(UNPROVEN)}")
    return keys


ProtocolSettings: type[BaseModel] = create_model(
    "ProtocolSettings",
    __config__=ConfigDict(
        frozen=True, extra="forbid", arbitrary_types_allowed=True, validate_default=True, defer_build=True
    ),
    **{field_of(protocol, option): _of_protocol(protocol, option) for protocol, option in _OPTIONS},
)
"""The settings of the protocols' own tables: ``[sink.NAME]``."""
