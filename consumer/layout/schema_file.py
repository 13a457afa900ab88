"""Parses schema files: one version of a table's columns, and the statement that made it."""

from __future__ import annotations

import posixpath
import re
import zlib
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from typing import TypeVar

import orjson

from consumer.errors import ChecksumMismatch, CorruptFile
from consumer.layout.paths import SchemaPath, render
from consumer.model.columns import Column, known_type
from consumer.model.files import SchemaFile

FORMAT_VERSION = 1
"""``Version`` in a schema file. Files without checksum have the table's version there instead."""

MAX_BYTES = 64 << 20
"""The largest accepted file, in bytes. TiDB's limits for a table and a statement are far lower."""

_MOST_SAID = 1000
"""The most characters of a sentence that repeats the content of a file."""

VIEW_COLUMN_TYPE = "UNSPECIFIED"
"""The ``ColumnType`` of every column of a view; views have no rows, so it has no family."""

_TABLE_ID = re.compile(r"[0-9]+")
_INTEGER = re.compile(r"-?[0-9]{1,19}")
_FLAGS = {"true": True, "false": False}
_T = TypeVar("_T")


class _Malformed(ValueError):
    """The reason why a document is wrong, without its coordinates."""


def is_view(columns: Sequence[Column]) -> bool:
    """Returns whether these are the columns of a view."""
    return bool(columns) and all(column.type == VIEW_COLUMN_TYPE for column in columns)


def parse_schema_file(path: SchemaPath, content: bytes) -> SchemaFile:
    """Returns the schema file at `path`. Errors have the path's root as their `table`.

    Raises ChecksumMismatch if content and name disagree on the checksum, CorruptFile for everything else that TiCDC
    would not have written there.
    """
    try:
        return _parse(path, content)
    except _Malformed as error:
        raise CorruptFile(
            f"{error}"[:_MOST_SAID],
            table=path.root,
            path=render(path),
            version=path.version,
            hint="put back the file that TiCDC wrote; only this table waits for it",
        ) from error


def _parse(path: SchemaPath, content: bytes) -> SchemaFile:
    document, lost_byte = _document(content)
    database, table = _get(document, "Schema", str), _get(document, "Table", str)
    members = _columns(document)
    actual = _verified(path, database, table, members, lost_byte)
    restored = [_restored(column, lost_byte) for column in members]
    database, table = database.replace(lost_byte, "\ufffd"), table.replace(lost_byte, "\ufffd")
    _check_place(path, document, database, table)
    old = path.checksum is None
    return SchemaFile(
        path=render(path),
        root=path.root,
        database=database,
        table=table,
        version=path.version,
        checksum=actual,
        query=_get(document, "Query", str, "" if old else None).replace(lost_byte, "\ufffd"),
        type=_get(document, "Type", int, 0 if old else None),
        columns=tuple(_column(column) for column in restored),
    )


def _document(content: bytes) -> tuple[Mapping[str, object], str]:
    if len(content) > MAX_BYTES:
        raise _Malformed(f"the schema file is larger than {MAX_BYTES} bytes")
    try:
        document, lost_byte = loads_keeping_lost_bytes(content.decode())
    except (UnicodeDecodeError, orjson.JSONDecodeError) as error:
        raise _Malformed(f"the schema file is not JSON: {error}") from error
    if not isinstance(document, dict):
        raise _Malformed("the schema file is not a JSON object")
    return document, lost_byte


def _columns(document: Mapping[str, object]) -> list[Mapping[str, object]]:
    columns = document.get("TableColumns")
    if columns is None:
        columns = []
    if not isinstance(columns, list) or not all(isinstance(column, dict) for column in columns):
        raise _Malformed("member TableColumns is not an array of objects")
    for column in columns:
        name = _get(column, "ColumnName", str)
        if not all(_is_flat(column.get(member)) for member in COLUMN_MEMBERS):
            raise _Malformed(f"column `{name}`: a member is neither a value nor an array of values")
    if _get(document, "TableColumnsTotal", int) != len(columns):
        raise _Malformed(f"member TableColumnsTotal is not the number of TableColumns, {len(columns)}")
    return columns


def _verified(
    path: SchemaPath, database: str, table: str, columns: Sequence[Mapping[str, object]], lost_byte: str
) -> int:
    """Returns the file's checksum: the one in its name, if its content has it in one of Go's two spellings."""
    for short_controls in (True, False):
        actual = checksum(database, table, columns, short_controls=short_controls, lost_byte=lost_byte)
        if path.checksum is None or path.checksum == actual:
            return actual
    raise ChecksumMismatch(
        f"the name of the schema file says checksum {path.checksum:010d}, but its content has {actual:010d}",
        table=path.root,
        path=render(path),
        version=path.version,
        hint="the file was edited or damaged: put back the one that TiCDC wrote",
    )


def _restored(column: Mapping[str, object], lost_byte: str) -> dict[str, object]:
    return {name: _restored_value(column[name], lost_byte) for name in COLUMN_MEMBERS if name in column}


def _restored_value(value: object, lost_byte: str) -> object:
    if isinstance(value, list):
        return [_restored_value(element, lost_byte) for element in value]
    return value.replace(lost_byte, "\ufffd") if isinstance(value, str) else value


def _is_flat(value: object) -> bool:
    elements = value if isinstance(value, list) else [value]
    return not any(isinstance(element, list | dict) for element in elements)


def _check_place(path: SchemaPath, document: Mapping[str, object], database: str, table: str) -> None:
    """Raises _Malformed unless the schema file is where its names belong (or under a table id), and has the version of
    its path."""
    if path.checksum is None:
        version = _get(document, "TableVersion", int, _get(document, "Version", int))
    else:
        version = _get(document, "TableVersion", int)
        if (written := _get(document, "Version", int)) != FORMAT_VERSION:
            raise _Malformed(f"format version {written} of schema files is not known, only {FORMAT_VERSION}")
    if version != path.version:
        raise _Malformed(f"the schema file's path says version {path.version}, but its content {version}")
    by_id = table and is_table_id(path.root)
    if not by_id and root_of(database, table) != path.root:
        raise _Malformed(f"the schema file's content names `{database}`.`{table}`, but its path {path.root!r}")


def is_table_id(root: str) -> bool:
    """Returns whether `root` can be that of a changefeed with table ids for paths: it does not contain the table's
    name."""
    return _TABLE_ID.fullmatch(root) is not None


def root_of(database: str, table: str) -> str:
    """Returns names as folders: what Go's path.Join makes of them, relative to the upstream URI."""
    cleaned = posixpath.normpath(posixpath.join(database, table.lstrip("/"))).strip("/")
    return "" if cleaned == "." else cleaned


def _column(members: Mapping[str, object]) -> Column:
    name = _get(members, "ColumnName", str)
    try:
        written = _get(members, "ColumnType", str)
        kind = written.removesuffix(" UNSIGNED")
        if not known_type(kind) and kind != VIEW_COLUMN_TYPE:
            raise _Malformed(f"type {written} is not known")
        return Column(
            name=name,
            type=kind,
            unsigned=kind != written,
            length=_size(members, "ColumnPrecision"),
            scale=_size(members, "ColumnScale"),
            nullable=_flag(members, "ColumnNullable", default=True),
            is_pk=_flag(members, "ColumnIsPk", default=False),
            default=_default(members),
            elements=_elements(members),
        )
    except _Malformed as error:
        raise _Malformed(f"column `{name}`: {error}") from error


def _size(members: Mapping[str, object], name: str) -> int | None:
    """Returns a length or scale; None if it is not set (absent, or -1)."""
    text = _get(members, name, str, "-1")
    if not _INTEGER.fullmatch(text):
        raise _Malformed(f"member {name} is not a number: {text!r}")
    return int(text) if int(text) >= 0 else None


def _flag(members: Mapping[str, object], name: str, *, default: bool) -> bool:
    text = _get(members, name, str, str(default).lower())
    if text not in _FLAGS:
        raise _Malformed(f"member {name} is neither true nor false: {text!r}")
    return _FLAGS[text]


def _default(members: Mapping[str, object]) -> str | None:
    value = members.get("ColumnDefault")
    if isinstance(value, list):
        raise _Malformed("member ColumnDefault is not a scalar")
    return value if value is None or isinstance(value, str) else dumps(value)


def _elements(members: Mapping[str, object]) -> tuple[str, ...]:
    elements = members.get("ColumnElems", [])
    if not isinstance(elements, list) or not all(isinstance(element, str) for element in elements):
        raise _Malformed("member ColumnElems is not an array of strings")
    return tuple(elements)


def _get(members: Mapping[str, object], name: str, kind: type[_T], default: _T | None = None) -> _T:
    """Returns the member `name`, of type `kind`. Without a default it must exist."""
    value = members.get(name, default)
    if isinstance(value, kind) and not isinstance(value, bool):
        return value
    raise _Malformed(f"member {name} is {'missing' if value is None else f'no {kind.__name__}'}")


COLUMN_MEMBERS = (
    "ColumnId",
    "ColumnName",
    "ColumnType",
    "ColumnDefault",
    "ColumnPrecision",
    "ColumnScale",
    "ColumnNullable",
    "ColumnIsPk",
    "ColumnElems",
)
"""The members of one of ``TableColumns``, in the order in which they are written."""


def checksum(
    database: str,
    table: str,
    columns: Iterable[Mapping[str, object]],
    *,
    short_controls: bool = True,
    lost_byte: str | None = None,
) -> int:
    r"""Returns the checksum of a schema file whose ``TableColumns`` are `columns` (as JSON members, in any order).

    `short_controls` selects one of the two spellings of backspace and form feed. `lost_byte` is a placeholder for the
    escape ``\ufffd``: see `dumps`.
    """
    kept = [{name: column[name] for name in COLUMN_MEMBERS if name in column} for column in columns]
    hashed = {
        "Table": table,
        "Schema": database,
        "Version": 0,
        "TableColumns": sorted(kept, key=lambda column: str(column["ColumnName"])),
        "TableColumnsTotal": len(kept),
    }
    return zlib.crc32(dumps(hashed, short_controls=short_controls, lost_byte=lost_byte).encode())


_INDENT = "    "
_CONTROLS = {code: f"\\u{code:04x}" for code in range(0x20)}
_NAMED = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t"}
_BY_NUMBER = {char: f"\\u{ord(char):04x}" for char in "<>&\u2028\u2029"}
_ESCAPES = _CONTROLS | {ord(char): text for char, text in (_NAMED | _BY_NUMBER).items()}
_SHORT_CONTROLS = {0x08: "\\b", 0x0C: "\\f"}
_LOST_BYTE = re.compile(r"(?<!\\)((?:\\\\)*)\\ufffd")


def loads_keeping_lost_bytes(text: str) -> tuple[object, str]:
    r"""Returns the value of a JSON text, with each ``\ufffd`` escape as a placeholder, and the placeholder.

    Go writes a byte that is not UTF-8 as that escape, but a real U+FFFD raw: once decoded they would look the same.
    Raises orjson.JSONDecodeError.
    """
    placeholder = next(char for char in map(chr, range(0x10FFFF, 0, -1)) if char not in text)
    return orjson.loads(_LOST_BYTE.sub(rf"\1{placeholder}", text)), placeholder


def dumps(value: object, *, short_controls: bool = True, lost_byte: str | None = None) -> str:
    r"""Returns `value` as ``json.MarshalIndent(value, "", "    ")`` writes it.

    `short_controls` writes ``\b`` and ``\f`` (Go 1.22 and later) and not ``\u0008`` and ``\u000c``. `lost_byte` is the
    placeholder of `loads_keeping_lost_bytes`. Raises TypeError for a value that JSON does not have.
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
    """Returns the shortest digits; with an exponent, without padding, only below 1e-6 and from 1e21 on."""
    if number and not 1e-6 <= abs(number) < 1e21:
        mantissa, _, exponent = f"{Decimal(repr(number)).normalize():e}".partition("e")
        return f"{mantissa}e{int(exponent):+d}"
    return f"{Decimal(repr(number)):f}".removesuffix(".0")
