"""Random changefeeds in the form `history`: the table is what SQL's LEAD makes of the same changes, in any cut into
rounds, however often rows are sent again, and `verify` finds it equal."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import duckdb
import pytest
from hypothesis import given
from hypothesis import strategies as st

from consumer import app
from consumer.model.actions import Action
from consumer.model.columns import Column
from tests.property.test_merged_tables import KEYS
from tests.servers import MariaDb
from tests.support.canal_json import row_line
from tests.support.every_target import Duck
from tests.support.examples import examples
from tests.support.feed import Feed, Replica
from tests.support.inline_loader import InlineLoader
from tests.support.observers import Recorder

MS = 1 << 18
_LEAD = """
SELECT key, v, make_timestamp((ts >> 18) * 1000)::VARCHAR, make_timestamp((until >> 18) * 1000)::VARCHAR,
  (until IS NULL)::INT::VARCHAR, ts::VARCHAR
FROM (SELECT *, LEAD(ts) OVER (PARTITION BY key ORDER BY ts) AS until FROM changes)
WHERE there
"""


@dataclass(frozen=True)
class Step:
    """A transaction: what becomes of keys (None: deleted), or a move of the row of the first key to the second, or a
    TRUNCATE TABLE. `pause` are TSOs since the one before. `again`: how many of the last lines are sent again."""

    kind: str
    keys: tuple[str, ...]
    values: tuple[str | None, ...]
    pause: int
    again: int


@dataclass
class Upstream:
    """Writes what TiCDC does, and each state of a key: key, value, commit-ts, whether it is there."""

    feed: Feed
    kind: str
    key: Column
    ts: int = 10 * MS
    version: int = 2 * MS
    rows: dict[str, str | None] = field(default_factory=dict)
    states: list[tuple[str, str | None, int, bool]] = field(default_factory=list)
    lines: list[bytes] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.feed.database("d", MS)
        self._statement(
            self.version, Action.CREATE_TABLE, f"CREATE TABLE `t` (`k` {self.kind} NOT NULL PRIMARY KEY,`v` INT)"
        )

    def play(self, step: Step) -> None:
        self.ts += step.pause
        if step.kind == "truncate":
            self.version = self.ts
            self._statement(self.ts, Action.TRUNCATE_TABLE, "TRUNCATE TABLE `t`")
            self.states += [(key, None, self.ts, False) for key in self.rows]
            self.rows.clear()
            self.lines.clear()
            return
        lines = []
        if step.kind == "move" and step.keys[0] in self.rows and step.keys[-1] not in self.rows:
            old, new = step.keys[0], step.keys[-1]
            value = self.rows.pop(old)
            lines.append(self._line("UPDATE", new, value, [{"k": old, "v": value}]))
            self.states += [(old, None, self.ts, False), (new, value, self.ts, True)]
            self.rows[new] = value
        elif step.kind == "swap" and all(key in self.rows for key in step.keys):
            for key, other in zip(step.keys, step.keys[::-1], strict=True):
                lines.append(self._line("DELETE", key, self.rows[key], None))
                lines.append(self._line("INSERT", key, self.rows[other], None))
            turned = {key: self.rows[other] for key, other in zip(step.keys, step.keys[::-1], strict=True)}
            self.rows |= turned
            self.states += [(key, value, self.ts, True) for key, value in turned.items()]
        elif step.kind == "write":
            for key, value in zip(dict.fromkeys(step.keys), step.values, strict=False):
                if value == "gone":
                    if key in self.rows:
                        lines.append(self._line("DELETE", key, self.rows.pop(key), None))
                        self.states.append((key, None, self.ts, False))
                    continue
                was = [{"k": key, "v": self.rows[key]}] if key in self.rows else None
                lines.append(self._line("UPDATE" if was else "INSERT", key, value, was))
                self.rows[key] = value
                self.states.append((key, value, self.ts, True))
        self.lines += lines
        if content := b"".join([*lines, *self.lines[: step.again]]):
            self.feed.file("d.t", self.version, content)

    def _line(self, kind: str, key: str, value: str | None, old: list[dict[str, str | None]] | None) -> bytes:
        return row_line(kind, {"k": key, "v": value}, commit_ts=self.ts, old=old, pkNames=["k"]) + b"\r\n"

    def _statement(self, version: int, action: Action, query: str) -> None:
        self.feed.statement("d.t", version, action, query, (self.key, Column("v", "INT")))

    @property
    def history(self) -> list[tuple[Any, ...]]:
        with duckdb.connect() as connection:
            connection.execute("CREATE TABLE changes (key VARCHAR, v VARCHAR, ts BIGINT, there BOOLEAN)")
            for state in self.states:
                connection.execute("INSERT INTO changes VALUES (?, ?, ?, ?)", list(state))
            return sorted(connection.execute(_LEAD).fetchall(), key=repr)


@st.composite
def changefeeds(draw: st.DrawFn) -> tuple[str, list[list[Step]]]:
    kind = draw(st.sampled_from(sorted(KEYS)))
    keys = st.lists(KEYS[kind][1], min_size=2, max_size=2, unique=True).map(tuple)
    step = st.builds(
        Step,
        st.sampled_from(["write"] * 6 + ["move", "swap", "truncate"]),
        keys,
        st.tuples(*[st.sampled_from(["1", "2", "3", None, "gone"])] * 2),
        st.sampled_from([1, 2, 3, MS, 5 * MS]),
        st.integers(0, 3),
    )
    return kind, draw(st.lists(st.lists(step, min_size=1, max_size=8), min_size=1, max_size=4))


Query = Callable[[str], list[tuple[Any, ...]]]


def check(changefeed: tuple[str, list[list[Step]]], folder: Path, url: str, query: Query) -> None:
    kind, rounds = changefeed
    key, _ = KEYS[kind]
    own = Column(key.name, key.type, key.unsigned, key.length, key.scale, nullable=False, is_pk=True)
    upstream = Upstream(Feed(folder), kind, own)
    replica = Replica(upstream.feed, url)
    text = "VARCHAR" if isinstance(query, Duck) else "CHAR"
    flags: dict[str, Any] = {"table_modes": ["*.* = history"], "tz": "UTC"}
    for number, steps in enumerate(rounds):
        for step in steps:
            upstream.play(step)
        result = replica.once(upstream.ts, **flags)
        assert result.exit_code == 0, [table.error for table in result.tables.values()]
        columns = ("k", "v", "_valid_from", "_valid_to", "_is_current", "_commit_ts")
        found = query(f"SELECT {', '.join(f'CAST({name} AS {text})' for name in columns)} FROM d.t")
        assert sorted(map(plain, found), key=repr) == sorted(map(plain, upstream.history), key=repr)
        (compared,) = app.verify(replica.settings(**flags), Recorder(), loader=InlineLoader(number % 3)).tables
        assert compared.state == "equal", compared


def plain(row: tuple[Any, ...]) -> tuple[Any, ...]:
    """Times in one form."""
    times = (None if time is None else f"{time.partition('.')[0]}.{time.partition('.')[2]:0<6}" for time in row[2:4])
    return (*row[:2], *times, *row[4:])


@examples(20)
@given(changefeeds())
def test_duckdb_has_each_version(tmp_path_factory: pytest.TempPathFactory, changefeed: Any) -> None:
    folder = tmp_path_factory.mktemp("history")
    check(changefeed, folder / "cdc", f"duckdb:///{folder}/r.duckdb", Duck(folder / "r.duckdb"))


@examples(10)
@given(changefeeds())
def test_a_server_has_each_version(
    fresh_mariadb: MariaDb, tmp_path_factory: pytest.TempPathFactory, changefeed: Any
) -> None:
    fresh_mariadb.drop_all()
    check(changefeed, tmp_path_factory.mktemp("history") / "cdc", fresh_mariadb.url(), fresh_mariadb.execute)
