"""`skip-ddl`: a statement that a person has dealt with."""

from __future__ import annotations

from typing import Annotated

import typer

from consumer.cli.command import Command
from consumer.cli.json_form import skipped_as_json
from consumer.cli.session import Invocation
from consumer.cli.table_names import parse_owner
from consumer.cli.text import out
from consumer.errors import BadConfig

Table = Annotated[
    str, typer.Option("--table", metavar="DB.T", help="The table, or the database; `a.b`.`c` where a name holds a dot.")
]
Version = Annotated[
    str, typer.Option("--version", metavar="V", help="The statement's table version, as it is reported.")
]
Reason = Annotated[str, typer.Option("--reason", metavar="TEXT", help="Why; recorded with the progress.")]


def skip_ddl(call: Invocation, table: Table, version: Version, reason: Reason = "skipped by hand") -> int:
    """Record a DDL that the target refused as done, without executing it; the table goes on with the next round."""
    from consumer import app

    if not version.isdecimal():
        raise BadConfig(f"--version is refused: '{version}' is not a table version (a whole number)")
    owner = parse_owner(table)
    sentence = app.skip_ddl(call.settings, call.observer, owner, int(version), reason)
    return call.show(lambda: skipped_as_json(owner, int(version), sentence), lambda: out(sentence))


COMMAND = Command(
    "skip-ddl",
    skip_ddl,
    "storage-consumer skip-ddl --table shop.orders --version 470611618366488576 --reason 'done by hand' "
    "--upstream-uri 'file:///data/cdc?protocol=canal-json' --downstream-uri mysql://root@127.0.0.1:3306/",
)
