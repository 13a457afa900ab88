"""Changes as the lines of data files."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from itertools import groupby

from consumer.codec.csv.options import CsvFormat
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


def _split(change: Change) -> list[Change]:
    if change.kind != "UPDATE" or (change.old and change.new and change.old[0] == change.new[0]):
        return [change]
    place = (change.partition, change.columns)
    return [
        Change(change.ts, change.table, "DELETE", change.old, None, *place),
        Change(change.ts, change.table, "INSERT", None, change.new, *place),
    ]


def _image(change: Change, side: tuple[int, Row]) -> Row:
    keyed = any(column.is_pk for column in change.columns)
    return {"id": str(side[0]), **side[1]} if keyed else side[1]


def _line(change: Change, commit_ts: bool) -> bytes:
    names = [column.name for column in change.columns]
    message = {
        "id": 0, "database": DATABASE, "table": change.table,
        "pkNames": [column.name for column in change.columns if column.is_pk], "isDdl": False,
        "type": change.kind, "es": change.ts >> 18, "ts": 0, "sql": "", "sqlType": dict.fromkeys(names, 4),
        "mysqlType": dict.fromkeys(names, "int"),
        "old": [_image(change, change.old)] if change.kind == "UPDATE" and change.old else None,
        "data": [_image(change, side)] if (side := change.new or change.old) else None,
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
    row = _image(change, side)
    values = [row[column.name] for column in change.columns]
    return record(operation, values, change.columns, form, change.ts, is_update, f"{DATABASE}.{change.table}")
