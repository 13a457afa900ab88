"""Reads all tables of a lake as they were at one moment of upstream.

The version of a commit has upstream's rows at its `commit_ts`, and up to the `from_ts` of the next commit. The newest
version has them up to where, according to the progress, the table is complete. Moments in between, or unknown ones, are
refused. The progress is read before the logs: a commit meanwhile only adds a version.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from consumer.errors import BadConfig
from consumer.model.ddl_policy import is_kept
from consumer.model.names import TableName
from consumer.model.naming import naming_from
from consumer.model.progress import ENDED, Progress, State, TableProgress, is_parallel_load
from consumer.model.texts import some_of
from consumer.model.times import MAX_TSO, time_text
from consumer.sink import progress_sql
from consumer.sink.columnar.progress import FileTables
from consumer.sink.lake.failures import errors_translated
from consumer.sink.lake.formats import Commit, TableFormat
from consumer.sink.lake.progress import LakeProgress, NamePeriod
from consumer.target import TableAt


@dataclass(frozen=True, slots=True)
class _Reached:
    """The range for which a table of the lake has upstream's rows: from `since` up to `last_ts`. `why` says why it ends
    there. `ended` says that the table no longer exists upstream, or that the table filter excludes it."""

    since: int
    last_ts: int
    why: str
    ended: bool


_SHOWN = 5
"""The maximum number of tables without a version that a message names."""


class _NoVersion(Exception):
    """The reason why a table cannot be read as it was."""


@dataclass(frozen=True, slots=True)
class Moments:
    tables: TableFormat
    progress: LakeProgress

    def tables_at(self, moment: int, wanted: Callable[[TableName], bool] | None) -> Sequence[TableAt]:
        """See `Versioned`."""
        reached, lacking = _reached(self.progress.rows())
        places = {table.location: name for name, table in self.progress.lake_tables.items()}
        lacks = {location: lacking[name] for location, name in places.items() if name in lacking}
        periods_of: dict[TableName, list[NamePeriod]] = defaultdict(list)
        for period in self.progress.names():
            periods_of[period.name].append(period)
        tables, refused = [], []
        for name in sorted({*periods_of, *self.progress.lake_tables, *reached}):
            if is_parallel_load(name) or is_kept(name) or not (wanted is None or wanted(name)):
                continue
            try:
                table = self._table(name, moment, periods_of[name], reached.get(name), lacks)
            except _NoVersion as why:
                refused.append(f"{name} {why}")
            else:
                tables += [table] if table is not None else []
        when = f"the moment {moment} ({time_text(moment)})"
        if refused:
            raise BadConfig(
                f"the lake does not have all tables as they were at {when}: {'; '.join(refused[:_SHOWN])}",
                hint="give a moment that each of the tables has, as one at which a round has ended, or name only"
                " tables that have it; a time is the first TSO of its millisecond, so give the TSO where you know it;"
                " docs/lakes.md says which moments a lake has",
            )
        if not tables:
            raise BadConfig(f"the lake had no such table at {when}: {self._existing()}")
        return tables

    def _existing(self) -> str:
        names = sorted(str(table.replica.name) for table in self.progress.lake_tables.values())
        if not names:
            return "nothing was ever written to it, or the URI is that of no lake"
        return f"now it has {some_of(names, _SHOWN)}"

    def _table(
        self,
        name: TableName,
        moment: int,
        periods: Sequence[NamePeriod],
        reached: _Reached | None,
        lacks: Mapping[str, int],
    ) -> TableAt | None:
        """Returns None if there was no table of that name. `lacks` has, by location, the least commit-ts of missing
        rows."""
        lake_table = self.progress.lake_tables.get(name)
        if reached is not None and moment < reached.since:
            raise _NoVersion(f"begins at {reached.since} in the lake")
        if lake_table is not None and not any(period.until_ts == 0 for period in periods):
            raise _NoVersion(
                "has no moments, as an earlier build made it, or `--checkpoint-ts max` brought rows to it: `resync` it"
            )
        if lake_table is None and reached is not None and not reached.ended and moment > reached.last_ts:
            raise _NoVersion(reached.why)
        period = next(
            (period for period in reversed(periods) if period.from_ts <= moment < (period.until_ts or MAX_TSO)), None
        )
        if period is None:
            return None
        if not period.location:
            raise _NoVersion(
                f"of then is gone: it was dropped, renamed or made again ({period.until_ts or period.from_ts})"
            )
        last_ts, why = period.until_ts - 1, ""
        if not period.until_ts:
            if reached is None:
                raise _NoVersion("belongs to no consumer any more, so nothing shows how far it is")
            if moment > reached.last_ts and reached.ended:
                return None
            last_ts, why = reached.last_ts, reached.why
        if (least := lacks.get(period.location, MAX_TSO)) <= last_ts:
            last_ts, why = least - 1, f"lacks rows from {least} on, which were quarantined, or whose loss was accepted"
        if moment > last_ts:
            raise _NoVersion(why)
        location = self.tables.sql(period.location)
        with errors_translated(name):
            version, commit = self._version(period.location, moment, last_ts)
        called = lake_table.replica.name if lake_table is not None else name
        return TableAt(called, location, version, commit.commit_ts if commit is not None else 0)

    def _version(self, location: str, moment: int, last_ts: int) -> tuple[str, Commit | None]:
        """Returns the version that the table had at `moment`. The commit is None for a version before its first row.
        The newest version has upstream's rows up to `last_ts`."""
        newer: Commit | None = None
        version = ""
        for older, commit in self.tables.commits(location):
            if 0 < commit.commit_ts <= moment:
                if moment > max(last_ts, commit.commit_ts):
                    raise _NoVersion(_between(commit.commit_ts, last_ts, newer))
                if newer is not None:
                    self._check_files(location, older)
                return older, commit
            version, newer, last_ts = older, commit, commit.from_ts
        if newer is None:
            return "", None
        if newer.generation > 1 or moment > last_ts:
            of = f"is of {newer.commit_ts}" if newer.commit_ts else "is of no moment that is known"
            raise _NoVersion(f"has no version that is known to be of then: the oldest one in its log {of}")
        if newer.statement:
            raise _NoVersion(f"had no rows then, and other columns than after the statement of {newer.commit_ts}")
        self._check_files(location, version)
        return version, None

    def _check_files(self, location: str, version: str) -> None:
        if not self.tables.is_whole(location, version):
            raise _NoVersion(f"had a version then of which files are gone, as `maintain` removes them: {version}")


def _between(commit_ts: int, last_ts: int, newer: Commit | None) -> str:
    next_ts = newer.commit_ts if newer is not None else 0
    later = f"and from {next_ts} on" if next_ts else "and the next version is of no moment that is known"
    return f"has changed since: it is known from {commit_ts} up to {max(commit_ts, last_ts)}, {later}"


def _reached(rows: FileTables) -> tuple[dict[TableName, _Reached], dict[TableName, int]]:
    """Returns what each table has reached, by the lake's names as keys. Also returns the least missing commit-ts of
    tables that lack rows."""
    of_names: dict[TableName, list[_Reached]] = defaultdict(list)
    lacking: dict[TableName, int] = {}
    owners = rows.run("SELECT database_name, table_name, name FROM storage_consumer.owned_table")
    owned = {TableName(database, table): owner for database, table, owner in owners}
    for consumer in progress_sql.consumers(rows):
        progress = progress_sql.read_progress(rows, consumer)
        target = naming_from(progress.routes).target
        query = "SELECT database_name, table_name FROM storage_consumer.known_table WHERE name = ?"
        for upstream in (TableName(*ranges) for ranges in rows.run(query, consumer)):
            name = target(upstream).folded
            if owned.get(name, consumer) == consumer:
                of_names[name].append(_reached_by(upstream, progress))
        for upstream, least in _lacks(progress):
            name = target(upstream).folded
            lacking[name] = min(lacking.get(name, MAX_TSO), least)
    # If several tables had a name one after the other, the existing one counts.
    return {
        name: min(ranges, key=lambda each: (each.ended, each.last_ts)) for name, ranges in of_names.items()
    }, lacking


def _reached_by(upstream: TableName, progress: Progress) -> _Reached:
    since, progress_of_table = progress.start_of(upstream), progress.tables.get(upstream)
    if progress_of_table is None:
        last_ts = progress.applied_ts
        return _Reached(since, last_ts, f"is complete up to {last_ts} ({time_text(last_ts)})", ended=False)
    # A statement of just that moment may still be to come.
    last_ts = progress_of_table.applied_ts - 1
    return _Reached(
        since, last_ts, f"{_state(progress_of_table)} and is complete up to {last_ts}", progress_of_table.state in ENDED
    )


def _state(progress: TableProgress) -> str:
    return "is further or behind" if progress.state is State.OK else f"is not as the others ({progress.state})"


def _lacks(progress: Progress) -> Iterator[tuple[TableName, int]]:
    for table, rows in progress.bad_rows.items():
        yield table, min((row.commit_ts for row in rows.values()), default=MAX_TSO)
    for table, losses in progress.losses.items():
        yield table, min((loss.after + 1 for loss in losses.values()), default=MAX_TSO)
