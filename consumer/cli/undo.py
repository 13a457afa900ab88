"""`undo`: statements that take back a range of a table's changes."""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, Annotated

import typer

from consumer.cli.command import READS, Table, command, parse_table
from consumer.cli.session import Invocation, tell
from consumer.cli.text import readers_may_leave, say
from consumer.errors import CannotBeExact
from consumer.model.hints import hint_with_options
from consumer.model.texts import count_text
from consumer.model.times import time_text
from consumer.results import UndoResult

Where = Annotated[
    str, typer.Option("--where", metavar="EXPR", help="Only rows with a change of which it is TRUE before or after.")
]
From = Annotated[str, typer.Option("--from-ts", metavar="TSO|TIME", help="Take back changes after this moment.")]
To = Annotated[
    str | None, typer.Option("--to-ts", metavar="TSO|TIME", help="Up to this moment; all that the target has.")
]
Output = Annotated[str, typer.Option("--output", metavar="FILE", help="Write the statements to FILE, not to stdout.")]


@command(
    "storage-consumer undo --table du.t --from-ts 2026-11-21T06:01:00Z --output undo.sql "
    "--upstream-uri 'file:///data/cdc?protocol=canal-json' --downstream-uri mysql://root@127.0.0.1:3306/",
    READS,
)
def undo(
    call: Invocation, table: Table, from_ts: From, to_ts: To = None, where: Where = "", output: Output = ""
) -> int:
    """Write the statements that give each row of a table what it had before a range of changes. Changes nothing: a
    person runs them in the target. Rows that were changed again later are left out, and named."""
    from consumer.source.undo import undo as taken_back

    settings, name = call.settings, parse_table(table)
    first = settings.tso("--from-ts", from_ts)
    last = settings.tso("--to-ts", to_ts) if to_ts else None
    with _file(output) as file:
        result = taken_back(settings, call.observer, name, first, last, where, file)
    error = _left_out(result)
    code = 0 if error is None else error.exit_code
    say(f"{count_text(result.rows, 'row')} of {name} taken back to {time_text(first)}")
    call.show(result if error is None else result.ended_by(error), lambda: None, code)
    if error is not None:
        tell(error.sentence(), hint_with_options(error.hint, call.options), settings.scrub)
    return code


@contextmanager
def _file(name: str) -> Iterator[IO[bytes]]:
    """What is written is printed to stdout, or gets its name when it is complete."""
    from consumer.verify.mend import new_file

    if name:
        with new_file(name) as file:
            yield file
        return
    with tempfile.TemporaryFile() as file:
        yield file
        file.seek(0)
        with readers_may_leave():
            sys.stdout.flush()
            shutil.copyfileobj(file, sys.stdout.buffer)
            sys.stdout.buffer.flush()


def _left_out(result: UndoResult) -> CannotBeExact | None:
    if not result.left_out:
        return None
    why = "; ".join(f"{count_text(count, 'row')}: {reason}" for reason, count in result.left_out.items())
    return CannotBeExact(
        f"some rows are left out ({why})",
        hint="the statements name them in comments at their beginning; `changes --key` prints what was done to each",
        table=str(result.table),
    )
