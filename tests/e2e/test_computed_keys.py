"""Keys with generated columns: the rows carry stored ones, and servers let nobody write them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import duckdb
import pytest

from consumer.model.actions import Action
from consumer.model.columns import Column
from consumer.results import RunResult
from tests.servers import SqlServer
from tests.support.canal_json import row_line
from tests.support.feed import Feed, Replica

Row = tuple[object, ...]
Query = Callable[[str], Sequence[Row]]
A, C = Column("a", "INT"), Column("c", "VARCHAR", length=20)
K = Column("k", "INT", nullable=False, is_pk=True)
S = Column("s", "VARCHAR", length=20)
CREATE = (
    "CREATE TABLE `t` (`a` INT,`k` INT AS (`a` + 1) STORED NOT NULL,`c` VARCHAR(20),"
    "`s` VARCHAR(20) AS (CONCAT('s', `c`)) STORED,PRIMARY KEY (`k`),UNIQUE KEY `by_s` (`s`))"
)


@pytest.fixture(params=["mariadb", "mysql", "tidb", "duckdb"])
def target(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, Query]:
    if request.param == "duckdb":
        path = str(tmp_path / "replica.duckdb")

        def query(text: str) -> list[Row]:
            with duckdb.connect(path) as connection:
                return connection.execute(text).fetchall()

        return f"duckdb:///{path}", query
    server: SqlServer = request.getfixturevalue(f"fresh_{request.param}")
    return server.url(), server.execute


def made(folder: Path, create: str, *columns: Column) -> Feed:
    feed = Feed(folder / "storage")
    feed.database("d", 1)
    feed.statement("d.t", 2, Action.CREATE_TABLE, create, columns)
    return feed


def row(a: int, c: str) -> dict[str, str | None]:
    return {"a": str(a), "k": str(a + 1), "c": c, "s": f"s{c}"}


def canal(kind: str, ts: int, *rows: dict[str, str | None]) -> bytes:
    return b"".join(row_line(kind, data, commit_ts=ts) + b"\r\n" for data in rows)


def csv(kind: str, ts: int, *rows: dict[str, str | None]) -> bytes:
    cells = (f'"{kind[0]}","t","d",{ts},{data["a"]},{data["k"]},"{data["c"]}","{data["s"]}"\r\n' for data in rows)
    return "".join(cells).encode()


def ended(result: RunResult) -> list[str]:
    return [f"{name} {found.state} {found.error}".strip() for name, found in result.tables.items()]


@pytest.mark.parametrize("protocol", ["canal-json", "csv"])
def test_a_key_that_the_target_computes(protocol: str, target: tuple[str, Query], tmp_path: Path) -> None:
    url, query = target
    feed = made(tmp_path, CREATE, A, K, C, S)
    flags: dict[str, object] = {}
    line, extension = canal, "json"
    if protocol == "csv":
        line, extension = csv, "csv"
        flags["upstream_uri"] = f"file://{feed.folder}?protocol=csv"
        flags["csv_include_commit_ts"] = True
    replica = Replica(feed, url)
    feed.file("d.t", 2, line("INSERT", 10, *(row(n, f"c{n}") for n in range(1, 6))), extension=extension)
    assert ended(replica.once(19, **flags)) == ["d.t ok"]
    changes = [
        line("DELETE", 20, row(1, "c1")),
        line("DELETE", 21, row(2, "c2")) + line("INSERT", 21, row(20, "c2")),  # its key and nothing else changes
        line("INSERT", 22, row(1, "new")),
        line("DELETE", 23, row(3, "c3")) + line("INSERT", 23, row(5, "c3")) + line("INSERT", 23, row(4, "c5")),
    ]
    feed.file("d.t", 2, b"".join(changes), extension=extension)
    assert ended(replica.once(29, **flags)) == ["d.t ok"]
    wanted = [(1, 2, "new", "snew"), (4, 5, "c5", "sc5"), (5, 6, "c3", "sc3"), (20, 21, "c2", "sc2")]
    assert list(query("SELECT a, k, c, s FROM d.t ORDER BY k")) == wanted


def test_rows_are_told_apart_by_what_they_have_where_the_only_key_is_virtual(
    target: tuple[str, Query], tmp_path: Path
) -> None:
    url, query = target
    create = "CREATE TABLE `t` (`a` INT,`k` INT AS (`a` + 1) VIRTUAL NOT NULL,`c` VARCHAR(20),UNIQUE KEY (`k`))"
    feed = made(tmp_path, create, A, Column("k", "INT", nullable=False), C)
    replica = Replica(feed, url)
    feed.file("d.t", 2, canal("INSERT", 10, *({"a": str(n), "c": f"c{n}"} for n in range(3))))
    assert ended(replica.once(19)) == ["d.t ok"]
    changed = canal("DELETE", 20, {"a": "0", "c": "c0"}) + canal("DELETE", 21, {"a": "1", "c": "c1"})
    feed.file("d.t", 2, changed + canal("INSERT", 21, {"a": "0", "c": "c1"}))
    assert ended(replica.once(29)) == ["d.t ok"]
    assert list(query("SELECT a, c FROM d.t ORDER BY a")) == [(0, "c1"), (2, "c2")]
