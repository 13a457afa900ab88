"""Changes as the lines of data files."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import groupby

from consumer.codec.csv.options import CsvFormat
from consumer.model.columns import Column
from tests.support.csv_rows import header, record
from tests.support.upstream import DATABASE, Change, Row

ORDER = "DELETE", "UPDATE", "INSERT"


def canal_json(changes: Sequence[Change], commit_ts: bool, raw: bool) -> bytes:
    """`raw`: an UPDATE that changes a key is one line."""
    return b"".join(_line(change, commit_ts) for change in (changes if raw else _sorted(changes)))


def csv(changes: Sequence[Change], form: CsvFormat) -> bytes:
    lines = [header([column.name for column in changes[0].columns], form)] * form.output_field_header
    lines += [line for change in _sorted(changes) for line in _records(change, form)]
    return b"".join(line + b"\r\n" for line in lines)


def _sorted(changes: Sequence[Change]) -> Iterator[Change]:
    """Updates of keys are split; within a transaction DELETEs come first and INSERTs last."""
    for _, transaction in groupby(changes, key=lambda change: change.ts):
        pieces = [piece for change in transaction for piece in _split(change)]
        yield from sorted(pieces, key=lambda piece: ORDER.index(piece.kind))


def image(columns: Sequence[Column], side: tuple[int, Row]) -> Row:
    """All values of a row: its number is its id where it has one beside its values."""
    number, row = side
    return row if "id" in row or all(column.name != "id" for column in columns) else {"id": str(number), **row}


def keys_of(columns: Sequence[Column], uniques: tuple[tuple[str, ...], ...]) -> tuple[tuple[str, ...], ...]:
    """The columns of each key, first of the one that tells rows apart."""
    primary = tuple(column.name for column in columns if column.is_pk)
    return (primary, *uniques) if primary else uniques


def changes_a_key(change: Change) -> bool:
    if change.old is None or change.new is None:
        return False
    old, new = image(change.columns, change.old), image(change.columns, change.new)
    return any(old[name] != new[name] for names in keys_of(change.columns, change.uniques) for name in names)


def _split(change: Change) -> list[Change]:
    if not changes_a_key(change):
        return [change]
    return [replace(change, kind="DELETE", new=None), replace(change, kind="INSERT", old=None)]


def _line(change: Change, commit_ts: bool) -> bytes:
    names = [column.name for column in change.columns]
    message = {
        "id": 0, "database": DATABASE, "table": change.table,
        "pkNames": [column.name for column in change.columns if column.is_pk], "isDdl": False,
        "type": change.kind, "es": change.ts >> 18, "ts": 0, "sql": "", "sqlType": dict.fromkeys(names, 4),
        "mysqlType": dict.fromkeys(names, "int"),
        "old": [image(change.columns, change.old)] if change.kind == "UPDATE" and change.old else None,
        "data": [image(change.columns, side)] if (side := change.new or change.old) else None,
    }  # fmt: skip
    if commit_ts:
        message["_tidb"] = {"commitTs": change.ts}
    return json.dumps(message).encode() + b"\r\n"


def _records(change: Change, form: CsvFormat) -> Iterator[bytes]:
    if change.kind == "UPDATE" and form.output_old_value:
        yield _record("D", change, change.old, form, is_update=True)
        yield _record("I", change, change.new, form, is_update=True)
    else:
        yield _record(change.kind[0], change, change.new or change.old, form, is_update=False)


def _record(operation: str, change: Change, side: tuple[int, Row] | None, form: CsvFormat, is_update: bool) -> bytes:
    assert side is not None
    row = image(change.columns, side)
    values = [row[column.name] for column in change.columns]
    return record(operation, values, change.columns, form, change.ts, is_update, f"{DATABASE}.{change.table}")
