"""`verify`: is the target equal to the storage?"""

from __future__ import annotations

from typing import Annotated

import typer

from consumer.cli.command import Command
from consumer.cli.json_form import verify_as_json
from consumer.cli.session import Invocation, tell
from consumer.cli.table_names import parse_table
from consumer.cli.verify_text import print_verify
from consumer.errors import BadConfig
from consumer.model.check import Repairing

Table = Annotated[
    list[str] | None,
    typer.Option("--table", metavar="DB.T", help="Only this table. Can be given several times."),
]
Show = Annotated[int, typer.Option("--show", metavar="N", help="The most rows that differ to print of each table.")]
Ranges = Annotated[
    int,
    typer.Option("--ranges-at-a-time", metavar="N", help="The most ranges of rows to read from the target at a time."),
]
Strict = Annotated[
    bool, typer.Option("--strict", help="Exit with 3 if anything could not be compared, though nothing differs.")
]
MakeRight = Annotated[
    bool, typer.Option("--repair", help="Write the rows that differ as the storage has them, and compare them again.")
]
RepairSql = Annotated[
    str,
    typer.Option("--repair-sql", metavar="FILE", help="Write to FILE the statements that make the rows right."),
]


def verify(
    call: Invocation,
    table: Table = None,
    show: Show = 10,
    ranges_at_a_time: Ranges = 2,
    strict: Strict = False,
    repair: MakeRight = False,
    repair_sql: RepairSql = "",
) -> int:
    """Compare the rows of the target with the storage, and print what differs. Changes nothing without --repair."""
    from consumer import app

    if show < 0 or ranges_at_a_time < 1:
        raise BadConfig("--show must not be below 0, and --ranges-at-a-time not below 1")
    if repair and repair_sql:
        raise BadConfig("--repair writes the rows, --repair-sql only statements: give one of the two")
    names = [parse_table(text) for text in table or ()]
    repairing = Repairing(repair, repair_sql)
    result = app.verify(call.settings, call.observer, names, show, ranges_at_a_time, repairing=repairing)
    result = result.scrubbed(call.settings.scrub)
    error = result.verdict(strict)
    code = 0 if error is None else error.exit_code
    call.show(lambda: verify_as_json(result, error), lambda: print_verify(result), code)
    if error is not None:
        tell(error.sentence(), error.hint, call.settings.scrub)
    return code


COMMAND = Command(
    "verify",
    verify,
    "storage-consumer verify --upstream-uri 'file:///data/cdc?protocol=canal-json' "
    "--downstream-uri mysql://root@127.0.0.1:3306/",
)
