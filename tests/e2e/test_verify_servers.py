"""`verify` on servers: what only their tables have, and a table that a hand has changed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pyarrow as pa
import pytest

import consumer.sink.mysql.rows.compare as compare
from consumer import app
from consumer.config.load import load
from consumer.config.settings import Settings
from consumer.model.actions import Action
from consumer.model.check import VerifyResult
from consumer.model.columns import Column
from tests.servers import SqlServer
from tests.support.build import ID
from tests.support.canal_json import typed_line
from tests.support.feed import Feed
from tests.support.inline_loader import InlineLoader
from tests.support.observers import Recorder

Row = Mapping[str, str | None]


@pytest.fixture(params=["mariadb", "mysql", "tidb"])
def server(request: pytest.FixtureRequest) -> SqlServer:
    found: SqlServer = request.getfixturevalue(f"fresh_{request.param}")
    return found


def applied(tmp_path: Path, server: SqlServer, columns: Sequence[tuple[Column, str]], rows: Sequence[Row]) -> Settings:
    """One table with the column id and these, and rows that were inserted."""
    feed = Feed(tmp_path / "storage")
    feed.database("d", 5)
    body = ", ".join(("`id` INT PRIMARY KEY", *(f"`{column.name}` {kind}" for column, kind in columns)))
    shape = (ID, *(column for column, _ in columns))
    feed.statement("d.t", 10, Action.CREATE_TABLE, f"CREATE TABLE `t` ({body})", shape)
    feed.file("d.t", 10, b"".join(_line(20 + number, shape, row) for number, row in enumerate(rows)))
    feed.checkpoint(1000)
    flags = {"upstream_uri": f"file://{feed.folder}?protocol=canal-json", "downstream_uri": server.url()}
    settings = load(flags, {}).settings
    observer = Recorder()
    app.once(settings, observer, InlineLoader())
    assert {str(table): str(error) for table, error in observer.stopped.items()} == {}
    return settings


def _line(ts: int, columns: Sequence[Column], row: Row) -> bytes:
    return typed_line(columns, ts, dict(row), pkNames=["id"])


def verified(settings: Settings) -> VerifyResult:
    return app.verify(settings, Recorder(), loader=InlineLoader())


def differing(result: VerifyResult) -> list[str]:
    return [name for table in result.tables for row in table.counted.shown for name, _, _ in row.values]


def test_a_stored_column_that_the_server_computes_is_compared(server: SqlServer, tmp_path: Path) -> None:
    columns = [
        (Column("a", "INT", length=11), "INT"),
        (Column("g", "INT", length=11), "INT GENERATED ALWAYS AS (`a` + 1) STORED"),
        (Column("w", "INT", length=11), "INT GENERATED ALWAYS AS (`a` + 2) VIRTUAL"),
    ]
    settings = applied(tmp_path, server, columns, [{"id": "1", "a": "1", "g": "2"}])
    assert [table.state for table in verified(settings).tables] == ["equal"]
    server.execute("ALTER TABLE d.t DROP COLUMN g", "ALTER TABLE d.t ADD COLUMN g INT AS (a + 9) STORED")
    assert differing(verified(settings)) == ["g"]


def test_a_number_with_zeros_before_it_is_the_same(server: SqlServer, tmp_path: Path) -> None:
    padded = Column("p", "DECIMAL", unsigned=True, length=10, scale=2)
    settings = applied(tmp_path, server, [(padded, "DECIMAL(10,2) UNSIGNED ZEROFILL")], [{"id": "1", "p": "12.30"}])
    assert [table.state for table in verified(settings).tables] == ["equal"]
    server.execute("UPDATE d.t SET p = 12")
    ((row,),) = (table.counted.shown for table in verified(settings).tables)
    assert row.values == (("p", "12.30", "12.00"),)


@pytest.mark.parametrize(
    "by_hand",
    [
        ("ALTER TABLE d.t DROP PRIMARY KEY", "ALTER TABLE d.t ADD KEY (id)", "INSERT INTO d.t VALUES (1, 1)"),
        ("DROP TABLE d.t", "CREATE VIEW d.t AS SELECT 1 id, 2 a"),
    ],
)
def test_a_table_that_cannot_be_compared_because_of_the_target_is_an_error(
    server: SqlServer, tmp_path: Path, by_hand: Sequence[str]
) -> None:
    settings = applied(tmp_path, server, [(Column("a", "INT", length=11), "INT")], [{"id": "1", "a": "1"}])
    server.execute(*by_hand)
    error = verified(settings).verdict(strict=False)
    assert error is not None
    assert error.exit_code == 3


def test_a_vector_is_compared_with_all_its_digits(fresh_mysql: SqlServer, tmp_path: Path) -> None:
    rows = [{"id": "1", "v": "[0.123456789,1234567,-0.5]"}]
    settings = applied(tmp_path, fresh_mysql, [(Column("v", "VECTOR"), "VECTOR(3)")], rows)
    fresh_mysql.execute(
        "ALTER TABLE d.t DROP COLUMN v",
        "ALTER TABLE d.t ADD COLUMN v VECTOR(3)",
        "UPDATE d.t SET v = STRING_TO_VECTOR('[0.123456789,1234567,-0.5]')",
    )
    assert differing(verified(settings)) == []
    fresh_mysql.execute("UPDATE d.t SET v = STRING_TO_VECTOR('[0.123456781,1234567,-0.5]')")
    assert differing(verified(settings)) == ["v"]


def test_wide_rows_are_read_a_few_at_a_time(server: SqlServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [{"id": str(number), "v": "x" * 10_000} for number in range(300)]
    settings = applied(tmp_path, server, [(Column("v", "LONGTEXT"), "LONGTEXT")], rows)
    monkeypatch.setattr("consumer.sink.mysql.rows.compare._BATCH_BYTES", 200_000)
    read: list[int] = []

    def note(batch: pa.Table) -> int:
        read.append(batch.num_rows)
        return fitting(batch)

    fitting = compare._fitting
    monkeypatch.setattr("consumer.sink.mysql.rows.compare._fitting", note)
    (table,) = verified(settings).tables
    assert (table.state, table.counted.expected) == ("equal", 300)
    assert sum(read) == 300
    assert set(read[1:-1]) <= {18, 19, 20}
