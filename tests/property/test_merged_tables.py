"""Random histories of several tables that a route merges: the target is the UNION ALL of them by the names of their
columns, in any cut into rounds, whatever the type of their keys."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from consumer import app
from consumer.codec.csv.options import CsvFormat
from consumer.model.actions import Action
from consumer.model.columns import Column
from tests.servers import MariaDb
from tests.support.canal_json import row_line
from tests.support.csv_rows import record
from tests.support.every_target import Duck
from tests.support.examples import examples
from tests.support.feed import Feed, Replica
from tests.support.inline_loader import InlineLoader
from tests.support.observers import Recorder

MS = 1 << 18
CSV = CsvFormat(include_commit_ts=True)
TIMELESS = CsvFormat()
PROTOCOLS = {
    "canal-json": {"upstream": "canal-json"},
    "csv": {"upstream": "csv", "csv_include_commit_ts": True},
    "timeless": {"upstream": "csv", "csv_include_commit_ts": False},
}
KEYS: dict[str, tuple[Column, st.SearchStrategy[str]]] = {
    "INT": (Column("k", "INT"), st.integers(-3, 3).map(str)),
    "BIGINT UNSIGNED": (Column("k", "BIGINT", unsigned=True), st.sampled_from(["0", "7", str(2**64 - 1)])),
    "VARCHAR(10)": (
        Column("k", "VARCHAR", length=10),
        st.sampled_from(["", "a", "A", "ä", "a'b", "x.y", "\\", "s1.t"]),
    ),
    "CHAR(4)": (Column("k", "CHAR", length=4), st.sampled_from(["a", "A", "é", "0"])),
    "DECIMAL(10,2)": (Column("k", "DECIMAL", length=10, scale=2), st.sampled_from(["0.00", "1.50", "-1.50"])),
    "DATE": (Column("k", "DATE"), st.sampled_from(["2024-01-02", "1000-01-01", "9999-12-31"])),
    "DATETIME": (Column("k", "DATETIME"), st.sampled_from(["2024-01-02 03:04:05", "2024-01-02 00:00:00"])),
}
ADDED = {
    "a": (Column("a", "VARCHAR", length=20, default="n"), "VARCHAR(20) DEFAULT 'n'", "n"),
    "b": (Column("b", "INT"), "INT", None),
    "c": (Column("c", "BIGINT", nullable=False), "BIGINT NOT NULL", "0"),
}
"""Each with how it is declared, and what the rows that are there get."""
_Row = dict[str, str | None]


@dataclass
class Shard:
    """One of upstream's tables, as its history leaves it."""

    name: str
    key: Column
    version: int = 0
    added: list[str] = field(default_factory=list)
    rows: dict[str, _Row] = field(default_factory=dict)

    @property
    def columns(self) -> tuple[Column, ...]:
        return (self.key, Column("v", "INT"), *(ADDED[name][0] for name in self.added))


@dataclass(frozen=True)
class Step:
    """`kind` is done to a shard, which is a number; `value` are what rows get."""

    kind: str
    shard: int
    key: str = ""
    value: str = ""
    column: str = ""


class Upstream:
    """Plays steps: writes what TiCDC does, and keeps the tables."""

    def __init__(self, folder: Path, protocol: str, kind: str, shards: int) -> None:
        self.feed, self.protocol, self.kind = Feed(folder), protocol, kind
        key, _ = KEYS[kind]
        own = Column(key.name, key.type, key.unsigned, key.length, key.scale, nullable=False, is_pk=True)
        self.shards = [Shard(f"s{number}.t", own) for number in range(shards)]
        self.ts = 1
        for shard in self.shards:
            self.feed.database(shard.name[:2], self.ts * MS)
            self._create(shard)

    def play(self, step: Step) -> None:
        self.ts += 1
        shard = self.shards[step.shard % len(self.shards)]
        match step.kind:
            case "put":
                before = step.key in shard.rows
                row: _Row = {"k": step.key, "v": step.value}
                row |= dict.fromkeys(shard.added, step.value)
                self._write(shard, "UPDATE" if before else "INSERT", row, shard.rows.get(step.key))
                shard.rows[step.key] = row
            case "delete" if step.key in shard.rows:
                row = shard.rows.pop(step.key)
                self._write(shard, "DELETE", row, None)
            case "truncate":
                self._statement(shard, Action.TRUNCATE_TABLE, "TRUNCATE TABLE `t`")
                shard.rows.clear()
            case "drop":
                self._statement(shard, Action.DROP_TABLE, f"DROP TABLE `{shard.name[:2]}`.`t`")
                shard.rows.clear()
                shard.added.clear()
                self.ts += 1
                self._create(shard)
            case "add" if step.column not in shard.added:
                shard.added.append(step.column)
                _, declared, value = ADDED[step.column]
                self._statement(shard, Action.ADD_COLUMN, f"ALTER TABLE `t` ADD COLUMN `{step.column}` {declared}")
                for row in shard.rows.values():
                    row[step.column] = value
            case "remove" if step.column in shard.added:
                shard.added.remove(step.column)
                self._statement(shard, Action.DROP_COLUMN, f"ALTER TABLE `t` DROP COLUMN `{step.column}`")
                for row in shard.rows.values():
                    del row[step.column]
        self.ts += 1

    def union(self, columns: list[str]) -> list[tuple[str | None, ...]]:
        rows = ((shard.name, row) for shard in self.shards for row in shard.rows.values())
        return sorted(((name, *(row.get(column) for column in columns)) for name, row in rows), key=repr)

    def _create(self, shard: Shard) -> None:
        self._statement(shard, Action.CREATE_TABLE, f"CREATE TABLE `t` (`k` {self.kind} NOT NULL PRIMARY KEY,`v` INT)")

    def _statement(self, shard: Shard, action: Action, query: str) -> None:
        shard.version = self.ts * MS
        self.feed.statement(shard.name, shard.version, action, query, shard.columns)

    def _write(self, shard: Shard, kind: str, row: _Row, old: _Row | None) -> None:
        ts = self.ts * MS + 1
        if self.protocol == "canal-json":
            pair = {"database": shard.name[:2], "table": "t", "pkNames": ["k"]}
            text = row_line(kind, row, commit_ts=ts, old=None if old is None else [old], **pair)
            self.feed.file(shard.name, shard.version, text + b"\r\n")
            return
        values = [row[column.name] for column in shard.columns]
        csv = CSV if self.protocol == "csv" else TIMELESS
        text = record(kind[0], values, shard.columns, csv, ts, owner=shard.name)
        self.feed.file(shard.name, shard.version, text + b"\r\n", extension="csv")


class Merged(Replica):
    routes = ("s*.t -> all.t merge _source",)

    def __init__(self, upstream: Upstream, downstream: str) -> None:
        super().__init__(upstream.feed, downstream)
        self._protocol = dict(PROTOCOLS[upstream.protocol])

    def settings(self, **flags: object):  # type: ignore[no-untyped-def]
        given: dict[str, object] = {**self._protocol, "tz": "UTC", **flags}
        given["upstream_uri"] = f"file://{self.feed.folder}?protocol={given.pop('upstream')}"
        return super().settings(**given)


@st.composite
def histories(draw: st.DrawFn) -> tuple[str, str, int, list[list[Step]]]:
    """The protocol, the type of the key, how many tables, and steps in rounds."""
    kind = draw(st.sampled_from(sorted(KEYS)))
    keys = KEYS[kind][1]
    step = st.builds(
        Step,
        st.sampled_from(["put"] * 6 + ["delete"] * 2 + ["add"] * 3 + ["remove", "truncate", "drop"]),
        st.integers(0, 3),
        keys,
        st.integers(0, 99).map(str),
        st.sampled_from(sorted(ADDED)),
    )
    rounds = draw(st.lists(st.lists(step, min_size=1, max_size=8), min_size=1, max_size=3))
    return draw(st.sampled_from(sorted(PROTOCOLS))), kind, draw(st.integers(2, 4)), rounds


Query = Callable[[str], list[tuple[Any, ...]]]


def check(history: tuple[str, str, int, list[list[Step]]], folder: Path, url: str, query: Query) -> None:
    protocol, kind, shards, rounds = history
    upstream = Upstream(folder, protocol, kind, shards)
    replica = Merged(upstream, url)
    quote, text = ('"', "VARCHAR") if isinstance(query, Duck) else ("`", "CHAR")
    for steps in rounds:
        for step in steps:
            upstream.play(step)
        result = replica.once(upstream.ts * MS)
        assert result.exit_code == 0, [table.error for table in result.tables.values()]
        there = {
            str(name)
            for (name,) in query(
                "SELECT column_name FROM information_schema.columns WHERE table_schema = 'all' AND table_name = 't'"
            )
        }
        alive = {name for shard in upstream.shards for name in shard.added}
        assert {"_source", "k", "v", *alive} <= there
        columns = ["k", "v", *(name for name in sorted(ADDED) if name in there)]
        names = ", ".join(f"CAST({name} AS {text})" for name in ("_source", *columns))
        found = query(f"SELECT {names} FROM {quote}all{quote}.t")
        assert sorted(found, key=repr) == upstream.union(columns)
        compared = app.verify(replica.settings(), Recorder(), loader=InlineLoader(2)).tables
        assert len(compared) == len(upstream.shards)
        assert {check.state for check in compared} <= {"equal", "equal in part"}, compared


@examples(20)
@given(histories())
def test_duckdb_has_the_union(tmp_path_factory: pytest.TempPathFactory, history: Any) -> None:
    folder = tmp_path_factory.mktemp("merged")
    check(history, folder / "cdc", f"duckdb:///{folder}/r.duckdb", Duck(folder / "r.duckdb"))


@examples(10)
@given(histories())
def test_a_server_has_the_union(fresh_mariadb: MariaDb, tmp_path_factory: pytest.TempPathFactory, history: Any) -> None:
    fresh_mariadb.drop_all()
    check(history, tmp_path_factory.mktemp("merged") / "cdc", fresh_mariadb.url(), fresh_mariadb.execute)
