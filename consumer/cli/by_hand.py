"""What a person does by hand: `retry`, `skip-ddl`, `forget`, `maintain`."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated

import typer

from consumer.cli.command import READS, command, parse_owner, wanted_tables
from consumer.cli.session import Invocation
from consumer.cli.text import out
from consumer.config.settings import TargetSettings
from consumer.errors import BadConfig, TableError
from consumer.model.hints import hint_with_options
from consumer.model.texts import count_text
from consumer.results import MaintainResult, RetryResult

Tables = Annotated[str, typer.Option("--table", metavar="RULE", help="Which tables: DB.T, or a rule as shop.*")]
Owner = Annotated[
    str, typer.Option("--table", metavar="DB.T", help="The table, or the database; `a.b`.`c` where a name holds a dot.")
]
Version = Annotated[
    str, typer.Option("--version", metavar="V", help="The statement's table version, as it is reported.")
]
Reason = Annotated[str, typer.Option("--reason", metavar="TEXT", help="Why; recorded with the progress.")]
Keep = Annotated[
    int, typer.Option("--keep", metavar="DAYS", min=1, help="For how long old versions of tables can still be read.")
]
Yes = Annotated[bool, typer.Option("--yes", help="Remove it. Without this flag, only print what would be removed.")]


@command(
    "storage-consumer retry --table 'shop.*' --upstream-uri 'file:///data/cdc?protocol=canal-json' "
    "--downstream-uri mysql://root@127.0.0.1:3306/ --dead-letters file:///data/dead-letters",
    (*READS, "spark", "bad rows"),
)
def retry(call: Invocation, table: Tables = "*.*") -> int:
    """Take quarantined rows in again, as the storage has them now. A newer change of the same key wins."""
    from consumer import app

    result = app.retry(call.settings, call.observer, wanted_tables([table], call.settings.case_sensitive))
    code = TableError.exit_code if any(row.quarantined for row in result.tables) else 0
    return call.show(result, lambda: _print_retry(result, call.options), code)


def _print_retry(result: RetryResult, options: str) -> None:
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
            out(*(f"  {line}" for line in hint_with_options(row.hint, options).split("\n")))


@command(
    "storage-consumer skip-ddl --table shop.orders --version 470611618366488576 --reason 'done by hand' "
    "--upstream-uri 'file:///data/cdc?protocol=canal-json' --downstream-uri mysql://root@127.0.0.1:3306/",
    READS,
)
def skip_ddl(call: Invocation, table: Owner, version: Version, reason: Reason = "skipped by hand") -> int:
    """Record a statement that stopped its table as done, without executing it. The next round continues the table."""
    from consumer import app

    if not version.isdecimal():
        raise BadConfig(f"--version is refused: '{version}' is not a table version (a whole number)")
    result = app.skip_ddl(call.settings, call.observer, parse_owner(table), int(version), reason)
    return call.show(result, lambda: out(result.skipped))


@command(
    "storage-consumer forget --name old --yes --downstream-uri mysql://root@127.0.0.1:3306/",
    ("target", "process"),
    settings=TargetSettings,
)
def forget(call: Invocation, yes: Yes = False) -> int:
    """Remove the progress of a consumer name that is no longer used. The target's tables stay, except those
    that a `resync` or `load-export` of that name has not finished; other names may apply to them from then on. Needs
    no storage."""
    from consumer import app

    if "name" not in call.settings.model_fields_set:
        raise BadConfig("forget needs --name", hint="give the name to be forgotten with --name")
    result = app.forget(call.settings, call.observer, yes)
    return call.show(result, lambda: out(result.forgotten))


@command(
    "storage-consumer maintain --downstream-uri delta:///data/lake --keep 7",
    ("target", "process", "spark"),
    settings=TargetSettings,
)
def maintain(call: Invocation, keep: Keep = 7) -> int:
    """Put the small files of a lake's tables together, and remove what nobody reads any more. Can run beside `run`.
    Needs no storage."""
    from consumer import app

    result = app.maintain(call.settings, call.observer, timedelta(days=keep), call.loader)
    return call.show(result, lambda: _print_maintained(result))


def _print_maintained(result: MaintainResult) -> None:
    if not result.tables:
        out("there are no tables")
    for row in result.tables:
        if row.removed:
            out(f"{row.table}: removed, as no table has it")
        elif row.left:
            out(f"{row.table}: left as it is: {row.left}")
        elif row.files_before:
            before, after = (count_text(count, "file") for count in (row.files_before, row.files_after))
            out(f"{row.table}: {before} before, {after} now")
        else:
            out(f"{row.table}: nothing to put together")
