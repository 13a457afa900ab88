"""All tables of a lake as they were at one moment of upstream.

The version of a commit has upstream's rows at its `commit_ts`, and up to the `from_ts` of the next one. The newest
version has them up to where the progress says that the table is complete. What is in between, or is not known, is
refused. The progress is read before the logs: a commit that comes meanwhile only adds a version."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from consumer.errors import BadConfig
from consumer.model.ddl_policy import is_kept
from consumer.model.names import TableName
from consumer.model.naming import naming_from
from consumer.model.progress import ENDED, Progress, State, TableProgress, is_parallel_load
from consumer.model.times import MAX_TSO, time_text
from consumer.sink import progress_sql as stored
from consumer.sink.columnar.progress import FileTables
from consumer.sink.lake.failures import told
from consumer.sink.lake.formats import Commit, TableFormat
from consumer.sink.lake.progress import LakeProgress, Named
from consumer.target import TableAt


@dataclass(frozen=True, slots=True)
class _Reached:
    """How far a table of the lake is: it has upstream's rows from `since` on up to `upto`; `why` not further. `ended`:
    upstream has it no more, or the table filter leaves it out."""

    since: int
    upto: int
    why: str
    ended: bool


_SHOWN = 5
"""So many tables are named that have no version."""


class _NoVersion(Exception):
    """Why a table cannot be read as it was."""


@dataclass(frozen=True, slots=True)
class Moments:
    tables: TableFormat
    progress: LakeProgress

    def at(self, moment: int, wanted: Callable[[TableName], bool] | None) -> Sequence[TableAt]:
        """See `Versioned`."""
        reached, lacking = _reached(self.progress.rows())
        places = {table.place: name for name, table in self.progress.lake_tables.items()}
        lacks = {place: lacking[name] for place, name in places.items() if name in lacking}
        named: dict[TableName, list[Named]] = defaultdict(list)
        for one in self.progress.names():
            named[one.name].append(one)
        found, refused = [], []
        for name in sorted({*named, *self.progress.lake_tables, *reached}):
            if is_parallel_load(name) or is_kept(name) or not (wanted is None or wanted(name)):
                continue
            try:
                table = self._table(name, moment, named[name], reached.get(name), lacks)
            except _NoVersion as why:
                refused.append(f"{name} {why}")
            else:
                found += [table] if table is not None else []
        when = f"the moment {moment} ({time_text(moment)})"
        if refused:
            raise BadConfig(
                f"the lake does not have all tables as they were at {when}: {'; '.join(refused[:_SHOWN])}",
                hint="give a moment that each of the tables has, as one at which a round has ended, or name only"
                " tables that have it; docs/lakes.md says which moments a lake has",
            )
        if not found:
            raise BadConfig(f"the lake had no such table at {when}", hint="`status` tells how far its tables are")
        return found

    def _table(
        self,
        name: TableName,
        moment: int,
        named: Sequence[Named],
        reached: _Reached | None,
        lacks: Mapping[str, int],
    ) -> TableAt | None:
        """None where there was no table of that name. `lacks`: by place, the least commit-ts of what is not there."""
        there = self.progress.lake_tables.get(name)
        if reached is not None and moment < reached.since:
            raise _NoVersion(f"begins at {reached.since} in the lake")
        if there is not None and not any(one.until_ts == 0 for one in named):
            raise _NoVersion(
                "has no moments, as an earlier build made it, or `--checkpoint-ts max` brought rows to it: `resync` it"
            )
        if there is None and reached is not None and not reached.ended and moment > reached.upto:
            raise _NoVersion(reached.why)
        one = next((one for one in reversed(named) if one.from_ts <= moment < (one.until_ts or MAX_TSO)), None)
        if one is None:
            return None
        if not one.place:
            raise _NoVersion(f"of then is gone: it was dropped, renamed or made again ({one.until_ts or one.from_ts})")
        upto, why = one.until_ts - 1, ""
        if not one.until_ts:
            if reached is None:
                raise _NoVersion("belongs to no consumer any more, so nothing tells how far it is")
            if moment > reached.upto and reached.ended:
                return None
            upto, why = reached.upto, reached.why
        if (least := lacks.get(one.place, MAX_TSO)) <= upto:
            upto, why = least - 1, f"lacks rows from {least} on, which were quarantined, or whose loss was accepted"
        if moment > upto:
            raise _NoVersion(why)
        place = self.tables.sql(one.place)
        with told(name):
            version, commit = self._version(one.place, moment, upto)
        called = there.replica.name if there is not None else name
        return TableAt(called, place, version, commit.commit_ts if commit is not None else 0)

    def _version(self, place: str, moment: int, upto: int) -> tuple[str, Commit | None]:
        """That which the table had at `moment`; no commit for one in which it had no row yet. The newest has upstream's
        rows up to `upto`."""
        newer: Commit | None = None
        version = ""
        for older, commit in self.tables.commits(place):
            if 0 < commit.commit_ts <= moment:
                if moment > max(upto, commit.commit_ts):
                    raise _NoVersion(_between(commit.commit_ts, upto, newer))
                if newer is not None:
                    self._check_files(place, older)
                return older, commit
            version, newer, upto = older, commit, commit.from_ts
        if newer is None:
            return "", None
        if newer.generation > 1 or moment > upto:
            of = f"is of {newer.commit_ts}" if newer.commit_ts else "is of no moment that is known"
            raise _NoVersion(f"has no version that is known to be of then: the oldest one in its log {of}")
        if newer.statement:
            raise _NoVersion(f"had no rows then, and other columns than behind the statement of {newer.commit_ts}")
        self._check_files(place, version)
        return version, None

    def _check_files(self, place: str, version: str) -> None:
        if not self.tables.is_whole(place, version):
            raise _NoVersion(f"had a version then of which files are gone, as `maintain` removes them: {version}")


def _between(commit_ts: int, upto: int, newer: Commit | None) -> str:
    next_ts = newer.commit_ts if newer is not None else 0
    later = f"and from {next_ts} on" if next_ts else "and the next version is of no moment that is known"
    return f"has changed since: it is known from {commit_ts} up to {max(commit_ts, upto)}, {later}"


def _reached(rows: FileTables) -> tuple[dict[TableName, _Reached], dict[TableName, int]]:
    """By the lake's names, as keys; and of those tables that are not whole, the least commit-ts of what they lack."""
    of_names: dict[TableName, list[_Reached]] = defaultdict(list)
    lacking: dict[TableName, int] = {}
    owners = rows.run("SELECT database_name, table_name, name FROM storage_consumer.owned_table")
    owned = {TableName(database, table): owner for database, table, owner in owners}
    for consumer in stored.consumers(rows):
        progress = stored.load(rows, consumer)
        target = naming_from(progress.routes).target
        query = "SELECT database_name, table_name FROM storage_consumer.known_table WHERE name = ?"
        for upstream in (TableName(*found) for found in rows.run(query, consumer)):
            name = target(upstream).folded
            if owned.get(name, consumer) == consumer:
                of_names[name].append(_reached_by(upstream, progress))
        for upstream, least in _lacks(progress):
            name = target(upstream).folded
            lacking[name] = min(lacking.get(name, MAX_TSO), least)
    # Of tables that had a name one after the other, that which is there counts.
    return {name: min(found, key=lambda one: (one.ended, one.upto)) for name, found in of_names.items()}, lacking


def _reached_by(upstream: TableName, progress: Progress) -> _Reached:
    since, place = progress.start_of(upstream), progress.tables.get(upstream)
    if place is None:
        upto = progress.applied_ts
        return _Reached(since, upto, f"is complete up to {upto} ({time_text(upto)})", ended=False)
    # A statement of just that moment may still be to come.
    upto = place.applied_ts - 1
    return _Reached(since, upto, f"{_state(place)} and is complete up to {upto}", place.state in ENDED)


def _state(place: TableProgress) -> str:
    return "is further or behind" if place.state is State.OK else f"is not as the others ({place.state})"


def _lacks(progress: Progress) -> Iterator[tuple[TableName, int]]:
    for table, rows in progress.bad_rows.items():
        yield table, min((row.commit_ts for row in rows.values()), default=MAX_TSO)
    for table, losses in progress.losses.items():
        yield table, min((loss.after + 1 for loss in losses.values()), default=MAX_TSO)
