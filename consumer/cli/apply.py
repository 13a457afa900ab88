"""The commands that apply: `run`, `once`, `backfill`, `load-export`, `replay`, `resync`."""

from __future__ import annotations

from typing import Annotated

import typer

from consumer.cli.command import APPLIES, Table, command, parse_table, wanted_tables
from consumer.cli.session import Invocation
from consumer.cli.several import beside, in_turn
from consumer.model.events import Note, NoteKind

From = Annotated[
    str | None,
    typer.Option("--from-ts", metavar="TSO|TIME", help="Changes after this moment; without it from the start."),
]
To = Annotated[
    str | None,
    typer.Option("--to-ts", metavar="TSO|TIME", help="Changes up to this moment; without it to the checkpoint."),
]
Export = Annotated[
    str, typer.Argument(metavar="DIR|URI", help="The export: a folder, or a URI in the form of --upstream-uri.")
]
Some = Annotated[
    list[str] | None,
    typer.Option(
        "--table",
        metavar="RULE",
        help="Only these tables, of a replica that continues: DB.T, or a rule. It can be given several times.",
    ),
]


@command(
    "storage-consumer run --upstream-uri 's3://bucket/cdc?protocol=canal-json' "
    "--downstream-uri mysql://root@127.0.0.1:3306/ --flush-interval 5s --log-format json",
    (*APPLIES, "start", "waiting"),
    endless=True,
    of_all=beside,
    applies=True,
)
def run(call: Invocation) -> int:
    """Keep the target equal to the upstream: look for new files every --flush-interval until a signal comes."""
    from consumer import app

    return call.finish(app.run(call.settings, call.observer, call.stop))


@command(
    "storage-consumer once --upstream-uri 'file:///data/cdc?protocol=canal-json' "
    "--downstream-uri duckdb:///replica.duckdb --json",
    (*APPLIES, "start"),
    of_all=in_turn,
    applies=True,
)
def once(call: Invocation) -> int:
    """Apply everything up to the checkpoint that is in the storage now, then end. Made for schedules."""
    from consumer import app

    return call.finish(app.once(call.settings, call.observer, call.loader))


@command(
    "storage-consumer backfill --upstream-uri 's3://bucket/cdc?protocol=canal-json&region=eu-central-1' "
    "--downstream-uri mysql://root@127.0.0.1:3306/ --worker-count 8",
    (*APPLIES, "start"),
    of_all=in_turn,
    applies=True,
)
def backfill(call: Invocation) -> int:
    """Fill an empty target from the start of the storage, then end. Refuses a target with progress,
    and without --start-ts one with rows."""
    from consumer import app

    return call.finish(app.backfill(call.settings, call.observer, call.loader))


@command(
    "storage-consumer load-export s3://bucket/export --upstream-uri 's3://bucket/cdc?protocol=canal-json' "
    "--downstream-uri mysql://root@127.0.0.1:3306/",
    APPLIES,
    applies=True,
)
def load_export(call: Invocation, export: Export, table: Some = None) -> int:
    """Load an export of Dumpling. Then `once` and `run` apply the storage's later changes to its tables. If it is
    killed, run it again: it resumes."""
    from consumer import app

    some = wanted_tables(table, call.settings.case_sensitive) if table else None
    return call.finish(app.load_export(call.settings, call.observer, export, some))


@command(
    "storage-consumer replay --upstream-uri 's3://bucket/cdc?protocol=canal-json&region=eu-central-1' "
    "--downstream-uri duckdb:///march.duckdb --from-ts 2026-03-01T00:00:00Z --to-ts 2026-04-01T00:00:00Z",
    APPLIES,
    applies=True,
)
def replay(call: Invocation, from_ts: From = None, to_ts: To = None) -> int:
    """Apply exactly the changes between two moments, into any target. If it is killed, run it again: it resumes,
    because its progress has a name of its own, made of --name and the range."""
    from consumer import app

    return call.finish(app.replay(call.settings, call.observer, from_ts, to_ts))


@command(
    "storage-consumer resync --table shop.orders --upstream-uri 'file:///data/cdc?protocol=canal-json' "
    "--downstream-uri mysql://root@127.0.0.1:3306/",
    (*APPLIES, "start"),
    applies=True,
)
def resync(call: Invocation, table: Table) -> int:
    """Load one table again from the storage, parallel to the target's table, and replace that when all rows are there.
    This brings a stopped table back. Then all tables advance as in `once`."""
    from consumer import app

    name = parse_table(table)
    text = f"{name} is loaded again; then all tables are applied up to the checkpoint, as in `once`"
    call.observer.tell(Note(NoteKind.EMPTIED_TABLE, text, name))
    return call.finish(app.resync(call.settings, call.observer, name))
