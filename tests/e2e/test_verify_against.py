"""`verify --against`: a target beside another server. It is never said to be equal over a difference, and what the
other server may have from a later moment is no difference."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from consumer import app
from consumer.config.load import load
from consumer.config.settings import Settings
from consumer.errors import BadConfig, SchemaDrift, TableMissing
from consumer.model.actions import Action
from consumer.model.check import Repairing, TableCheck, VerifyResult
from consumer.model.columns import Column
from tests.servers import SqlServer
from tests.support.build import ID, VALUE
from tests.support.command_line import command_line
from tests.support.feed import Feed
from tests.support.inline_loader import InlineLoader
from tests.support.observers import Recorder
from tests.support.scripts import run_on_server

TEXT = Column("s", "VARCHAR", length=20)
ENUM = Column("e", "ENUM", elements=("a", "b"))


class Pair:
    """The table d.t, which has been applied to two servers, and what a hand did to one of them."""

    def __init__(self, folder: Path, target: SqlServer, other: SqlServer) -> None:
        self.folder, self.target, self.other = folder, target, other
        self.feed = Feed(folder / "storage")
        self.feed.database("d", 5)
        self.flags = {"upstream_uri": f"file://{self.feed.folder}?protocol=canal-json"}

    def apply(self, body: str, columns: Sequence[Column], *rows: dict[str, str | None], keyless: bool = False) -> None:
        self.feed.statement("d.t", 10, Action.CREATE_TABLE, f"CREATE TABLE `t` ({body})", tuple(columns))
        self.columns, self._keys = tuple(columns), [] if keyless else ["id"]
        self.write(20, *rows)
        self.feed.checkpoint(1000)
        for server in (self.target, self.other):
            app.once(self.settings(server), Recorder(), InlineLoader())

    def write(self, ts: int, *rows: dict[str, str | None]) -> None:
        messages = (
            {
                "id": 0, "database": "d", "table": "t", "pkNames": self._keys, "isDdl": False, "type": "INSERT",
                "es": 0, "ts": 0, "sql": "", "sqlType": dict.fromkeys(row, 4), "old": None, "data": [row],
                "_tidb": {"commitTs": ts + number},
                "mysqlType": {column.name: column.type.lower() for column in self.columns if column.name in row},
            }
            for number, row in enumerate(rows)
        )  # fmt: skip
        self.feed.file("d.t", 10, b"".join(json.dumps(message).encode() + b"\r\n" for message in messages))

    def settings(self, server: SqlServer, **more: object) -> Settings:
        return load({**self.flags, "downstream_uri": server.url(), **more}, {}).settings

    def verified(self, repairing: Repairing = Repairing(), **more: object) -> VerifyResult:  # noqa: B008
        settings = self.settings(self.target, **more)
        return app.verify(settings, Recorder(), loader=InlineLoader(), repairing=repairing, against=self.other.url())

    @property
    def check(self) -> TableCheck:
        (check,) = self.verified().tables
        return check


@pytest.fixture(params=[("mariadb", "mysql"), ("mysql", "mariadb")], ids=lambda pair: "-".join(pair))
def pair(request: pytest.FixtureRequest, tmp_path: Path) -> Pair:
    target, other = (request.getfixturevalue(f"fresh_{kind}") for kind in request.param)
    return Pair(tmp_path, target, other)


def simple(pair: Pair) -> None:
    pair.apply("`id` INT PRIMARY KEY, `v` INT", (ID, VALUE), *({"id": str(n), "v": str(n)} for n in range(1, 6)))


def test_what_differs_is_counted_shown_and_made_right_by_statements(pair: Pair) -> None:
    simple(pair)
    assert pair.check.state == "equal"
    pair.target.execute("DELETE FROM d.t WHERE id = 1", "UPDATE d.t SET v = 99 WHERE id = 2")
    pair.target.execute("INSERT INTO d.t VALUES (7, 7)")
    script = pair.folder / "right.sql"
    result = pair.verified(Repairing(sql=str(script)))
    counted = result.tables[0].counted
    assert (counted.missing, counted.extra, counted.differing) == (1, 1, 1)
    error = result.verdict(strict=False)
    assert error is not None
    assert error.exit_code == 6
    assert f"127.0.0.1:{pair.other.port}" in error.message
    assert error.hint.endswith("--repair-sql writes the statements that make the rows right")
    run_on_server(script, pair.target)
    assert pair.check.state == "equal"
    assert pair.target.execute("SELECT * FROM d.t ORDER BY id") == pair.other.execute("SELECT * FROM d.t ORDER BY id")


@pytest.mark.parametrize(
    ("body", "columns", "row", "by_hand"),
    [
        ("`id` INT PRIMARY KEY, `s` VARCHAR(20)", (ID, TEXT), {"id": "1", "s": "a"}, "UPDATE d.t SET s = 'a '"),
        ("`id` INT PRIMARY KEY, `s` VARCHAR(20)", (ID, TEXT), {"id": "1", "s": "a"}, "UPDATE d.t SET s = 'A'"),
        ("`id` INT PRIMARY KEY, `s` VARCHAR(20)", (ID, TEXT), {"id": "1", "s": None}, "UPDATE d.t SET s = ''"),
        (
            "`id` INT PRIMARY KEY, `s` VARCHAR(20) COLLATE utf8mb4_general_ci",
            (ID, TEXT),
            {"id": "1", "s": "\u00e9"},
            "UPDATE d.t SET s = 'e'",
        ),
        (
            "`s` VARCHAR(20) COLLATE utf8mb4_general_ci PRIMARY KEY",
            (Column("s", "VARCHAR", length=20, is_pk=True, nullable=False),),
            {"s": "a"},
            "UPDATE d.t SET s = 'A'",
        ),
        (
            "`id` INT PRIMARY KEY, `t` TIMESTAMP(3) NULL",
            (ID, Column("t", "TIMESTAMP", scale=3)),
            {"id": "1", "t": "2024-01-01 00:00:00.000"},
            "UPDATE d.t SET t = t + INTERVAL 1000 MICROSECOND",
        ),
        (
            "`id` INT PRIMARY KEY, `e` ENUM('a','b')",
            (ID, ENUM),
            {"id": "1", "e": "1"},
            "UPDATE d.t SET e = 'b'",
        ),
    ],
    ids=["trailing blank", "case", "null and empty", "accent", "key by case", "a millisecond", "label"],
)
def test_small_differences_are_found(
    pair: Pair, body: str, columns: Sequence[Column], row: dict[str, str | None], by_hand: str
) -> None:
    pair.apply(body, columns, row)
    assert pair.check.state == "equal"
    pair.other.execute(by_hand)
    assert pair.check.state == "differs"


@pytest.mark.parametrize(
    ("column", "kind", "value", "wider"),
    [
        (Column("f", "FLOAT", length=12), "FLOAT", "0.1", "DOUBLE"),
        (Column("f", "DECIMAL", length=10, scale=2), "DECIMAL(10,2)", "1.20", "DECIMAL(10,4)"),
        (Column("f", "DATETIME", scale=3), "DATETIME(3)", "2024-01-01 00:00:00.000", "DATETIME(6)"),
    ],
    ids=["float", "decimal", "datetime"],
)
def test_a_type_that_holds_more_than_upstreams_is_an_error(
    pair: Pair, column: Column, kind: str, value: str, wider: str
) -> None:
    pair.apply(f"`id` INT PRIMARY KEY, `f` {kind}", (ID, column), {"id": "1", "f": value})
    assert pair.check.state == "equal"
    pair.other.execute(f"ALTER TABLE d.t MODIFY f {wider}")
    error = pair.verified().verdict(strict=False)
    assert isinstance(error, SchemaDrift)
    assert "column f" in error.message


def test_copies_of_rows_with_no_key_are_counted(pair: Pair) -> None:
    plain = Column("id", "INT", length=11), VALUE
    pair.apply("`id` INT, `v` INT", plain, {"id": "1", "v": "1"}, {"id": "1", "v": "1"}, keyless=True)
    assert pair.check.state == "equal"
    pair.other.execute("INSERT INTO d.t VALUES (1, 1)")
    assert (pair.check.counted.missing, pair.check.counted.extra) == (1, 0)


@pytest.mark.parametrize(
    ("body", "columns", "row", "by_hand"),
    [
        (
            "`id` INT PRIMARY KEY, `e` ENUM('a','b')",
            (ID, ENUM),
            {"id": "1", "e": "1"},
            "ALTER TABLE d.t MODIFY e ENUM('b','a')",
        ),
        ("`id` INT PRIMARY KEY, `v` INT", (ID, VALUE), {"id": "1", "v": "1"}, "ALTER TABLE d.t ADD COLUMN more INT"),
        (
            "`id` INT PRIMARY KEY, `v` INT, `g` INT AS (`v` + 1) VIRTUAL",
            (ID, VALUE, Column("g", "INT", length=11)),
            {"id": "1", "v": "1"},
            "ALTER TABLE d.t DROP COLUMN g, ADD COLUMN g INT AS (v + 9) VIRTUAL",
        ),
    ],
    ids=["labels", "a column more", "virtual"],
)
def test_what_cannot_be_compared_is_named_and_never_called_equal(
    pair: Pair, body: str, columns: Sequence[Column], row: dict[str, str | None], by_hand: str
) -> None:
    pair.apply(body, columns, row)
    pair.other.execute(by_hand)
    assert pair.check.state != "equal"
    assert pair.check.notes or pair.check.error or pair.check.counted.differences


@pytest.mark.parametrize(
    "by_hand",
    [
        ("ALTER TABLE d.t DROP PRIMARY KEY", "INSERT INTO d.t VALUES (1, 1)"),
        ("ALTER TABLE d.t DROP PRIMARY KEY, ADD PRIMARY KEY (id, v)", "INSERT INTO d.t VALUES (1, 2)"),
        ("DROP TABLE d.t",),
        ("DROP TABLE d.t", "CREATE VIEW d.t AS SELECT 1 id, 1 v"),
        ("ALTER TABLE d.t DROP COLUMN v",),
        ("ALTER TABLE d.t DROP COLUMN v", "ALTER TABLE d.t ADD COLUMN v DATE"),
        ("ALTER TABLE d.t MODIFY v VARCHAR(20)", "UPDATE d.t SET v = '01' WHERE v = '1'"),
        ("ALTER TABLE d.t MODIFY v DECIMAL(20, 4)", "UPDATE d.t SET v = 1.0001 WHERE v = 1"),
    ],
    ids=["no key", "another key", "no table", "a view", "no column", "another type", "a text", "digits"],
)
def test_other_tables_of_one_name_are_an_error(pair: Pair, by_hand: Sequence[str]) -> None:
    simple(pair)
    pair.other.execute(*by_hand)
    error = pair.verified().verdict(strict=False)
    assert isinstance(error, SchemaDrift | TableMissing)
    assert error.exit_code == 3


def test_a_table_that_only_the_other_server_has_is_an_error(pair: Pair) -> None:
    simple(pair)
    pair.other.execute("CREATE TABLE d.more (id INT PRIMARY KEY)", "CREATE VIEW d.seen AS SELECT 1 a")
    error = pair.verified().verdict(strict=False)
    assert isinstance(error, TableMissing)
    assert error.exit_code == 3
    assert [str(check.table) for check in pair.verified().tables if check.error] == ["d.more"]
    assert pair.verified(tables="d.t").verdict(strict=True) is None


@pytest.mark.parametrize("keyless", [False, True])
def test_rows_that_the_storage_changed_later_are_no_differences(pair: Pair, keyless: bool) -> None:
    key = Column("id", "INT", length=11) if keyless else ID
    body = "`id` INT, `v` INT" if keyless else "`id` INT PRIMARY KEY, `v` INT"
    pair.apply(body, (key, VALUE), {"id": "1", "v": "1"}, {"id": "2", "v": "2"}, keyless=keyless)
    pair.write(2000, {"id": "3", "v": "3"})
    pair.other.execute("INSERT INTO d.t VALUES (3, 3)")
    check = pair.check
    assert (check.state, check.counted.moving) == ("equal in part", 1)
    assert "run `once`" in check.notes[0]
    pair.other.execute("INSERT INTO d.t VALUES (4, 4)")
    check = pair.check
    assert (check.state, check.counted.moving, check.counted.missing) == ("differs", 1, 1)
    assert "the storage is complete up to" in check.notes[-1]


def test_the_target_itself_is_no_other_server(pair: Pair) -> None:
    simple(pair)
    pair.other = pair.target
    error = pair.verified().verdict(strict=False)
    assert isinstance(error, SchemaDrift)
    assert "itself" in error.message


def test_a_statement_that_the_other_server_may_have_run_is_waited_for(pair: Pair) -> None:
    simple(pair)
    pair.feed.truncate("d.t", 2000)
    pair.other.execute("TRUNCATE TABLE d.t")
    error = pair.verified().verdict(strict=False)
    assert isinstance(error, SchemaDrift)
    assert "2000" in error.message
    pair.feed.checkpoint(3000)
    app.once(pair.settings(pair.target), Recorder(), InlineLoader())
    assert pair.check.state == "equal"


def test_repair_needs_a_server_with_a_past(pair: Pair) -> None:
    simple(pair)
    with pytest.raises(BadConfig, match="only TiDB does"):
        pair.verified(Repairing(write=True))
    script = pair.folder / "right.sql"
    pair.other.execute("UPDATE d.t SET v = 7 WHERE id = 1")
    pair.verified(Repairing(sql=str(script)))
    run_on_server(script, pair.target)
    assert pair.target.execute("SELECT v FROM d.t WHERE id = 1") == [(7,)]


def test_the_other_server_has_the_upstreams_names(pair: Pair) -> None:
    pair.flags["routes"] = "d.* -> r.*"
    simple(pair)
    pair.other.execute("CREATE DATABASE d", "RENAME TABLE r.t TO d.t")
    assert pair.check.state == "equal"
    assert pair.check.target_table is not None
    pair.target.execute("UPDATE r.t SET v = 99 WHERE id = 2")
    assert pair.check.state == "differs"


def test_filtered_rows_are_refused(pair: Pair, tmp_path: Path) -> None:
    refused(pair, tmp_path, '[[consumer.rows]]\ntables = ["d.*"]\nwhere = "v > 2"\n', "filters or masks")


def test_tables_that_are_no_mirrors_are_refused(pair: Pair, tmp_path: Path) -> None:
    refused(pair, tmp_path, '[[consumer.table-modes]]\ntables = ["d.*"]\nmode = "append"\n', "of the form append")


def refused(pair: Pair, tmp_path: Path, rules: str, why: str) -> None:
    """As the hint says, the storage is what the table can be compared with."""
    config = tmp_path / "own.toml"
    config.write_text(f'[sink]\nprotocol = "canal-json"\n{rules}')
    pair.settings = lambda server, **more: (
        load(  # type: ignore[method-assign]
            {**pair.flags, "downstream_uri": server.url(), **more}, {}, str(config)
        ).settings
    )
    simple(pair)
    check = pair.check
    assert check.state == "not compared"
    assert why in str(check.error)
    assert app.verify(pair.settings(pair.target), Recorder(), loader=InlineLoader()).tables[0].state == "equal"


def test_the_command_never_prints_the_password(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, fresh_mariadb: SqlServer
) -> None:
    consumer = command_line(tmp_path, capsys, monkeypatch)
    assert consumer.run("once").code == 0
    fresh_mariadb.execute("CREATE USER reader IDENTIFIED BY 'a-long-secret'", "GRANT SELECT ON *.* TO reader")
    monkeypatch.setenv("OTHER", "a-long-secret")
    url = fresh_mariadb.url("reader") + "?password=env:OTHER"
    left = consumer.run("verify", "--against", url, "--json")
    assert left.code == 3
    assert left.json["tables"]
    assert all(t["state"] == "not compared" for t in left.json["tables"].values())
    assert left.json["against"] == f"127.0.0.1:{fresh_mariadb.port}"
    wrong = consumer.run("verify", "--against", fresh_mariadb.url("reader", "another-secret"))
    assert wrong.code == 2
    assert "--against" in wrong.err
    for one in (left, wrong):
        assert "secret" not in one.out + one.err
    assert consumer.run("verify", "--against", "duckdb:///x.duckdb").code == 2


def test_a_statement_that_the_target_refuses_may_have_run_on_the_other_server(pair: Pair) -> None:
    simple(pair)
    refusing = {"rules": [{"action": "fail", "kinds": ["column"]}]}
    pair.feed.statement("d.t", 2000, Action.DROP_COLUMN, "ALTER TABLE `t` DROP COLUMN `v`", (ID,))
    pair.feed.checkpoint(2000)
    app.once(pair.settings(pair.target, ddl=refusing), Recorder(), InlineLoader())
    (check,) = pair.verified(ddl=refusing).tables
    assert isinstance(check.error, SchemaDrift)
    assert "the statement of version 2000 has not run in the target" in check.error.message
