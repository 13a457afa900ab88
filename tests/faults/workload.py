"""The upstream of a trial: tables with statements, one with no key, one with two keys; a writer that goes on."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from consumer.model.actions import Action
from consumer.model.columns import Column
from tests.support.build import ID, VALUE
from tests.support.feed import Feed
from tests.support.upstream import DATABASE, State, Storage, Upstream

Query = Callable[[str], list[dict[str, Any]]]
"""Runs a SELECT on the target; rows by lower-case column."""

_STEPS = 8
_VALUES = 5
_UNIQUE = (ID, Column("u", "INT", nullable=False))


class Workload:
    """`advance` writes the next part and moves the checkpoint; `differences` compares a target with what is true. The
    databases are made at the commit-ts `begun` and the one after it. `old_folders` as of Storage."""

    def __init__(
        self,
        folder: Path,
        seed: int,
        databases: tuple[str, str] = (DATABASE, "e"),
        begun: int = 1,
        old_folders: bool = True,
    ) -> None:
        self.random = random.Random(seed)
        self.upstream = Upstream(self.random, now=max(begun + 4, 1 << 18), database=databases[0])
        self._storage = Storage(folder, self.upstream, old_folders=old_folders, begun=begun)
        self._feed = Feed(folder)
        self._log: Counter[int] = Counter()
        self._unique: dict[int, int] = {}
        self._other, self._versions = databases[1], (begun + 2, begun + 3)
        self._feed.database(self._other, begun + 1)
        created = "CREATE TABLE `log` (`v` INT)"
        self._feed.statement(f"{self._other}.log", self._versions[0], Action.CREATE_TABLE, created, (VALUE,))
        created = "CREATE TABLE `two` (`id` INT PRIMARY KEY,`u` INT NOT NULL,UNIQUE KEY `u` (`u`))"
        self._feed.statement(f"{self._other}.two", self._versions[1], Action.CREATE_TABLE, created, _UNIQUE)

    def advance(self) -> None:
        since = self.upstream.now
        for _ in range(_STEPS):
            self.upstream.step()
        until = self.upstream.now
        moments = sorted(self.random.sample(range(since + 1, until + 1), min(4, until - since)))
        self._feed.file(f"{self._other}.log", self._versions[0], b"".join(self._logged(ts) for ts in moments))
        self._feed.file(f"{self._other}.two", self._versions[1], b"".join(self._keyed(ts) for ts in moments))
        self.upstream.now += 1  # a RENAME waits until the checkpoint is above it
        self._storage.write_up_to(until, self.upstream.now)

    def differences(self, query: Query, kept: State | None = None) -> list[str]:
        """What the target has otherwise, a line a table. `kept` are further tables that the target has beside those of
        the first database."""
        upstream = {**self.upstream.at(self.upstream.now), **(kept or {})}
        expected = {
            name: Counter(_row({"id": key, **row}) for key, row in rows.items()) for name, rows in upstream.items()
        }
        tables = "SELECT table_name AS name FROM information_schema.tables WHERE table_schema = '{}'"
        database = self.upstream.database
        found = {row["name"]: _read(query, f"{database}.{row['name']}") for row in query(tables.format(database))}
        expected |= {"log": Counter({_row({"v": value}): n for value, n in self._log.items()})}
        expected |= {"two": Counter(_row({"id": key, "u": value}) for key, value in self._unique.items())}
        found |= {
            row["name"]: _read(query, f"{self._other}.{row['name']}") for row in query(tables.format(self._other))
        }
        names = sorted(expected.keys() | found.keys())
        return [
            f"{name}: {found.get(name)} instead of {expected.get(name)}"
            for name in names
            if found.get(name) != expected.get(name)
        ]

    def _logged(self, ts: int) -> bytes:
        """One transaction of the table with no key: rows come, equal ones too, and others go."""
        lines = b""
        there = sorted((+self._log).elements())
        for value in self.random.sample(there, min(len(there), self.random.randrange(3))):
            self._log[value] -= 1
            lines += self._line("log", None, ts, "DELETE", {"v": value})
        self._log = +self._log
        for value in self.random.choices(range(_VALUES), k=self.random.randrange(1, 4)):
            self._log[value] += 1
            lines += self._line("log", None, ts, "INSERT", {"v": value})
        return lines

    def _keyed(self, ts: int) -> bytes:
        """One transaction of the table with two keys. Rows that exchange their values are split, as TiCDC does."""
        rows, lines = self._unique, b""
        touched = self.random.sample(range(8), 3)
        gone = {key: rows.pop(key) for key in touched if key in rows}
        for key, value in gone.items():
            lines += self._line("two", "id", ts, "DELETE", {"id": key, "u": value})
        free = [value for value in range(10) if value not in rows.values()]
        for key in touched:
            if self.random.random() < 0.8:
                rows[key] = free.pop(self.random.randrange(len(free)))
                lines += self._line("two", "id", ts, "INSERT", {"id": key, "u": rows[key]})
        return lines

    def _line(self, table: str, key: str | None, ts: int, kind: str, row: Mapping[str, int]) -> bytes:
        message = {
            "id": 0, "database": self._other, "table": table, "pkNames": None if key is None else [key], "isDdl": False,
            "type": kind, "es": ts >> 18, "ts": 0, "sql": "", "sqlType": dict.fromkeys(row, 4),
            "mysqlType": dict.fromkeys(row, "int"), "old": None, "data": [{n: str(v) for n, v in row.items()}],
            "_tidb": {"commitTs": ts},
        }  # fmt: skip
        return json.dumps(message).encode() + b"\r\n"


def _read(query: Query, table: str) -> Counter[tuple[tuple[str, str | None], ...]]:
    return Counter(_row(row) for row in query(f"SELECT * FROM {table}"))


def _row(values: Mapping[str, Any]) -> tuple[tuple[str, str | None], ...]:
    return tuple(sorted((name, None if value is None else str(value)) for name, value in values.items()))
