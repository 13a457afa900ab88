"""`retry`: quarantined rows, taken in again."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Annotated

import typer

from consumer.cli.command import Command
from consumer.cli.json_form import retry_as_json
from consumer.cli.session import Invocation
from consumer.cli.table_names import parse_table
from consumer.cli.text import out
from consumer.config.table_filter import table_filter
from consumer.errors import BadConfig, TableError
from consumer.model.names import TableName
from consumer.model.result import RetryResult
from consumer.model.texts import count_text

Table = Annotated[str, typer.Option("--table", metavar="RULE", help="Which tables: DB.T, or a rule as shop.*")]


def retry(call: Invocation, table: Table = "*.*") -> int:
    """Take quarantined rows in again, as the storage has them now. A newer change of the same key wins."""
    from consumer import app

    result = app.retry(call.settings, call.observer, _wanted(table, call.settings.case_sensitive))
    code = TableError.exit_code if any(row.quarantined for row in result.tables) else 0
    return call.show(lambda: retry_as_json(result), lambda: _print(result), code)


def _wanted(text: str, case_sensitive: bool) -> Callable[[TableName], bool]:
    """A table, as other commands take it, or a rule. Raises BadConfig."""
    with suppress(BadConfig):
        if (name := parse_table(text)) and not set(text) & set("*?[/"):
            return lambda table: table == name
    try:
        return table_filter((text,), case_sensitive).matches
    except ValueError as problem:
        raise BadConfig(f"--table is refused: {problem}") from None


def _print(result: RetryResult) -> None:
    if not result.tables:
        out("no rows are quarantined")
    for row in result.tables:
        taken = count_text(row.taken_in, "row is", "rows are")
        out(f"{row.table}: {taken} in the target now, {row.quarantined:,} still quarantined")
        if row.quarantined:
            out(f"  the first: {row.bad_row}")
        if row.error:
            out(f"  {row.error}")
        if row.hint:
            out(f"  {row.hint}")


COMMAND = Command(
    "retry",
    retry,
    "storage-consumer retry --table 'shop.*' --upstream-uri 'file:///data/cdc?protocol=canal-json' "
    "--downstream-uri mysql://root@127.0.0.1:3306/ --dead-letters file:///data/dead-letters",
)
