"""The commands for Python programs: ``from consumer import api``. Names and results are stable; docs/python.md has
examples.

Settings are keywords, by the names of docs/settings.md with ``_`` for ``-``, as text or as Python values. Settings that
are not passed come from the environment and from `config`, as for the command line. Each function returns what its
command prints with ``--json``, as a pydantic model (`consumer.results`), and raises `ConsumerError`, which has a `hint`
and an `exit_code`. A table that stops is no error: it is in the result, whose `exit_code` is 3 then, or 5 if a person
has to decide: a statement was refused, or files are missing.

Warnings and errors are logged to stderr; `log_level`, `log_format` and `log_file` are settings too.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from consumer import app
from consumer.config.load import load
from consumer.config.secrets import redact
from consumer.config.settings import InspectSettings, Settings
from consumer.errors import BadConfig, ConsumerError
from consumer.model.check import Repairing
from consumer.model.names import TableName
from consumer.model.texts import did_you_mean
from consumer.observe.logs import Log, LogSettings
from consumer.observe.observer import CommandObserver
from consumer.results import CheckResult, InspectResult, Result, RunResult, StatusResult, VerifyReport

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = [
    "ConsumerError",
    "TableName",
    "backfill",
    "changes",
    "check",
    "inspect",
    "once",
    "replay",
    "resync",
    "run",
    "status",
    "verify",
]

R = TypeVar("R", bound=Result)


def once(*, config: str | None = None, **settings: Any) -> RunResult:
    """Applies everything up to the checkpoint that is in the storage now."""
    with _called(config, settings) as (ours, observer):
        return _ran(app.once(ours, observer), ours, observer)


def backfill(*, config: str | None = None, **settings: Any) -> RunResult:
    """Fills an empty target from the start of the storage. Raises BadConfig for a target with progress or rows."""
    with _called(config, settings) as (ours, observer):
        return _ran(app.backfill(ours, observer), ours, observer)


def run(stop: threading.Event, *, config: str | None = None, **settings: Any) -> RunResult:
    """Keeps the target equal to the upstream until `stop` is set."""
    with _called(config, settings) as (ours, observer):
        return _ran(app.run(ours, observer, stop), ours, observer)


def replay(
    from_ts: int | str | None = None, to_ts: int | str | None = None, *, config: str | None = None, **settings: Any
) -> RunResult:
    """Applies exactly the changes with from_ts < commit-ts <= to_ts. Both are TSOs, or times as text."""
    first, last = (None if moment is None else str(moment) for moment in (from_ts, to_ts))
    with _called(config, settings) as (ours, observer):
        return _ran(app.replay(ours, observer, first, last), ours, observer)


def resync(table: TableName, *, config: str | None = None, **settings: Any) -> RunResult:
    """Loads one table again from the storage, parallel to the one that the target has, which it then replaces."""
    with _called(config, settings) as (ours, observer):
        return _ran(app.resync(ours, observer, table), ours, observer)


def status(*, config: str | None = None, **settings: Any) -> StatusResult:
    """Returns how far the target is, its lag, and which tables are stopped and why."""
    with _called(config, settings) as (ours, observer):
        return _of(ours, app.status(ours, observer))


def verify(
    tables: Collection[TableName] = (),
    *,
    show: int = 10,
    repair: bool = False,
    config: str | None = None,
    **settings: Any,
) -> VerifyReport:
    """Compares the rows of the target with the storage: all tables, or `tables`. `show` is the most rows that differ to
    return for each table. With `repair` these rows are written as the storage has them. `exit_code` is 6 if rows
    differ."""
    with _called(config, settings) as (ours, observer):
        result = app.verify(ours, observer, tables, show, repairing=Repairing(repair)).scrubbed(ours.scrub)
        report, error = _of(ours, VerifyReport.of(result)), result.verdict(strict=False)
        return report if error is None else report.ended_by(error)


def inspect(*, config: str | None = None, **settings: Any) -> InspectResult:
    """Returns what is in a storage, and which settings its changefeed has. Reads no target."""
    with _called(config, settings, InspectSettings) as (ours, observer):
        return _of(ours, app.inspect(ours, observer))


def check(*, config: str | None = None, **settings: Any) -> CheckResult:
    """Returns what a first run needs, one line for each. `exit_code` is 5 if it would fail."""
    with _called(config, settings) as (ours, observer):
        return _of(ours, app.check(ours, observer))


def changes(
    table: str,
    key: Sequence[object] = (),
    where: str = "",
    from_ts: int | str | None = None,
    to_ts: int | str | None = None,
    *,
    config: str | None = None,
    **settings: Any,
) -> Iterator[pa.Table]:
    """Yields each change of the rows of `table` (``db.t``), in the order in which they hold, as Arrow tables of many
    changes each. Their columns are ``_op`` (I, U or D), ``_commit_ts``, ``_commit_time``, ``_version``, ``_seq``, which
    numbers them, those of the table, ``_before``, a struct of what the change found, and ``_file`` and ``_line``, its
    place. With `key` only changes of the row with these values are returned; with `where`, an expression as in
    ``[[consumer.rows]]``, it must be TRUE before or after a change."""
    from consumer.source.story import ordered_changes

    with _called(config, settings) as (ours, _):
        first, last = (
            None if moment is None else ours.tso(name, str(moment))
            for name, moment in (("from_ts", from_ts), ("to_ts", to_ts))
        )
        _, tables = ordered_changes(ours, table, [str(value) for value in key], where, first or 0, last)
        yield from tables


@contextmanager
def _called(
    config: str | None, passed: dict[str, Any], kind: type[Settings] = Settings
) -> Iterator[tuple[Settings, CommandObserver]]:
    if unknown := next((name for name in passed if name not in kind.model_fields), None):
        meant = did_you_mean(unknown, kind.model_fields)
        raise BadConfig(f"{unknown} is not a setting{meant}", hint="docs/settings.md lists the settings, with - for _")
    loaded = load(passed, os.environ, config, kind)
    if len(loaded.several) > 1:
        raise BadConfig(f"there are several consumers: {', '.join(loaded.several)}", hint="choose one by only=")
    ours = loaded.settings
    level = ours.log_level if "log_level" in passed else "warning"
    log = Log(LogSettings(level, ours.log_format, ours.log_file, ours.scrub))
    observer = CommandObserver(log)
    try:
        for note in loaded.notes:
            observer.tell(note)
        yield ours, observer
    finally:
        observer.close()


def _ran(result: RunResult, settings: Settings, observer: CommandObserver) -> RunResult:
    return _of(settings, result.model_copy(update={"notes": tuple(observer.notes)}))


def _of(settings: Settings, result: R) -> R:
    return result.model_copy(update={"name": settings.name, "upstream": redact(str(settings.upstream_uri))})
