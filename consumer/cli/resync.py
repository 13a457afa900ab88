"""`resync`: one table anew."""

from __future__ import annotations

from typing import Annotated

import typer

from consumer.cli.command import Command
from consumer.cli.session import Invocation
from consumer.cli.table_names import parse_table

Table = Annotated[str, typer.Option("--table", metavar="DB.T", help="The table; `a.b`.`c` where a name holds a dot.")]


def resync(call: Invocation, table: Table) -> int:
    """Empty one table of the target and load it again from the storage. Brings a stopped table back."""
    from consumer import app

    return call.finish(app.resync(call.settings, call.observer, parse_table(table)))


COMMAND = Command(
    "resync",
    resync,
    "storage-consumer resync --table shop.orders --upstream-uri 'file:///data/cdc?protocol=canal-json' "
    "--downstream-uri mysql://root@127.0.0.1:3306/",
)
