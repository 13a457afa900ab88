"""ENUM and SET columns of a restored target whose labels are not upstream's, where rows carry numbers."""

from __future__ import annotations

from pathlib import Path

import pytest

from consumer.model.columns import Column
from tests.servers import SqlServer
from tests.support.build import ID
from tests.support.canal_json import row_line
from tests.support.feed import Feed, Replica

UPSTREAM = ("a", "b😀", "it's")


@pytest.mark.parametrize("kind", ["ENUM", "SET"])
@pytest.mark.parametrize(
    ("labels", "fits"),
    [
        ("'a','b😀','it''s'", True),
        ("'a','b😀','it''s','more'", True),
        ("'b😀','a','it''s'", False),
        ("'a','b😀'", False),
        ("'more','a','b😀','it''s'", False),
    ],
)
@pytest.mark.parametrize("server", ["mariadb", "mysql"])
def test_labels_of_a_restored_table(
    server: str, labels: str, fits: bool, kind: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    target: SqlServer = request.getfixturevalue(f"fresh_{server}")
    feed = Feed(tmp_path)
    feed.describe("d.t", 2, (ID, Column("e", kind, elements=UPSTREAM)))
    target.execute(
        "CREATE DATABASE d CHARACTER SET utf8mb4", f"CREATE TABLE d.t (id INT PRIMARY KEY, e {kind}({labels}))"
    )
    feed.file("d.t", 2, row_line("INSERT", {"id": "1", "e": "1"}, commit_ts=10) + b"\r\n")
    result = Replica(feed, target.url()).once(20)
    if fits:
        assert result.exit_code == 0
        assert target.execute("SELECT id, e FROM d.t") == [(1, "a")]
        return
    assert result.exit_code == 3
    [error] = [table.error for table in result.tables.values()]
    assert "the rows carry the labels' numbers" in str(error)
    assert target.execute("SELECT COUNT(*) FROM d.t") == [(0,)]
