"""JSON text as Go's encoding/json writes it, for checksums over that text."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from decimal import Decimal

import orjson

_INDENT = "    "
_CONTROLS = {code: f"\\u{code:04x}" for code in range(0x20)}
_NAMED = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t"}
_BY_NUMBER = {char: f"\\u{ord(char):04x}" for char in "<>&\u2028\u2029"}
_ESCAPES = _CONTROLS | {ord(char): text for char, text in (_NAMED | _BY_NUMBER).items()}
_SHORT_CONTROLS = {0x08: "\\b", 0x0C: "\\f"}
_LOST_BYTE = re.compile(r"(?<!\\)((?:\\\\)*)\\ufffd")


def loads_keeping_lost_bytes(text: str) -> tuple[object, str]:
    r"""The value of a JSON text, with each ``\ufffd`` escape as the placeholder that is returned beside it.

    Go writes a byte that is not UTF-8 as that escape, but a real U+FFFD raw: once decoded they would look the same.
    Raises orjson.JSONDecodeError.
    """
    placeholder = next(char for char in map(chr, range(0x10FFFF, 0, -1)) if char not in text)
    return orjson.loads(_LOST_BYTE.sub(rf"\1{placeholder}", text)), placeholder


def dumps(value: object, *, short_controls: bool = True, lost_byte: str | None = None) -> str:
    r"""`value` as ``json.MarshalIndent(value, "", "    ")`` writes it.

    `short_controls`: ``\b`` and ``\f`` (Go 1.22 and later) and not ``\u0008`` and ``\u000c``. `lost_byte` is the
    placeholder of `loads_keeping_lost_bytes`. Raises TypeError for what JSON does not know.
    """
    escapes = {**_ESCAPES, **(_SHORT_CONTROLS if short_controls else {})}
    if lost_byte is not None:
        escapes[ord(lost_byte)] = "\\ufffd"
    return _value(value, escapes, "\n")


def _value(value: object, escapes: Mapping[int, str], line_break: str) -> str:
    match value:
        case str():
            return _string(value, escapes)
        case None | bool():
            return {None: "null", True: "true", False: "false"}[value]
        case int():
            return str(value)
        case float():
            return _float(value)
        case Mapping():
            inner = line_break + _INDENT
            members = [f"{_string(name, escapes)}: {_value(member, escapes, inner)}" for name, member in value.items()]
            return _block("{", members, "}", line_break)
        case Sequence():
            elements = [_value(element, escapes, line_break + _INDENT) for element in value]
            return _block("[", elements, "]", line_break)
    raise TypeError(f"{type(value).__name__} has no JSON form")


def _block(opening: str, parts: Sequence[str], closing: str, line_break: str) -> str:
    if not parts:
        return opening + closing
    inner = line_break + _INDENT
    return opening + inner + f",{inner}".join(parts) + line_break + closing


def _string(text: str, escapes: Mapping[int, str]) -> str:
    return f'"{text.translate(escapes)}"'


def _float(number: float) -> str:
    """Shortest digits; an exponent, without padding, only below 1e-6 and from 1e21 on."""
    if number and not 1e-6 <= abs(number) < 1e21:
        mantissa, _, exponent = f"{Decimal(repr(number)).normalize():e}".partition("e")
        return f"{mantissa}e{int(exponent):+d}"
    return f"{Decimal(repr(number)):f}".removesuffix(".0")
