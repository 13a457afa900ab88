"""`lake-at`: the tables of a lake as they were at a moment."""

from __future__ import annotations

from typing import Annotated

import typer

from consumer.cli.command import command, wanted_tables
from consumer.cli.session import Invocation
from consumer.cli.text import exact, out
from consumer.config.settings import TargetSettings
from consumer.model.names import qualified
from consumer.model.times import time_text
from consumer.results import LakeAtResult

Moment = Annotated[str, typer.Option("--moment", metavar="TSO|TIME", help="The moment of upstream.")]
Tables = Annotated[str, typer.Option("--table", metavar="RULE", help="Which tables: DB.T, or a rule as shop.*")]
Views = Annotated[bool, typer.Option("--views", help="Print a CREATE VIEW for each table, for Spark SQL.")]


@command(
    "storage-consumer lake-at --moment 2026-03-01T00:00:00Z --downstream-uri delta:///data/lake",
    ("target", "process", "spark"),
    settings=TargetSettings,
)
def lake_at(call: Invocation, moment: Moment, table: Tables = "*.*", views: Views = False) -> int:
    """Print which version each table of a lake had at a moment. Can run beside `run`. Needs no storage."""
    from consumer import app

    settings = call.settings
    wanted = wanted_tables([table], settings.case_sensitive)
    result = app.lake_at(settings, call.observer, settings.tso("--moment", moment), wanted, call.loader)
    return call.show(result, lambda: _print_views(result) if views else _print_versions(result))


def _print_versions(result: LakeAtResult) -> None:
    for row in result.tables:
        since = f"as of {row.commit_ts} ({time_text(row.commit_ts)})" if row.commit_ts else "without rows"
        out(f"{row.table}: {f'version {row.version_as_of}' if row.version_as_of else 'no version yet'}, {since}")


def _print_views(result: LakeAtResult) -> None:
    for database in dict.fromkeys(row.table.database for row in result.tables):
        exact(f"CREATE DATABASE IF NOT EXISTS {qualified(database)};")
    for row in result.tables:
        exact(f"CREATE OR REPLACE VIEW {qualified(*row.table)} AS {row.query};")
