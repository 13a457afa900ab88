"""`changes`: what became of the rows of a table, and when."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Annotated, Any

import typer

from consumer.cli.command import Table, command, parse_table
from consumer.cli.session import Invocation
from consumer.cli.text import exact, out, readers_may_leave
from consumer.errors import BadConfig
from consumer.model.texts import count_text
from consumer.model.times import time_text
from consumer.results import ChangesResult
from consumer.source.columns import BEFORE, COMMIT_TIME, COMMIT_TS, FILE, LINE, META_COLUMNS, OP, PLACE_COLUMNS

Key = Annotated[
    list[str] | None,
    typer.Option("--key", metavar="VALUE", help="Only the row with this key. Once for each column of the key."),
]
Where = Annotated[
    str, typer.Option("--where", metavar="EXPR", help="Only changes of which it is TRUE before or after, as 'v > 10'.")
]
From = Annotated[str | None, typer.Option("--from-ts", metavar="TSO|TIME", help="Changes after this moment.")]
To = Annotated[str | None, typer.Option("--to-ts", metavar="TSO|TIME", help="Changes up to this moment.")]
Form = Annotated[str, typer.Option("--format", metavar="text|jsonl|csv", help="How changes are printed.")]


@command(
    "storage-consumer changes --table du.t --key 2 --upstream-uri 'file:///data/cdc?protocol=canal-json'",
    ("storage", "process"),
)
def changes(
    call: Invocation,
    table: Table,
    key: Key = None,
    where: Where = "",
    from_ts: From = None,
    to_ts: To = None,
    format: Form = "text",
) -> int:
    """Print each change of a table's rows, or of one row, with the values before and after it. Reads
    the storage alone, in this process."""
    from consumer.codec.typed import floats_as_doubles
    from consumer.source.story import ordered_changes

    if format not in _FORMS:
        raise BadConfig(f"--format: {format!r} is none of {', '.join(_FORMS)}")
    name, settings = parse_table(table), call.settings
    first = settings.tso("--from-ts", from_ts) if from_ts else 0
    last = settings.tso("--to-ts", to_ts) if to_ts else None
    plan, found = ordered_changes(settings, str(name), key or (), where, first, last)
    count, write = 0, _FORMS[format]
    call.observer.close_bar()
    with readers_may_leave():
        for rows in found:
            for row in floats_as_doubles(rows).to_pylist():
                write(row, count == 0)
                count += 1
    result = ChangesResult(table=name, changes=count, to_ts=plan.end)
    return call.show(result, lambda: _total(result, format))


def _total(result: ChangesResult, format: str) -> None:
    if format == "text":
        out(f"{count_text(result.changes, 'change')} of {result.table} up to {time_text(result.to_ts)}")


Row = Mapping[str, Any]
_QUOTED = re.compile('[",\r\n]')


def _parts(row: Row) -> tuple[dict[str, Any], dict[str, Any]]:
    """Returns the new row of a change, and the old one."""
    left = {name: value for name, value in row.items() if name not in META_COLUMNS | PLACE_COLUMNS}
    return left, row[BEFORE] or {}


def _as_text(row: Row, _first: bool) -> None:
    left, found = _parts(row)
    if row[OP] == "U":
        changed = [f"{n}: {_shown(found.get(n))} -> {_shown(v)}" for n, v in left.items() if v != found.get(n)]
        same = [f"{n}={_shown(v)}" for n, v in left.items() if v == found.get(n)]
        values = f"{', '.join(changed) or 'nothing changed'}  ({', '.join(same)})"
    else:
        values = ", ".join(f"{name}={_shown(value)}" for name, value in left.items())
    out(f"{time_text(row[COMMIT_TS])}  {row[OP]}  {values}  {row[FILE]}:{row[LINE]}")


def _shown(value: object) -> str:
    return "NULL" if value is None else repr(value) if isinstance(value, str) else _plain(value)


def _plain(value: object) -> str:
    return value.hex() if isinstance(value, bytes) else str(value)


def _as_json(row: Row, _first: bool) -> None:
    exact(json.dumps({**row, "_commit_ts_str": str(row[COMMIT_TS])}, default=_plain, ensure_ascii=False))


def _as_csv(row: Row, first: bool) -> None:
    left, _ = _parts(row)
    head = {COMMIT_TIME: time_text(row[COMMIT_TS]), **{name: row[name] for name in (OP, COMMIT_TS, FILE, LINE)}}
    if first:
        exact(",".join(map(_cell, (*head, *left))))
    exact(",".join(map(_cell, (*head.values(), *left.values()))))


def _cell(value: object) -> str:
    """Returns nothing for NULL; an empty text gets quotation marks."""
    text = "" if value is None else _plain(value)
    quoted = value is not None and (not text or _QUOTED.search(text))
    return '"' + text.replace('"', '""') + '"' if quoted else text


_FORMS = {"text": _as_text, "jsonl": _as_json, "csv": _as_csv}
