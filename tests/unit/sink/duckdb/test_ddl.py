"""Upstream's statements on a DuckDB replica: what becomes of the rows that are there."""

from __future__ import annotations

from dataclasses import replace
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from consumer.errors import DdlRefused, SchemaDrift
from consumer.model.actions import Action
from consumer.model.columns import Column
from consumer.model.load import TableLoad
from consumer.model.names import TableName
from consumer.model.times import ms_to_tso
from consumer.target import LoadRequest
from tests.unit.sink.duckdb.replica import ID, TABLE, Replica, V

OTHER = TableName("db", "other")
NOON = ms_to_tso(1_704_110_400_123)  # 2024-01-01 12:00:00.123 UTC


def add(column: Column, definition: str = "", **more: Any) -> dict[str, Any]:
    query = f"ALTER TABLE `t` ADD COLUMN {definition or f'`{column.name}` {column.type}'}"
    return {"action": Action.ADD_COLUMN, "query": query, "columns": (ID, V, column), **more}


@pytest.mark.parametrize(
    ("column", "wanted"),
    [
        (Column("n", "INT"), None),
        (Column("n", "INT", default="-5"), -5),
        (Column("n", "BIGINT", unsigned=True, nullable=False), 0),
        (Column("n", "DECIMAL", length=8, scale=3, default="1.250"), Decimal("1.250")),
        (Column("n", "DECIMAL", length=60, scale=2, default="1.25"), "1.25"),
        (Column("n", "DOUBLE", nullable=False), 0.0),
        (Column("n", "YEAR", default="2024"), 2024),
        (Column("n", "BIT", length=8, default="\n"), 10),
        (Column("n", "VARCHAR", length=20, default="it's \\ \n"), "it's \\ \n"),
        (Column("n", "CHAR", length=3, nullable=False), ""),
        (Column("n", "BINARY", length=4, default="ab"), b"ab\0\0"),
        (Column("n", "BINARY", length=2, nullable=False), b"\0\0"),
        (Column("n", "VARBINARY", length=4, default="\xff"), "\xff".encode()),
        (Column("n", "BLOB", nullable=False), b""),
        (Column("n", "ENUM", nullable=False, elements=("x", "y")), "x"),
        (Column("n", "ENUM", default="y", elements=("x", "y")), "y"),
        (Column("n", "SET", nullable=False, elements=("x", "y")), ""),
        (Column("n", "DATE", default="2024-02-29"), date(2024, 2, 29)),
        (Column("n", "DATE", nullable=False), "0000-00-00"),
        (Column("n", "DATETIME", scale=3, nullable=False), "0000-00-00 00:00:00.000"),
        (Column("n", "TIMESTAMP", default="0000-00-00 00:00:00"), "0000-00-00 00:00:00"),
        (Column("n", "DATETIME", default="2024-01-01 10:00:00"), datetime(2024, 1, 1, 10)),
        (Column("n", "DATETIME", default="CURRENT_TIMESTAMP"), datetime(2024, 1, 1, 12)),
        (Column("n", "TIMESTAMP", scale=3, default="CURRENT_TIMESTAMP"), datetime(2024, 1, 1, 12, 0, 0, 123000)),
        (Column("n", "TIME", scale=2, default="10:00:00"), "10:00:00.00"),
        (Column("n", "TIME", nullable=False), "00:00:00"),
        (Column("n", "JSON", nullable=False), "null"),
    ],
    ids=lambda case: f"{case.type}-{case.default}" if isinstance(case, Column) else None,
)
def test_old_rows_get_what_upstream_gives_them(filled: Replica, column: Column, wanted: Any) -> None:
    filled.apply(**add(column, version=NOON))
    assert filled.rows() == [(1, 10, wanted), (2, None, wanted)]


def test_the_time_of_a_default_is_in_the_changefeeds_zone_but_for_timestamps(tmp_path: Path) -> None:
    replica = Replica(tmp_path, "+08:00")
    replica.put((ID, V), [("1", None)])
    literal = Column("n", "TIMESTAMP", default="2024-01-01 00:00:00")  # schema files keep these in UTC
    now = Column("o", "DATETIME", default="CURRENT_TIMESTAMP")
    moment = Column("p", "TIMESTAMP", default="CURRENT_TIMESTAMP")
    columns = (ID, V, literal, now, moment)
    added = ", ".join(
        f"ADD COLUMN `{name}` {kind}" for name, kind in zip("nop", ("TIMESTAMP", "DATETIME", "TIMESTAMP"), strict=True)
    )
    replica.apply(Action.MULTI_SCHEMA_CHANGE, f"ALTER TABLE `t` {added}", columns, version=NOON)
    assert replica.rows() == [(1, None, datetime(2024, 1, 1), datetime(2024, 1, 1, 20), datetime(2024, 1, 1, 12))]
    replica.sink.close()


@pytest.mark.parametrize(
    ("definition", "column", "wanted"),
    [
        ("`n` BIT(16) DEFAULT b'1010101010'", Column("n", "BIT", length=16, default="\x02\ufffd"), 682),
        ("`n` BIT(16) DEFAULT x'02AA'", Column("n", "BIT", length=16, default="\x02\ufffd"), 682),
        ("`n` BIT(16) DEFAULT 0x2aa", Column("n", "BIT", length=16, default="\x02\ufffd"), 682),
        ("`n` ENUM('a','b ') DEFAULT _UTF8MB4'b'", Column("n", "ENUM", default="b"), "b"),
    ],
)
def test_what_the_schema_file_lacks_is_read_from_the_statement(
    filled: Replica, definition: str, column: Column, wanted: Any
) -> None:
    filled.apply(**add(column, definition))
    assert {row[2] for row in filled.rows()} == {wanted}


@pytest.mark.parametrize(
    "column",
    [
        Column("n", "BIT", length=16, default="\x02\ufffd"),
        Column("n", "VARBINARY", length=16, default="\ufffd"),
        Column("n", "ENUM", default="b"),
        Column("n", "VECTOR", nullable=False),
    ],
)
def test_a_default_that_is_not_known_is_not_guessed(filled: Replica, column: Column) -> None:
    outcome = filled.execute(**add(column))
    assert isinstance(outcome.error, DdlRefused)
    assert "exactly" in outcome.error.message
    assert filled.types() == {"id": "INTEGER", "v": "INTEGER"}


OLD_NEW: list[tuple[Column, str | bytes, Column, Any]] = [
    (Column("v", "INT"), "7", Column("v", "BIGINT"), 7),
    (Column("v", "INT"), "-7", Column("v", "VARCHAR", length=30), "-7"),
    (Column("v", "INT"), "7", Column("v", "DECIMAL", length=5, scale=2), Decimal("7.00")),
    (Column("v", "INT"), "7", Column("v", "DOUBLE"), 7.0),
    (Column("v", "BIT", length=3), "5", Column("v", "BIT", length=10), 5),
    (Column("v", "YEAR"), "0", Column("v", "CHAR", length=4), "0"),
    (Column("v", "DOUBLE"), "1e+20", Column("v", "VARCHAR", length=30), "100000000000000000000"),
    (Column("v", "DOUBLE"), "-0.0000001", Column("v", "VARCHAR", length=30), "-0.0000001"),
    (Column("v", "FLOAT"), "16777216", Column("v", "VARCHAR", length=30), "16777216"),
    (Column("v", "DECIMAL", length=5, scale=2), "-1.25", Column("v", "DECIMAL", length=5, scale=1), Decimal("-1.3")),
    (Column("v", "DECIMAL", length=5, scale=2), "2.50", Column("v", "INT"), 3),
    (Column("v", "DECIMAL", length=5, scale=2), "2.50", Column("v", "VARCHAR", length=9), "2.50"),
    (Column("v", "DECIMAL", length=3, scale=3), "-0.500", Column("v", "VARCHAR", length=9), "-0.500"),
    (Column("v", "DECIMAL", length=5, scale=2), "2.50", Column("v", "DECIMAL", length=60, scale=3), "2.500"),
    (Column("v", "INT"), "-7", Column("v", "DECIMAL", length=60, scale=3), "-7.000"),
    (
        Column("v", "BIGINT", unsigned=True),
        "18446744073709551615",
        Column("v", "DECIMAL", length=60),
        "18446744073709551615",
    ),
    (Column("v", "VARCHAR"), " 2.5", Column("v", "DECIMAL", length=60, scale=3), "2.500"),
    (Column("v", "DOUBLE"), "0.285", Column("v", "DECIMAL", length=60, scale=2), "0.29"),
    (Column("v", "DECIMAL", length=17, scale=16), "0.1000000000000001", Column("v", "DOUBLE"), 0.1000000000000001),
    (Column("v", "DOUBLE"), "2.5", Column("v", "INT"), 2),
    (Column("v", "DOUBLE"), "0.285", Column("v", "DECIMAL", length=4, scale=2), Decimal("0.29")),
    (Column("v", "FLOAT"), "0.1", Column("v", "DOUBLE"), 0.10000000149011612),
    (Column("v", "VARCHAR"), "12", Column("v", "INT"), 12),
    (Column("v", "VARCHAR"), "2.5", Column("v", "INT"), 3),
    (Column("v", "VARCHAR"), "1e3", Column("v", "INT"), 1000),
    (Column("v", "DECIMAL", length=38, scale=18), "1.5", Column("v", "DECIMAL", length=50, scale=20), f"1.5{'0' * 19}"),
    (Column("v", "DECIMAL", length=38, scale=38), f"0.{'5' * 38}", Column("v", "VARCHAR", length=60), f"0.{'5' * 38}"),
    (Column("v", "BINARY", length=2), b"ab", Column("v", "BINARY", length=4), b"ab\0\0"),
    (Column("v", "DATETIME", scale=1), "2024-01-01 23:59:59.9", Column("v", "DATE"), date(2024, 1, 1)),
    (Column("v", "TIME", scale=1), "00:00:00.5", Column("v", "TIME"), "00:00:01"),
    (Column("v", "SET", elements=("a", "b")), "3", Column("v", "SET", elements=("b", "a")), "b,a"),
    (Column("v", "ENUM", elements=("a", "b")), "2", Column("v", "ENUM", elements=("b",)), "b"),
    (Column("v", "DATE"), "2024-01-02", Column("v", "INT"), 20240102),
    (Column("v", "VARCHAR"), "a  ", Column("v", "CHAR"), "a"),
    (Column("v", "VARCHAR"), "é", Column("v", "BLOB"), "é".encode()),
    (Column("v", "VARBINARY"), "é".encode(), Column("v", "TEXT"), "é"),
    (Column("v", "VARCHAR"), "[1]", Column("v", "JSON"), "[1]"),
    (Column("v", "JSON"), '{"a": 1}', Column("v", "TEXT"), '{"a": 1}'),
    (Column("v", "ENUM", elements=("a", "b")), "2", Column("v", "ENUM", elements=("b", "a", "c")), "b"),
    (Column("v", "ENUM", elements=("a", "b")), "2", Column("v", "VARCHAR", length=5), "b"),
    (Column("v", "SET", elements=("a", "b")), "3", Column("v", "SET", elements=("a", "x", "b")), "a,b"),
    (Column("v", "DATE"), "2024-01-02", Column("v", "DATETIME"), datetime(2024, 1, 2)),
    (Column("v", "DATETIME"), "2024-01-02 23:59:59", Column("v", "DATE"), date(2024, 1, 2)),
    (
        Column("v", "DATETIME", scale=2),
        "2024-01-02 03:04:05.60",
        Column("v", "VARCHAR", length=30),
        "2024-01-02 03:04:05.60",
    ),
    (
        Column("v", "DATETIME", scale=6),
        "1969-12-31 23:59:59.999500",
        Column("v", "DATETIME", scale=3),
        datetime(1970, 1, 1),
    ),
    (
        Column("v", "DATETIME", scale=3),
        "0001-01-01 00:00:00.499",
        Column("v", "DATETIME"),
        datetime(1, 1, 1),
    ),
    (Column("v", "TIME"), "-10:00:00", Column("v", "TIME", scale=3), "-10:00:00.000"),
    (Column("v", "DATE"), "0000-00-00", Column("v", "VARCHAR", length=30), "0000-00-00"),
    (Column("v", "DATETIME"), "0000-00-00 00:00:00", Column("v", "DATETIME", nullable=False), "0000-00-00 00:00:00"),
]


@pytest.mark.parametrize(
    ("old", "given", "new", "wanted"), OLD_NEW, ids=[f"{case[0].type}-{case[2].type}-{case[1]!r}" for case in OLD_NEW]
)
def test_rows_follow_a_change_of_type(replica: Replica, old: Column, given: str, new: Column, wanted: Any) -> None:
    replica.put((ID, old), [("1", given), ("2", None)])
    replica.apply(Action.MODIFY_COLUMN, "ALTER TABLE `t` MODIFY COLUMN `v` ..", (ID, new))
    assert replica.rows() == [(1, wanted), (2, None)]


@pytest.mark.parametrize(
    ("old", "given", "new"),
    [
        (Column("v", "DATETIME"), "2024-01-01 00:00:00", Column("v", "TIMESTAMP")),
        (Column("v", "ENUM", elements=("a", "b")), "1", Column("v", "ENUM", elements=("b",))),
        (Column("v", "TIMESTAMP"), "2024-01-01 00:00:00", Column("v", "DATETIME")),
        (Column("v", "TIMESTAMP"), "2024-01-01 00:00:00", Column("v", "VARCHAR", length=30)),
        (Column("v", "TIME", scale=1), "-00:00:00.5", Column("v", "TIME")),
        (Column("v", "VARCHAR", length=9), "abcd", Column("v", "VARCHAR", length=3)),
        (Column("v", "CHAR", length=9), "abcd", Column("v", "CHAR", length=3)),
        (Column("v", "TEXT"), "a" * 256, Column("v", "TINYTEXT")),
        (Column("v", "VARBINARY", length=9), b"abcd", Column("v", "VARBINARY", length=3)),
        (Column("v", "BLOB"), b"a" * 256, Column("v", "TINYBLOB")),
        (Column("v", "INT"), "1000", Column("v", "VARCHAR", length=3)),
        (Column("v", "MEDIUMINT"), "-1", Column("v", "MEDIUMINT", unsigned=True)),
        (Column("v", "INT"), "8388608", Column("v", "MEDIUMINT")),
        (Column("v", "BIT", length=8), "8", Column("v", "BIT", length=3)),
        (Column("v", "VARCHAR"), "x", Column("v", "INT")),
        (Column("v", "VARCHAR"), "x", Column("v", "DECIMAL", length=60, scale=3)),
        (Column("v", "VARBINARY"), b"\xff", Column("v", "VARCHAR")),
        (Column("v", "DATE"), "0000-00-00", Column("v", "DATETIME")),
    ],
)
def test_a_change_of_type_that_is_not_exact_is_refused(
    replica: Replica, old: Column, given: str | bytes, new: Column
) -> None:
    replica.put((ID, old), [("1", given)])
    before = replica.rows()
    outcome = replica.execute(Action.MODIFY_COLUMN, "ALTER TABLE `t` MODIFY COLUMN `v` ..", (ID, new))
    assert isinstance(outcome.error, DdlRefused)
    assert outcome.error.table == str(TABLE)
    assert replica.rows() == before


def test_columns_keep_upstreams_order(filled: Replica) -> None:
    first, between = Column("a", "INT", default="1"), Column("b", "INT", default="2")
    filled.apply(Action.ADD_COLUMN, "ALTER TABLE `t` ADD COLUMN `a` ..", (first, ID, V))
    filled.apply(Action.ADD_COLUMN, "ALTER TABLE `t` ADD COLUMN `b` ..", (first, ID, between, V))
    assert list(filled.types()) == ["a", "id", "b", "v"]
    assert filled.rows() == [(1, 1, 2, 10), (1, 2, 2, None)]
    filled.apply(Action.MODIFY_COLUMN, "ALTER TABLE `t` MODIFY COLUMN `a` INT AFTER `v`", (ID, between, V, first))
    assert list(filled.types()) == ["id", "b", "v", "a"]
    filled.apply(Action.DROP_COLUMN, "ALTER TABLE `t` DROP COLUMN `b`", (ID, V, first))
    assert filled.rows() == [(1, 10, 1), (2, None, 1)]


def test_columns_that_exchange_their_names(replica: Replica) -> None:
    replica.put((ID, Column("a", "INT"), Column("b", "INT")), [("1", "10", "20")])
    query = "ALTER TABLE `t` RENAME COLUMN `a` TO `b`, RENAME COLUMN `b` TO `a`"
    replica.apply(Action.MULTI_SCHEMA_CHANGE, query, (ID, Column("b", "INT"), Column("a", "INT")))
    assert replica.rows() == [(1, 10, 20)]
    assert list(replica.types()) == ["id", "b", "a"]


def test_a_column_changes_name_and_type_at_once(filled: Replica) -> None:
    filled.apply(
        Action.MODIFY_COLUMN, "ALTER TABLE `t` CHANGE COLUMN `v` `V2` VARCHAR(9)", (ID, Column("V2", "VARCHAR"))
    )
    assert filled.types() == {"id": "INTEGER", "V2": "VARCHAR"}
    assert filled.rows() == [(1, "10"), (2, None)]


def test_virtual_columns_have_no_rows_and_no_column(replica: Replica) -> None:
    columns = (ID, V, Column("g", "INT"), Column("s", "INT"))
    query = (
        "CREATE TABLE `t` (`id` INT PRIMARY KEY,`v` INT,`g` INT GENERATED ALWAYS AS(`v`+1) VIRTUAL,"
        "`s` INT GENERATED ALWAYS AS((`v`)*2) STORED)"
    )
    replica.apply(Action.CREATE_TABLE, query, columns)
    assert (replica.target(columns).names, replica.target(columns).virtual) == (("id", "v", "s"), ("g",))
    later = (ID, V, Column("h", "INT"), Column("g2", "INT"), Column("s", "INT"))
    query = "ALTER TABLE `t` ADD COLUMN `h` INT AS (1) AFTER `v`, RENAME COLUMN `g` TO `g2`"
    replica.apply(Action.MULTI_SCHEMA_CHANGE, query, later)
    assert replica.target(later).names == ("id", "v", "s")
    replica.apply(Action.CREATE_TABLE, "CREATE TABLE `other` LIKE `t`", later, table=OTHER, touches=(TABLE,))
    assert replica.target(later, OTHER).names == ("id", "v", "s")


def test_labels_of_a_statement_are_kept_for_the_rows(replica: Replica) -> None:
    columns = (ID, Column("e", "ENUM"))
    replica.apply(Action.CREATE_TABLE, "CREATE TABLE `t` (`id` INT PRIMARY KEY,`e` ENUM('a','b'))", columns)
    replica.put(columns, [("1", "2"), ("2", "0")])
    query = "ALTER TABLE `t` MODIFY COLUMN `e` ENUM('c','b','a')"
    replica.apply(Action.MODIFY_COLUMN, query, columns)
    replica.put(columns, [("3", "1")])
    replica.apply(Action.RENAME_TABLE, "RENAME TABLE `t` TO `other`", columns, table=OTHER, old_name=TABLE)
    replica.put(columns, [("4", "3")], OTHER)
    assert replica.rows(OTHER) == [(1, "b"), (2, ""), (3, "c"), (4, "a")]


def test_labels_that_nobody_told_stay_numbers(replica: Replica) -> None:
    columns = (ID, Column("e", "ENUM"))
    replica.put(columns, [("1", "2")])
    note = replica.apply(Action.MODIFY_COLUMN, "ALTER TABLE `t` MODIFY COLUMN `e` ENUM('a','b','c')", columns)
    assert "labels of e" in note
    replica.put(columns, [("2", "3")])
    assert replica.rows() == [(1, "2"), (2, "3")]


def test_a_table_moves_to_another_database(filled: Replica) -> None:
    moved = TableName("new db", "T")
    filled.apply(Action.RENAME_TABLE, "RENAME TABLE `db`.`t` TO `new db`.`T`", (ID, V), table=moved, old_name=TABLE)
    assert filled.rows(moved) == [(1, 10), (2, None)]
    assert filled.sink.has_rows([TABLE]) == []


def test_a_table_changes_the_case_of_its_name(filled: Replica) -> None:
    upper = TableName("db", "T")
    filled.apply(Action.RENAME_TABLE, "RENAME TABLE `t` TO `T`", (ID, V), table=upper, old_name=TABLE)
    assert filled.query("SELECT table_name FROM duckdb_tables() WHERE schema_name = 'db'") == [("T",)]
    assert filled.target((ID, V), upper).names == ("id", "v")


@pytest.mark.parametrize(
    "action",
    [
        Action.ADD_INDEX,
        Action.DROP_INDEX,
        Action.ADD_FOREIGN_KEY,
        Action.REBASE_AUTO_ID,
        Action.SET_DEFAULT_VALUE,
        Action.MODIFY_TABLE_COMMENT,
        Action.MODIFY_TABLE_CHARSET,
        Action.ADD_PRIMARY_KEY,
        Action.ADD_PARTITION,
        Action.REORGANIZE_PARTITION,
        Action.ALTER_TABLE_PARTITIONING,
        Action.ALTER_TTL,
    ],
)
def test_statements_that_leave_rows_alone(filled: Replica, action: Action) -> None:
    changed = (ID, Column("v", "INT", default="9", nullable=False))
    assert filled.apply(action, "ALTER TABLE `t` ..", changed) == ""
    assert filled.rows() == [(1, 10), (2, None)]


def test_views_are_recorded_but_not_made(filled: Replica) -> None:
    note = filled.apply(Action.CREATE_VIEW, "CREATE VIEW `w` AS SELECT 1", (V,), table=TableName("db", "w"))
    assert "views" in note
    assert filled.query("SELECT count(*) FROM duckdb_views() WHERE schema_name = 'db'") == [(0,)]
    assert filled.query("SELECT state, reason FROM storage_consumer.ddl WHERE table_name = 'w'") == [("done", note)]


@pytest.mark.parametrize("action", [Action.RECOVER_TABLE, 9999])
def test_statements_that_cannot_be_followed_are_refused(filled: Replica, action: Any) -> None:
    outcome = filled.execute(action, "FLASHBACK TABLE `t`", (ID, V))
    assert isinstance(outcome.error, DdlRefused)


def test_a_refused_statement_does_not_hold_up_the_others(filled: Replica) -> None:
    from consumer.model.files import SchemaFile
    from consumer.model.progress import ProgressChange
    from consumer.model.steps import ApplyDdl

    def step(table: TableName, action: Action, version: int) -> ApplyDdl:
        file = SchemaFile("p", "r", table.database, table.table, version, 1, "..", action, (ID, V))
        return ApplyDdl(file, (table,), ProgressChange(), ProgressChange())

    steps = [step(TABLE, Action.CREATE_TABLE, 900), step(OTHER, Action.CREATE_TABLE, 901)]
    first, second = filled.sink.apply_ddls(steps, {})
    assert isinstance(first.error, DdlRefused)
    assert second.error is None
    assert filled.types(OTHER) == {"id": "INTEGER", "v": "INTEGER"}


def test_statements_about_tables_that_are_not_there(replica: Replica) -> None:
    outcome = replica.execute(Action.ADD_COLUMN, "ALTER TABLE `t` ADD COLUMN `v` INT", (ID, V))
    assert isinstance(outcome.error, DdlRefused)
    assert "older than the changefeed" in outcome.error.message
    assert replica.sink.has_rows([TABLE]) == []
    replica.apply(Action.DROP_TABLE, "DROP TABLE `db`.`other`", (ID,), table=OTHER)
    replica.apply(Action.DROP_SCHEMA, "DROP DATABASE `never`", table=TableName("never", ""))


def test_a_database_takes_its_tables_along(filled: Replica) -> None:
    filled.apply(Action.DROP_SCHEMA, "DROP DATABASE `db`", table=TableName("db", ""))
    assert filled.sink.has_rows([TABLE]) == []
    filled.apply(Action.CREATE_SCHEMA, "CREATE DATABASE `db`", table=TableName("db", ""))
    filled.apply(Action.CREATE_TABLE, "CREATE TABLE `t` (`x` INT)", (Column("x", "INT"),))
    assert filled.types() == {"x": "INTEGER"}


@pytest.mark.parametrize("beside", ["", "Replica"])
@pytest.mark.parametrize("database", ["main", "temp", "system", "replica", "Information", 'a"b', "数据", "a.b c"])
def test_databases_of_any_name(replica: Replica, database: str, beside: str) -> None:
    """`replica` is the name of the file's own catalog here."""
    table = TableName(database, 'it\'s "t"')
    if beside:
        replica.apply(Action.CREATE_SCHEMA, "CREATE DATABASE ..", table=TableName(beside, ""))
    replica.apply(Action.CREATE_SCHEMA, "CREATE DATABASE ..", table=TableName(database, ""))
    replica.apply(Action.CREATE_TABLE, "CREATE TABLE `t` ..", (ID, V), table=table)
    replica.put((ID, V), [("1", "2")], table)
    assert replica.sink.has_rows([table]) == [table]
    replica.apply(Action.DROP_SCHEMA, "DROP DATABASE ..", table=TableName(database, ""))
    assert replica.sink.has_rows([table]) == []
    replica.apply(Action.CREATE_SCHEMA, "CREATE DATABASE ..", table=TableName(database, ""))


def test_the_progress_is_out_of_upstreams_reach(replica: Replica) -> None:
    outcome = replica.execute(Action.DROP_SCHEMA, "DROP DATABASE ..", table=TableName("storage_consumer", ""))
    assert isinstance(outcome.error, DdlRefused)


def test_rows_and_replica_must_have_the_same_columns(filled: Replica) -> None:
    (more,) = filled.sink.prepare([LoadRequest(TableLoad(TABLE), (ID, V, Column("w", "INT")))])
    (less,) = filled.sink.prepare([LoadRequest(TableLoad(TABLE), (replace(ID, is_pk=False),))])
    assert isinstance(more, SchemaDrift)
    assert "lacks the rows' columns w" in more.message
    assert isinstance(less, SchemaDrift)
    assert "lack the replica's columns v" in less.message


def test_the_key_of_a_table_with_no_primary_key(replica: Replica) -> None:
    columns = (Column("a", "INT"), Column("b", "INT", nullable=False), Column("c", "INT", nullable=False))
    assert replica.target(columns, unique=(("gone", "a"), ("C", "b"), ("b",))).key == (1, 2)
    assert replica.target(columns).key == ()
