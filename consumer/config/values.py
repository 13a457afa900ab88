"""Turns the written forms of settings, text or TOML values, into typed values. Each reader raises ValueError with what
is allowed; the loader puts the name of the setting before it."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping
from datetime import datetime

from pydantic import ValidationInfo

from consumer.codec import PROTOCOLS
from consumer.config.secrets import REFERENCES, Uri, read_secret
from consumer.config.sentences import OfKey, one_of
from consumer.config.table_filter import TableFilter
from consumer.errors import BadConfig
from consumer.model.names import NAME_LIMIT
from consumer.model.naming import Route, routes_of
from consumer.model.rules import Consistency
from consumer.model.times import MAX_TSO, ms_to_tso, zone_of
from consumer.sink import TARGETS, schemes
from consumer.spark.sizes import PACKED_BYTES
from consumer.storage.settings import StorageSettings

DATE_SEPARATORS = ("none", "year", "month", "day")
LOG_LEVELS = ("debug", "info", "warning", "error")

_GO_UNITS = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "ns": 1e-9}
_GO_DURATION = re.compile(r"(?:\d+(?:\.\d*)?|\.\d+)(?:h|ms|m|s|us|µs|ns)")
_SIZE_UNITS = {"": 1, "B": 1} | {
    f"{p}{u}": b**n for n, p in enumerate("KMGT", 1) for u, b in (("B", 1000), ("iB", 1024), ("", 1024))
}
"""A letter alone is a power of 1024, as for Spark and the JVM."""
_OFFSET = re.compile(r"([+-])(\d{1,2}):?(\d{2})")


def upstream(text: object) -> Uri:
    """Returns a storage URI, as TiCDC's sink-uri. Also raises BadConfig, in the storage's own words."""
    StorageSettings.from_uri(str(text))
    return Uri(text)


def dead_letters(text: object) -> Uri | None:
    """Returns where quarantined rows are kept."""
    if text is None:
        return None
    try:
        StorageSettings.from_uri(str(text), "it")
    except BadConfig as refused:
        raise ValueError(refused.message) from None
    return Uri(text)


def downstream(text: object) -> Uri:
    """Returns a target URI; the sink checks what follows the scheme."""
    uri = Uri(text)
    if uri.partition("://")[0] not in TARGETS:
        raise ValueError(f"{uri!r} does not begin with one of {schemes()}")
    return uri


def protocol(text: object) -> str:
    """Returns how the changefeed encodes rows."""
    return one_of(str(text).lower().replace("_", "-"), tuple(PROTOCOLS))


def duration(value: object) -> float:
    """Returns the seconds of a Go duration text."""
    text = str(value)
    pieces = _GO_DURATION.findall(text)
    seconds = sum(_piece(piece) for piece in pieces)
    if "".join(pieces) != text or seconds <= 0:
        raise ValueError(f"'{text}' is not a duration; give a number above zero with its unit, as 10s, 500ms or 1m30s")
    return seconds


def wait(value: object) -> float:
    """Returns the seconds of a Go duration text, or 0."""
    return 0.0 if str(value) in ("0", "0s", "0.0") else duration(value)


def address(value: object) -> tuple[str, int] | None:
    """Returns host and port of ``HOST:PORT``, for IPv6 of ``[HOST]:PORT``; None stays."""
    if value is None:
        return None
    host, colon, port = str(value).rpartition(":")
    if not colon or not host or not port.isdecimal() or int(port) >= 1 << 16:
        raise ValueError(f"'{value}' is not of the form HOST:PORT, as 127.0.0.1:9464")
    return host.removeprefix("[").removesuffix("]"), int(port)


def is_local(host: str) -> bool:
    """Returns whether only this machine reaches an address of `host`."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


_SHORTEST_TOKEN = 16


def token(value: object, info: ValidationInfo) -> str:
    """Returns a secret, which the text holds or names; "" for none."""
    text = str(value)
    if re.match(REFERENCES, text):
        text = read_secret(text, "http-token", info.context or {})
    if text and len(text) < _SHORTEST_TOKEN:
        raise OfKey(f"has less than {_SHORTEST_TOKEN} characters, so it could be guessed")
    return text


def _piece(piece: str) -> float:
    number = piece.rstrip("hmsunµ")
    return float(number) * _GO_UNITS[piece[len(number) :]]


def size(value: object) -> int:
    """Returns bytes: a whole number, or one with a unit."""
    match = re.fullmatch(r"\s*(\d+)\s*([A-Za-z]*)\s*", str(value))
    unit = match[2] if match else "?"
    factor = next((size for name, size in _SIZE_UNITS.items() if name.lower() == unit.lower()), 0)
    if match is None or not factor or not int(match[1]):
        raise ValueError(
            f"'{value}' is not a size above zero; give bytes, or a number with its unit, as 256MiB or 4GiB"
        )
    return int(match[1]) * factor


def little_size(value: object) -> int:
    """Returns 0, or bytes that one task may read."""
    bytes_ = 0 if str(value).strip() == "0" else size(value)
    if bytes_ > PACKED_BYTES:
        raise ValueError(f"'{value}' is more than 64MiB: larger loads are Spark's")
    return bytes_


def whole_number(value: object) -> int:
    """Returns a whole number above zero."""
    if isinstance(value, bool) or not re.fullmatch(r"\d+", str(value)) or not int(str(value)):
        raise ValueError(f"'{value}' is not a whole number above zero")
    return int(str(value))


def none_or_more(value: object) -> int:
    """Returns a whole number, which can be 0."""
    if isinstance(value, bool) or not re.fullmatch(r"\d{1,9}", str(value)):
        raise ValueError(f"'{value}' is not a whole number below a billion")
    return int(str(value))


def index_width(value: object) -> int:
    """Returns the digits of a file number, as TiCDC's file-index-digit."""
    if not re.fullmatch(r"\d+", str(value)) or not 6 <= int(str(value)) <= 20:
        raise ValueError(f"'{value}' is not a file index width; give a number from 6 to 20")
    return int(str(value))


def days(value: object) -> int | None:
    """Returns a number of days; 0: no limit, None: unknown."""
    if value is None:
        return None
    if isinstance(value, bool) or not re.fullmatch(r"\d{1,5}", str(value)):
        raise ValueError(f"'{value}' is not a number of days")
    return int(str(value))


def boolean(value: object) -> bool:
    """Returns true or false, from the spellings that environments use."""
    text = str(value).lower()
    if text not in ("true", "false", "1", "0", "yes", "no"):
        raise ValueError(f"'{value}' is not a switch; give true or false")
    return text in ("true", "1", "yes")


def checkpoint(value: object) -> str | int | None:
    """Returns ``max`` or a TSO, for a storage without `metadata`."""
    if value is None or value == "max":
        return value
    if not re.fullmatch(r"\d+", str(value)) or not 0 < int(str(value)) <= MAX_TSO:
        raise ValueError(f"'{value}' is neither max nor a TSO (a whole number, as checkpoint-ts in metadata)")
    return int(str(value))


def zone_name(value: object) -> str:
    """Returns the name of a time zone that exists; offsets get two digits of hours, as servers need them."""
    name = str(value)
    if name.lower() == "system":
        return "System"
    zone_of(name)
    offset = _OFFSET.fullmatch(name)
    return f"{offset[1]}{offset[2]:0>2}:{offset[3]}" if offset else name


def terminator(value: object) -> bytes:
    """Returns what ends a line; an empty text stands for TiCDC's own default."""
    return (value if isinstance(value, bytes) else str(value).encode()) or b"\r\n"


def date_separator(value: object) -> str | None:
    """Returns the date level of data folders."""
    return None if value is None else one_of(str(value).lower(), DATE_SEPARATORS)


def log_level(value: object) -> str:
    """Returns a level; Go's spellings are accepted, too."""
    name = str(value).lower()
    return one_of(
        {"warn": "warning", "fatal": "error", "panic": "error", "dpanic": "error"}.get(name, name), LOG_LEVELS
    )


def date_order(value: object) -> str:
    """Returns what orders the files of date folders."""
    return one_of(str(value).lower(), ("", "date", "time"))


def consistency(value: object) -> Consistency:
    """Returns row, table or snapshot."""
    return Consistency(one_of(str(value).lower(), tuple(Consistency)))


def log_format(value: object) -> str:
    """Returns text or json."""
    return one_of(str(value).lower(), ("text", "json"))


def consumer_name(value: object) -> str:
    """Returns the name of the progress: a key in the target's tables, so it is short and plain."""
    if not re.fullmatch(rf"[\w.-]{{1,{NAME_LIMIT}}}", str(value), re.ASCII):
        raise ValueError(f"'{value}' is not a name; give 1 to {NAME_LIMIT} letters, digits, '_', '-' or '.'")
    return str(value)


def rules(value: object) -> tuple[str, ...]:
    """Returns table filter rules, each checked."""
    entries = texts(value, "a list of rules")
    checked = tuple(rule for text in entries for rule in split_rules(text))
    if entries and not checked:
        raise ValueError("it has no rule, and every table would be taken; leave it out for that")
    TableFilter(checked)
    return checked


def routes(value: object) -> tuple[Route, ...]:
    """Reads ``FROM -> TO`` entries: a list, a text with these divided by ``;``, or the file's tables with `from`, `to`,
    and `merge` if tables are merged."""
    entries = value.split(";") if isinstance(value, str) else value
    if not isinstance(entries, (list, tuple)):
        raise ValueError("give a list of routes")
    route_texts = [_route(entry) if isinstance(entry, Mapping) else str(entry) for entry in entries]
    return routes_of([text for text in route_texts if text.strip()])


def _route(entry: Mapping[str, object]) -> str:
    if set(entry) - {"merge"} != {"from", "to"}:
        raise ValueError(f"a route has from and to, and may have merge; this one has {', '.join(entry) or 'nothing'}")
    route, column = f"{entry['from']} -> {entry['to']}", entry.get("merge", "")
    if not isinstance(column, str):
        raise ValueError(f"merge = {str(column).lower()}: give a column's name; without one, tables cannot be merged")
    return f"{route} merge `{column.replace('`', '``')}`" if column else route


def split_rules(text: str) -> list[str]:
    """Splits rules at commas, but not at those inside quotes."""
    parts = re.findall(r"""((?:"(?:[^"]|"")*"|`(?:[^`]|``)*`|/(?:[^/\\]|\\.)*/|[^,])+)""", text)
    return [rule.strip() for rule in parts if rule.strip()]


def pairs(value: object) -> tuple[tuple[str, str], ...]:
    """Reads ``K=V`` entries: a TOML table, a list, or a text divided by ``;``."""
    if isinstance(value, Mapping):
        return tuple((str(key), _spark_text(entry)) for key, entry in value.items())
    entries = value.split(";") if isinstance(value, str) else texts(value, "a list of K=V or a table")
    return tuple(_pair(entry) for entry in entries if entry.strip())


def commands(value: object) -> tuple[str, ...]:
    """Reads commands or URLs: one, or a list."""
    return tuple(text for text in texts(value, "a command or a URL, or a list of them") if text.strip())


def _pair(entry: str) -> tuple[str, str]:
    key, equals, text = entry.partition("=")
    if not equals or not key.strip():
        raise ValueError(f"'{entry}' is not of the form K=V, as spark.driver.memory=4g")
    return key.strip(), text.strip()


def _spark_text(entry: object) -> str:
    return str(entry).lower() if isinstance(entry, bool) else str(entry)


def texts(value: object, wanted: str) -> list[str]:
    """Reads a text alone, or a list of texts; `wanted` is what else to give. Raises ValueError."""
    if isinstance(value, str):
        return [value]
    if not isinstance(value, (list, tuple)) or not all(isinstance(entry, str) for entry in value):
        raise ValueError(f"give {wanted}")
    return list(value)


# Moments of the upstream's history, as people give them: a TSO, or a time.

_FORM = "give a TSO, or a time as 2006-01-02T15:04:05Z, 2006-01-02T15:04:05+08:00 or '2006-01-02 15:04:05' with --tz"


def moment(value: object) -> str | None:
    """Returns a moment in a written form that `tso_of` takes."""
    if value is None:
        return None
    text = str(value).strip()
    if not text.isdecimal():
        _time(text)
    elif not 0 < int(text) <= MAX_TSO:
        raise ValueError(f"'{text}' is not a TSO; {_FORM}")
    return text


def tso_of(text: str, zone_name: str) -> int:
    """Returns the TSO of a moment. A time is the first TSO of its millisecond, as in TiDB; one without its own zone is
    in `zone_name`. Raises ValueError if that is System, or if the clocks were turned at that time."""
    if text.isdecimal():
        return int(text)
    time = _time(text)
    if time.tzinfo is None:
        time = _placed(text, time, zone_name)
    milliseconds = round(time.timestamp() * 1000)
    if not 0 < ms_to_tso(milliseconds) <= MAX_TSO:
        raise ValueError(f"'{text}' is no time that a TSO can have")
    return ms_to_tso(milliseconds)


def _time(text: str) -> datetime:
    # TiDB writes the zone after a blank, as in "2006-01-02 15:04:05 +0800".
    joined = re.sub(r"\s+(?=[+-]\d\d:?\d\d$|Z$)", "", text)
    try:
        return datetime.fromisoformat(joined)
    except ValueError:
        raise ValueError(f"'{text}' is no moment; {_FORM}") from None


def _placed(text: str, time: datetime, zone_name: str) -> datetime:
    if zone_name == "System":
        raise ValueError(
            f"'{text}' does not say its time zone; write it as {time.isoformat()}Z, or give the zone with --tz"
        )
    zone = zone_of(zone_name)
    early, late = time.replace(tzinfo=zone, fold=0), time.replace(tzinfo=zone, fold=1)
    if early.utcoffset() != late.utcoffset():
        raise ValueError(f"'{text}' is a time at which the clocks of {zone_name} were turned; write it with its offset")
    return early
