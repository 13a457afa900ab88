"""Table rules and policies that change between rounds, at random, over tables that move between two databases.

A table that the rules take is as it is upstream, or stopped by name; `plan` shows the statements that `once` runs; and
whatever is stopped once everything is taken follows again by the hint that is printed.

`RANDOM_RULES=2000 pytest tests/property/test_rules_and_policies.py` plays as many histories, with new seeds each time.
"""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Callable
from pathlib import Path
from random import Random

from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from consumer import app
from consumer.config.table_filter import TableFilter
from consumer.model.actions import Action
from consumer.model.names import TableName
from consumer.results import RunResult
from tests.support.feed import Feed, MemoryReplica
from tests.support.observers import Recorder

HISTORIES = int(os.environ.get("RANDOM_RULES", "0"))
NAMES, DATABASES = ("d.a", "d.b", "e.a", "e.b"), ("d", "e")
ALL = ("*.*",)
ONLY = ("*.*", "!*.*")
"""In front of rules that ask for tables which may not be there yet: they alone would be refused."""
RULES = (
    ALL,
    (*ONLY, "d.*"),
    (*ONLY, "e.*"),
    (*ONLY, "d.a", "e.b"),
    ("*.*", "!d.a"),
    ("*.*", "!e.*", "e.a"),
    ONLY,
    (*ONLY, "d.b"),
)
ENDS = ("drop-table", "truncate-table", "drop-database")
MOST_HINTS = 12

Rows = dict[int, str]


class TwoDatabases:
    """Tables and their rows as they are upstream, and at every moment before; what TiCDC has not written is waiting."""

    def __init__(self, rnd: Random, feed: Feed) -> None:
        self.rnd, self.feed, self.now = rnd, feed, 10
        self.tables: dict[str, tuple[int, Rows]] = {}
        self.databases: set[str] = set()
        self.states: list[tuple[int, dict[str, Rows]]] = []
        self.renames: set[int] = set()
        self.story: list[str] = []
        self._unwritten: list[tuple[int, Callable[[], object]]] = []
        for database in DATABASES:
            self._create_database(database)

    def step(self) -> None:
        missing = sorted(set(DATABASES) - self.databases)
        free = [name for name in NAMES if name not in self.tables and name[0] in self.databases]
        there, draw = sorted(self.tables), self.rnd.random()
        if missing and draw < 0.4:
            self._create_database(missing[0])
        elif self.databases and draw > 0.97:
            self._drop_database(self.rnd.choice(sorted(self.databases)))
        elif free and (not there or draw < 0.15):
            self._create(self.rnd.choice(free))
        elif there and draw < 0.29:
            self._end(self.rnd.choice(there), truncate=draw < 0.22)
        elif there and free and draw < 0.42:
            self._rename(self.rnd.choice(there), self.rnd.choice(free))
        elif there:
            self._put(self.rnd.choice(there))

    def at(self, moment: int) -> dict[str, Rows]:
        """As it was then."""
        return next((state for ts, state in reversed(self.states) if ts <= moment), {})

    def write(self, end: int) -> None:
        for moment, write in self._unwritten:
            if moment <= end:
                write()
        self._unwritten = [(moment, write) for moment, write in self._unwritten if moment > end]

    def _create_database(self, name: str) -> None:
        self.databases.add(name)
        self._happened(f"CREATE DATABASE {name}", lambda version: self.feed.database(name, version))

    def _drop_database(self, name: str) -> None:
        self.databases.discard(name)
        self.tables = {table: kept for table, kept in self.tables.items() if table[0] != name}
        query = f"DROP DATABASE `{name}`"
        self._happened(query, lambda version: self.feed.database(name, version, query, Action.DROP_SCHEMA))

    def _create(self, name: str) -> None:
        self._begin(name, {})
        self._happened(f"CREATE {name}", lambda version: self.feed.create(name, version))

    def _end(self, name: str, truncate: bool) -> None:
        if truncate:
            self._begin(name, {})
            self._happened(f"TRUNCATE {name}", lambda version: self.feed.truncate(name, version))
        else:
            del self.tables[name]
            self._happened(f"DROP {name}", lambda version: self.feed.drop(name, version))

    def _rename(self, old: str, new: str) -> None:
        self._begin(new, self.tables.pop(old)[1])
        self._happened(f"RENAME {old} {new}", lambda version: self.feed.rename(old, new, version))
        self.renames.add(self.now)

    def _put(self, name: str) -> None:
        version, rows = self.tables[name]
        key, value = self.rnd.randrange(5), str(self.rnd.randrange(100))
        rows[key] = value
        self._happened(f"PUT {name} {key} {value}", lambda ts: self.feed.puts(name, version, {ts: (key, value)}))

    def _begin(self, name: str, rows: Rows) -> None:
        self.tables[name] = (self.now + 1, rows)

    def _happened(self, what: str, write: Callable[[int], object]) -> None:
        self.now = moment = self.now + 1
        self._unwritten.append((moment, lambda: write(moment)))
        self.states.append((moment, {name: dict(rows) for name, (_, rows) in self.tables.items()}))
        self.story.append(f"{moment} {what}")


def random_policy(rnd: Random) -> dict[str, object]:
    if rnd.random() < 0.5:
        return {}
    kinds = rnd.choice([[kind] for kind in (*ENDS, "rename-table", "create-table")] + [list(ENDS)])
    action = rnd.choice(("fail", "rename")) if set(kinds) <= set(ENDS) else "fail"
    return {"ddl": {"rules": [{"action": action, "kinds": kinds, "tables": [rnd.choice(("*.*", "d.*", "d.a"))]}]}}


class Checked:
    """A replica of which every round is checked."""

    def __init__(self, upstream: TwoDatabases, replica: MemoryReplica) -> None:
        self.upstream, self.replica = upstream, replica

    def once(self, checkpoint: int, rules: tuple[str, ...], policy: dict[str, object]) -> RunResult:
        self.upstream.feed.checkpoint(checkpoint)
        planned = app.plan(self.replica.settings(tables=rules, **policy), Recorder())
        result = self.replica.once(checkpoint, tables=rules, **policy)
        held = self.held(result)
        self.upstream.story.append(f"-- once at {checkpoint}, {rules}, {policy}: {held}")
        if not held:
            said = {(str(s.table), s.to_ts) for s in planned.steps if s.kind == "ddl"}
            done = {(str(row.table), row.to_ts) for row in self.replica.seen.steps if row.step == "ddl"}
            assert said == done, self._told([f"planned {said - done}, only done {done - said}"])
        # A RENAME of that very moment may lack the file of another, and waits.
        moment = checkpoint - (checkpoint in self.upstream.renames)
        wrong = self._wrong(self.upstream.at(moment), TableFilter(rules), held)
        assert not wrong, self._told(wrong)
        return result

    def by_hand(self, result: RunResult) -> None:
        """Do what the hints say until nothing is stopped."""
        for _ in range(MOST_HINTS):
            hints = [table.hint for table in result.tables.values() if table.error and "skip-ddl" in table.hint]
            if not hints:
                break
            told = re.search(r"skip-ddl --table '?([\w.]+)'? --version (\d+)", hints[0])
            assert told, hints[0]
            database, _, table = told[1].partition(".")
            if (rows := self.upstream.at(int(told[2])).get(told[1])) is not None:
                self.replica.holds(told[1], *rows.items())
            command = self.replica.settings(tables=ALL)
            app.skip_ddl(command, Recorder(), TableName(database, table), int(told[2]), "by hand")
            result = self.once(result.checkpoint_ts + 1, ALL, {})
        assert not self.held(result), self._told([])

    @staticmethod
    def held(result: RunResult) -> dict[str, str]:
        return {str(name): f"{table.error} ({table.hint})" for name, table in result.tables.items() if table.error}

    def _wrong(self, truth: dict[str, Rows], rules: TableFilter, held: dict[str, str]) -> list[str]:
        found = {name: rows for name, rows in self.replica.tables.items() if "__" not in name}
        taken = {name for name in {*truth, *found} - held.keys() if rules.matches(TableName(*name.split(".")))}
        return [
            f"{name}: {truth.get(name)} upstream, {found.get(name)} here"
            for name in sorted(taken)
            if truth.get(name) != found.get(name)
        ]

    def _told(self, wrong: list[str]) -> str:
        return "\n".join([*wrong, *self.upstream.story])


@settings(
    max_examples=HISTORIES or 40, derandomize=not HISTORIES, database=None, deadline=None, phases=[Phase.generate]
)
@given(seed=st.integers(0, 2**32))
def test_whatever_is_left_out_comes_back_right_or_by_the_hint(seed: int) -> None:
    rnd = Random(seed)
    with tempfile.TemporaryDirectory() as work:
        feed = Feed(Path(work))
        upstream = TwoDatabases(rnd, feed)
        checked = Checked(upstream, MemoryReplica(feed))
        checkpoint = 1
        checked.once(
            checkpoint, ALL, {}
        )  # with no table: a first run that finds some refuses rules that let none through
        for rules in rnd.choices(RULES, k=rnd.randint(1, 5)):
            for _ in range(rnd.randint(1, 12)):
                upstream.step()
            moments = [ts for ts, _ in upstream.states if ts >= checkpoint]
            checkpoint = upstream.now if rnd.random() < 0.6 else rnd.choice(moments)
            upstream.write(rnd.choice((checkpoint, upstream.now)))
            checked.once(checkpoint, rules, random_policy(rnd))
        upstream.write(upstream.now)
        checked.once(upstream.now + 1, ALL, {})
        checked.by_hand(checked.once(upstream.now + 2, ALL, {}))
