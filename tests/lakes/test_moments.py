"""All tables of a lake at one moment: as a replay of upstream's changes has them, or refused by name."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from consumer import app, lake
from consumer.cli.lake_at import _print_views
from consumer.errors import BadConfig
from consumer.model.actions import Action
from consumer.model.columns import Column
from consumer.model.names import TableName
from consumer.results import RunResult
from consumer.sink.lake.sink import LakeSink
from consumer.spark.load import SparkLoader
from consumer.target import TableAt
from tests.lakes.test_deaths import NO_KEY, dies_behind_a_commit, line, settings_of
from tests.support.build import ID, VALUE
from tests.support.canal_json import typed_line
from tests.support.feed import Feed
from tests.support.lakes import FORMATS, lake_sink, lake_uri
from tests.support.observers import Recorder

MORE = Column("w", "INT")
K, N, S, G, R, Q, E = (TableName("d", name) for name in "knsgrqe")
State = dict[TableName, Counter[str]]
"""By table, its rows as texts."""


@dataclass
class Upstream:
    """What upstream does is written to the feed, and kept: `at` plays it again up to a moment."""

    feed: Feed
    log: list[tuple[int, Callable[[State], object]]] = field(default_factory=list)
    versions: dict[TableName, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.feed.database("d", 1)

    def made(self, version: int, table: TableName, change: Callable[[State], object]) -> None:
        self.versions[table] = version
        self.log.append((version, change))

    def create(self, version: int, table: TableName) -> None:
        if table == N:
            self.feed.statement("d.n", version, Action.CREATE_TABLE, "CREATE TABLE `n` (`id` INT,`v` INT)", NO_KEY)
        else:
            self.feed.create(str(table), version)
        self.made(version, table, lambda state: state.update({table: Counter()}))

    def rename(self, version: int, old: TableName, new: TableName) -> None:
        self.feed.rename(str(old), str(new), version)
        self.made(version, new, lambda state: state.update({new: state.pop(old)}))

    def drop(self, version: int, table: TableName) -> None:
        self.feed.drop(str(table), version)
        self.made(version, table, lambda state: state.pop(table))

    def truncate(self, version: int, table: TableName) -> None:
        self.feed.truncate(str(table), version)
        self.made(version, table, lambda state: state[table].clear())

    def put(self, ts: int, table: TableName, **row: int | None) -> None:
        """A row, also in the place of the one with its key."""

        def change(state: State) -> None:
            if table != N:
                for old in [text for text in state[table] if eval(text)["id"] == row["id"]]:
                    del state[table][old]
            state[table][str(row)] += 1

        self._write(ts, table, "INSERT", row)
        self.log.append((ts, change))

    def delete(self, ts: int, table: TableName, **row: int | None) -> None:
        self._write(ts, table, "DELETE", row)
        self.log.append((ts, lambda state: state[table].subtract({str(row): 1})))

    def _write(self, ts: int, table: TableName, kind: str, row: dict[str, int | None]) -> None:
        texts = {name: None if value is None else str(value) for name, value in row.items()}
        columns = (ID, VALUE, MORE)[: len(row)]
        content = line(ts, kind, **texts) if table == N else typed_line(columns, ts, texts, kind, table=table.table)
        self.feed.file(str(table), self.versions[table], content)

    def add_column(self, version: int, table: TableName) -> None:
        text = f"ALTER TABLE `{table.table}` ADD COLUMN `w` INT"
        self.feed.statement(str(table), version, Action.ADD_COLUMN, text, (ID, VALUE, MORE))

        def change(state: State) -> None:
            state[table] = Counter({str({**eval(text), "w": None}): count for text, count in state[table].items()})

        self.made(version, table, change)

    def at(self, moment: int) -> State:
        state: State = {}
        for ts, change in sorted(self.log, key=lambda one: one[0]):
            if ts <= moment:
                change(state)
        return {table: +rows for table, rows in state.items()}


@dataclass
class Lake:
    uri: str
    loader: SparkLoader
    rows: dict[str, Counter[str]] = field(default_factory=dict)
    """By what was asked, as many moments ask the same."""

    def __post_init__(self) -> None:
        self.sink: LakeSink = lake_sink(self.uri, self.loader)

    def at(self, moment: int, *tables: TableName) -> State | str:
        """Or why not."""
        try:
            found = self.sink.tables_at(moment, tables.__contains__ if tables else None)
        except BadConfig as refused:
            return refused.message
        return {table.name: self._read(table) for table in found}

    def _read(self, table: TableAt) -> Counter[str]:
        if table.query not in self.rows:
            self.rows[table.query] = counted(self.sink.frame(table).toArrow().to_pylist())
        return self.rows[table.query]


def counted(rows: Iterable[dict[str, Any]]) -> Counter[str]:
    return Counter(map(str, rows))


def said_of_commits(replica: Lake, kind: str, folder: str) -> list[tuple[str, ...]]:
    """What others read of the commits of d.k, as docs/lakes.md shows it, in their order."""
    session = replica.sink._session()
    names = ("ticdc.commit-ts", "ticdc.from-ts", "ticdc.table")
    if kind == "iceberg":
        found = session.sql("SELECT summary FROM lake.d.k.snapshots ORDER BY committed_at")
        return [tuple(summary[name] for name in names) for (summary,) in found.collect()]
    said = "coalesce(userMetadata, regexp_replace(engineInfo, '^Kernel-[^/]*/', ''))"
    members = [f"get_json_object({said}, \"$['{name}']\")" for name in names]
    found = session.sql(f"DESCRIBE HISTORY delta.`{folder}/d/k`").orderBy("version").selectExpr(*members)
    return [tuple(row) for row in found.collect() if row[0] is not None]


def story(upstream: Upstream, run: Callable[[int], RunResult]) -> None:
    for version, table in ((10, K), (11, N), (12, S), (13, G), (14, R)):
        upstream.create(version, table)
    upstream.put(20, K, id=1, v=1)
    upstream.put(21, K, id=2, v=2)
    for ts, table in ((22, N), (23, S), (24, G), (25, R)):
        upstream.put(ts, table, id=5, v=ts)
    run(30)
    upstream.put(33, K, id=1, v=3)
    upstream.put(34, N, id=3, v=3)  # and nothing is left of it at the end of the round
    upstream.delete(35, N, id=3, v=3)
    run(40)
    run(50)
    upstream.drop(52, G)
    upstream.create(53, E)
    upstream.rename(54, R, Q)
    upstream.add_column(55, K)
    upstream.put(56, Q, id=6, v=6)
    upstream.put(57, K, id=3, v=3, w=9)
    run(60)
    upstream.delete(62, K, id=2, v=2, w=None)
    upstream.put(63, N, id=1, v=8)
    upstream.truncate(65, S)
    upstream.put(66, S, id=9, v=9)
    upstream.put(68, E, id=1, v=1)
    run(70)
    upstream.put(75, K, id=4, v=4, w=4)
    run(80)


ROUNDS = (30, 40, 50, 60, 70, 80)
MOMENTS = (5, 12, 15, 20, *range(23, 37), 39, 40, 41, *range(49, 72), 75, 79, 80, 81)
"""At, in front of and behind what happens."""


@pytest.mark.parametrize("kind", FORMATS)
def test_each_moment_is_as_upstream_was_or_refused(kind: str, lake_spark: SparkLoader, tmp_path: Path) -> None:
    upstream, uri = Upstream(Feed(tmp_path / "storage")), lake_uri(kind, tmp_path)

    def run(checkpoint: int) -> RunResult:
        upstream.feed.checkpoint(checkpoint)
        result = app.once(settings_of(upstream.feed, uri), Recorder(), lake_spark)
        assert result.exit_code == 0, result
        return result

    story(upstream, run)
    replica, answered = Lake(uri, lake_spark), Counter[TableName]()
    for moment in MOMENTS:
        wanted = upstream.at(moment)
        for table in (K, N, S, G, R, Q, E):
            found = replica.at(moment, table)
            if isinstance(found, str):
                assert table in wanted or "no such table" in found, (moment, found)
                assert moment not in ROUNDS or table not in wanted or table == G, (moment, found)
            else:
                assert found == {table: wanted[table]}, moment
                answered[table] += 1
        found = replica.at(moment)
        assert found == wanted or (isinstance(found, str) and moment not in (60, 70, 80)), (moment, found)
    assert all(answered[table] > 8 for table in (K, N, S, R, Q, E)), answered
    for moment, tables, why in (
        (50, (), "d.g of then is gone: it was dropped, renamed or made again (52)"),
        (81, (), "d.k is complete up to 80"),
        (63, (K,), "d.k has changed since: it is known from 60 up to 60, and from 70 on"),
    ):
        assert why in str(replica.at(moment, *tables))
    assert said_of_commits(replica, kind, f"{tmp_path}/lake") == [
        ("30", "10", "d.k"),
        ("40", "30", "d.k"),
        ("55", "54", "d.k"),
        ("60", "55", "d.k"),
        ("70", "60", "d.k"),
        ("80", "70", "d.k"),
    ]
    frames = lake.at(lake_spark.session(), uri, 60)
    assert {name: counted(frame.toArrow().to_pylist()) for name, frame in frames.items()} == upstream.at(60)


def test_two_lakes_in_one_session(lake_spark: SparkLoader, tmp_path: Path) -> None:
    """Spark keeps the catalog of a name that it has opened."""
    spark, found = lake_spark.session(), []
    for number in (1, 2):
        upstream, uri = Upstream(Feed(tmp_path / f"storage{number}")), f"iceberg://{tmp_path}/lake{number}"
        upstream.create(10, K)
        upstream.put(20, K, id=number, v=1)
        upstream.feed.checkpoint(30)
        assert app.once(settings_of(upstream.feed, uri), Recorder(), lake_spark).exit_code == 0
        found += [lake.at(spark, uri, 30)[K] for _ in range(2)]
    assert [frame.select("id").collect()[0].id for frame in found] == [1, 1, 2, 2]


@pytest.mark.parametrize("kind", FORMATS)
def test_moments_behind_a_death_and_behind_maintain(
    kind: str,
    lake_spark: SparkLoader,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    upstream, uri = Upstream(Feed(tmp_path / "storage")), lake_uri(kind, tmp_path)
    settings, replica = settings_of(upstream.feed, uri), Lake(uri, lake_spark)
    upstream.create(10, K)
    upstream.put(20, K, id=1, v=1)
    upstream.feed.checkpoint(30)
    assert app.once(settings, Recorder(), lake_spark).exit_code == 0
    upstream.put(33, K, id=1, v=2)
    upstream.feed.checkpoint(40)
    dies_behind_a_commit(monkeypatch, lambda: app.once(settings, Recorder(), lake_spark))
    assert replica.at(30) == upstream.at(30), "the progress lacks the newest version"
    assert "complete up to 30" in str(replica.at(40))
    upstream.feed.checkpoint(50)
    assert app.once(settings, Recorder(), lake_spark).exit_code == 0
    for moment in (30, 40, 45, 50):
        assert replica.at(moment) == upstream.at(moment)
    assert "known from 30 up to 30, and from 40 on" in str(replica.at(33))

    _print_views(app.lake_at(settings, Recorder(), 30, lambda table: True, lake_spark))
    session = lake_spark.session()
    for statement in capsys.readouterr().out.split(";\n")[:-1]:
        session.sql(statement)
    try:
        assert counted(session.table("d.k").toArrow().to_pylist()) == upstream.at(30)[K]
    finally:
        session.sql("DROP DATABASE d CASCADE")

    app.maintain(settings, Recorder(), timedelta(0), lake_spark)
    why = {"delta": "of which files are gone", "iceberg": "has no version that is known to be of then"}
    assert why[kind] in str(replica.at(30))
    assert replica.at(50) == upstream.at(50)


def test_a_tag_keeps_a_moment_that_maintain_would_remove(lake_spark: SparkLoader, tmp_path: Path) -> None:
    upstream, uri = Upstream(Feed(tmp_path / "storage")), lake_uri("iceberg", tmp_path)
    settings, session = settings_of(upstream.feed, uri), lake_spark.session()
    upstream.create(10, K)
    for moment in (20, 40, 60):
        upstream.put(moment, K, id=1, v=moment)
        upstream.feed.checkpoint(moment + 10)
        assert app.once(settings, Recorder(), lake_spark).exit_code == 0
    (then,) = app.lake_at(settings, Recorder(), 30, lambda table: True, lake_spark).tables
    named = then.query.removeprefix("SELECT * FROM ").partition(" ")[0]
    table = session._jvm.org.apache.iceberg.spark.Spark3Util.loadIcebergTable(session._jsparkSession, named)
    table.manageSnapshots().createTag("month_end", int(str(then.version_as_of))).commit()
    app.maintain(settings, Recorder(), timedelta(0), lake_spark)
    session.sql(f"REFRESH TABLE {named}")
    rows = session.sql(f"SELECT * FROM {named} VERSION AS OF 'month_end'").toArrow().to_pylist()
    assert counted(rows) == upstream.at(30)[K]
    assert Lake(uri, lake_spark).at(70) == upstream.at(70)
