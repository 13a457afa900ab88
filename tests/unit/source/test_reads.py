"""What is read of a storage, in exact situations: once, typed, in the columns of now, not above the checkpoint."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.types import IntegerType, StringType, StructType

from consumer.errors import (
    BadConfig,
    CannotBeExact,
    CheckpointBehind,
    ConsumerError,
    CorruptFile,
    GapFound,
    SchemaDrift,
    SchemaMissing,
    TableMissing,
)
from consumer.model.actions import Action
from consumer.model.columns import Column
from consumer.model.times import ms_to_tso
from consumer.source.data_source import TicdcSource
from tests.support.build import ID
from tests.support.canal_json import keyless, typed_line
from tests.support.feed import Feed, with_two_rows
from tests.support.spark_source import planned, read


def uri(feed: Feed) -> str:
    return f"file://{feed.folder}?protocol=canal-json"


def changes(feed: Feed, table: str = "d.t", **options: str) -> list[tuple[Any, ...]]:
    rows = read(uri(feed), table=table, **options).to_pylist()
    return [(row["_op"], row["_commit_ts"], *(row[n] for n in row if n[0] != "_")) for row in rows]


def state(feed: Feed, table: str = "d.t", **options: str) -> list[tuple[Any, ...]]:
    return sorted(tuple(row.values()) for row in read(uri(feed), table=table, mode="state", **options).to_pylist())


def test_what_was_written_again_comes_once_and_nothing_above_the_checkpoint(tmp_path: Path) -> None:
    feed = with_two_rows(tmp_path)
    feed.puts("d.t", 10, {12: (2, "2"), 13: (3, "3"), 14: (4, "4")})
    feed.checkpoint(13)
    for size in ("1B", "64MiB"):
        assert changes(feed, partition_bytes=size) == [("I", 11, 1, 1), ("I", 12, 2, 2), ("I", 13, 3, 3)]
    assert state(feed) == [(1, 1), (2, 2), (3, 3)]
    assert changes(feed, to_ts="12") == [("I", 11, 1, 1), ("I", 12, 2, 2)]
    assert changes(feed, from_ts="11") == [("I", 12, 2, 2), ("I", 13, 3, 3)]
    assert state(feed, to_ts="11") == [(1, 1)]


def lines(columns: tuple[Column, ...], *rows: tuple[str, int, dict[str, str | None]]) -> bytes:
    return b"".join(typed_line(columns, ts, row, kind) for kind, ts, row in rows)


def test_older_versions_come_in_the_columns_of_now(tmp_path: Path) -> None:
    feed, old = Feed(tmp_path), (ID, Column("v", "INT"), Column("gone", "INT"))
    feed.database("d", 1)
    feed.statement("d.t", 10, Action.CREATE_TABLE, "CREATE TABLE t (id INT PRIMARY KEY, v INT, gone INT)", old)
    row: dict[str, str | None] = {"id": "1", "v": "7", "gone": "0"}
    feed.file("d.t", 10, lines(old, ("INSERT", 11, row)))
    named = (ID, Column("w", "INT"), Column("gone", "INT"))
    feed.statement("d.t", 20, Action.MODIFY_COLUMN, "ALTER TABLE t CHANGE v w INT", named)
    wider = (ID, Column("w", "BIGINT"), Column("gone", "INT"))
    feed.statement("d.t", 21, Action.MODIFY_COLUMN, "ALTER TABLE t MODIFY w BIGINT", wider)
    added = (*wider, Column("name", "VARCHAR", length=20, nullable=False, default="new"))
    query = "ALTER TABLE t ADD COLUMN name VARCHAR(20) NOT NULL DEFAULT 'new'"
    feed.statement("d.t", 22, Action.ADD_COLUMN, query, added)
    now = (added[0], added[1], added[3], Column("at", "DATETIME", default="CURRENT_TIMESTAMP"))
    feed.statement("d.t", 23, Action.DROP_COLUMN, "ALTER TABLE t DROP COLUMN gone", now[:3])
    version = ms_to_tso(86_400_000)
    query = "ALTER TABLE t ADD COLUMN at DATETIME DEFAULT CURRENT_TIMESTAMP"
    feed.statement("d.t", version, Action.ADD_COLUMN, query, now)
    row = {"id": "2", "w": str(1 << 40), "name": "b", "at": "2024-01-01 00:00:00"}
    feed.file("d.t", version, lines(now, ("INSERT", version + 1, row)))
    feed.checkpoint(version + 9)
    there = (1, 7, "new", datetime(1970, 1, 2)), (2, 1 << 40, "b", datetime(2024, 1, 1))
    assert state(feed) == [*there]
    assert changes(feed) == [("I", 11, *there[0]), ("I", version + 1, *there[1])]
    assert changes(feed, to_ts="15") == [("I", 11, 1, 7, 0)]
    found = read(uri(feed), table="d.t").column("_version").to_pylist()
    assert found == [10, version]


def retyped(tmp_path: Path, old: Column, written: str, new: Column, now: str) -> Feed:
    """A column that has become one of another type, with a row before and one behind."""
    feed = Feed(tmp_path)
    feed.database("d", 1)
    feed.statement("d.t", 10, Action.CREATE_TABLE, f"CREATE TABLE t (id INT PRIMARY KEY, v {old.type})", (ID, old))
    feed.file("d.t", 10, lines((ID, old), ("INSERT", 11, {"id": "1", "v": written})))
    feed.statement("d.t", 20, Action.MODIFY_COLUMN, f"ALTER TABLE t MODIFY v {new.type}", (ID, new))
    feed.file("d.t", 20, lines((ID, new), ("INSERT", 21, {"id": "2", "v": now})))
    feed.checkpoint(30)
    return feed


def test_a_change_has_the_value_of_then_and_the_state_what_upstream_made_of_it(tmp_path: Path) -> None:
    """A FLOAT that has become a DOUBLE: what was 0.1 is another number now."""
    feed = retyped(tmp_path, Column("v", "FLOAT"), "0.1", Column("v", "DOUBLE"), "0.1")
    assert state(feed) == [(1, 0.10000000149011612), (2, 0.1)]
    with pytest.raises(CannotBeExact, match=r"version 20 or later changed v"):
        changes(feed)
    assert changes(feed, from_ts="20") == [("I", 21, 2, 0.1)]
    assert changes(feed, columns="id") == [("I", 11, 1), ("I", 21, 2)]


TIMES = Column("v", "TIMESTAMP"), "2024-01-01 00:00:00", Column("v", "DATETIME"), "2024-01-02 00:00:00"
CUT = Column("v", "VARCHAR", length=9), "abcdef", Column("v", "VARCHAR", length=3), "abc"


@pytest.mark.parametrize("case", [TIMES, CUT], ids=["by the session's zone", "by the session's mode"])
def test_what_a_statement_made_of_older_values_is_not_guessed(
    case: tuple[Column, str, Column, str], tmp_path: Path
) -> None:
    feed = retyped(tmp_path, *case)
    with pytest.raises(CannotBeExact, match=r"version 20 or later changed v"):
        state(feed)
    assert state(feed, columns="id") == [(1,), (2,)]
    feed.file("d.t", 20, lines((ID, case[2]), ("DELETE", 22, {"id": "1", "v": case[3]})))
    assert len(state(feed)) == 1, "the value that is not known is gone"


@pytest.mark.parametrize("value", ["DECIMAL", "INT", "DATETIME"])
def test_digits_that_a_statement_added_are_there_in_texts_and_keys(value: str, tmp_path: Path) -> None:
    """Upstream's text has them, and the files of then do not: 1.10 became 1.1000."""
    written = {"DECIMAL": "1.10", "INT": "5", "DATETIME": "2024-01-02 03:04:05"}[value]
    now, digits = ("DATETIME(4)", {}) if value == "DATETIME" else ("DECIMAL(12,4)", {"length": 12})
    first = Column("v", value, length=10, scale=2) if value == "DECIMAL" else Column("v", value)
    more = Column("v", "DATETIME" if value == "DATETIME" else "DECIMAL", scale=4, **digits)
    text, feed = Column("v", "VARCHAR", length=40), Feed(tmp_path)
    for table, options in (("d.t", "id INT PRIMARY KEY, v {}"), ("d.u", "id INT, v {} NOT NULL, UNIQUE KEY (v)")):
        key = ID if table == "d.t" else replace(ID, is_pk=False)
        columns = (key, first) if table == "d.t" else (key, replace(first, nullable=False))
        then = (key, replace(more, nullable=table == "d.t"))
        name = table.partition(".")[2]
        create = f"CREATE TABLE {name} ({options.format(value)})"
        feed.statement(table, 10, Action.CREATE_TABLE, create, columns)
        line = typed_line(columns, 11, {"id": "1", "v": written}, table=name)
        feed.file(table, 10, line)
        feed.statement(table, 20, Action.MODIFY_COLUMN, f"ALTER TABLE {name} MODIFY v {now}", then)
    feed.statement("d.t", 30, Action.MODIFY_COLUMN, "ALTER TABLE t MODIFY v VARCHAR(40)", (ID, text))
    feed.checkpoint(40)
    expected = {"DECIMAL": Decimal("1.1"), "INT": Decimal(5), "DATETIME": datetime(2024, 1, 2, 3, 4, 5)}[value]
    assert state(feed, to_ts="25") == state(feed, "d.u") == [(1, expected)]
    texts = {"DECIMAL": "1.1000", "INT": "5.0000", "DATETIME": "2024-01-02 03:04:05.0000"}
    assert state(feed) == [(1, texts[value])]


@pytest.mark.parametrize("mode", ["changes", "state"])
def test_a_key_of_times_is_refused_where_a_clock_shows_one_hour_twice(mode: str, tmp_path: Path) -> None:
    """Two rows of upstream have one key in the files then."""
    columns, feed = (Column("at", "TIMESTAMP", nullable=False, is_pk=True),), Feed(tmp_path)
    feed.statement("d.t", 10, Action.CREATE_TABLE, "CREATE TABLE t (at TIMESTAMP PRIMARY KEY)", columns)
    feed.file("d.t", 10, typed_line(columns, 11, {"at": "2024-10-27 02:30:00"}))
    feed.checkpoint(20)
    with pytest.raises(CannotBeExact, match="shows one hour of the year twice"):
        read(uri(feed), table="d.t", mode=mode, tz="Europe/Berlin")
    accepted = {"mode": mode, "tz": "Europe/Berlin", "accept_timestamp_key": "true"}
    assert len(read(uri(feed), table="d.t", **accepted)) == 1
    assert len(read(uri(feed), table="d.t", mode=mode, tz="UTC")) == 1


def test_changes_before_a_truncate_stay_and_its_rows_go(tmp_path: Path) -> None:
    feed = with_two_rows(tmp_path)
    feed.truncate("d.t", 20)
    feed.puts("d.t", 20, {21: (3, "3")})
    feed.checkpoint(30)
    assert changes(feed) == [("I", 11, 1, 1), ("I", 12, 2, 2), ("I", 21, 3, 3)]
    assert state(feed) == [(3, 3)]
    assert state(feed, to_ts="15") == [(1, 1), (2, 2)]


def test_a_table_is_who_has_the_name_at_the_end(tmp_path: Path) -> None:
    feed = with_two_rows(tmp_path)
    feed.drop("d.t", 20)
    feed.create("d.t", 30)
    feed.puts("d.t", 30, {31: (5, "5")})
    feed.rename("d.t", "d.u", 40)
    feed.puts("d.u", 40, {41: (6, "6")})
    feed.checkpoint(50)
    assert changes(feed, "d.u") == [("I", 31, 5, 5), ("I", 41, 6, 6)]
    assert changes(feed, "d.t", to_ts="35") == [("I", 31, 5, 5)]
    assert changes(feed, "d.T", to_ts="15") == [("I", 11, 1, 1), ("I", 12, 2, 2)]
    with pytest.raises(
        BadConfig, match="this table got its name at 30; between from-ts and then, another table had the name"
    ):
        changes(feed, "d.t", from_ts="11", to_ts="35")
    with pytest.raises(TableMissing, match="since the statement of version 40"):
        changes(feed, "d.t")


def test_a_damaged_schema_file_of_an_older_name_is_said(tmp_path: Path) -> None:
    feed = with_two_rows(tmp_path)
    feed.rename("d.t", "d.u", 20)
    feed.checkpoint(30)
    assert len(changes(feed, "d.u")) == 2
    (path,) = (feed.folder / "d" / "t" / "meta").iterdir()
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(CorruptFile, match="schema_10_"):
        changes(feed, "d.u")


def test_rows_of_a_table_with_no_key_come_as_often_as_they_were_made(tmp_path: Path) -> None:
    feed, columns = Feed(tmp_path), (Column("v", "INT"),)
    feed.database("d", 1)
    feed.statement("d.k", 10, Action.CREATE_TABLE, "CREATE TABLE k (v INT)", columns)
    feed.file("d.k", 10, keyless(11, 1) + keyless(11, 1) + keyless(12, 1, "DELETE"))
    feed.file("d.k", 10, keyless(11, 1) + keyless(11, 1) + keyless(12, 1, "DELETE") + keyless(13, 2))
    feed.checkpoint(20)
    assert changes(feed, "d.k") == [("I", 11, 1), ("I", 11, 1), ("D", 12, 1), ("I", 13, 2)]
    assert state(feed, "d.k") == [(1,), (2,)]


@pytest.mark.parametrize("size", ["1B", "64MiB"])
def test_changes_have_a_total_order(size: str, tmp_path: Path) -> None:
    """Of rows that change places in one transaction each key has two changes: the one that comes is the last."""
    feed, columns = with_two_rows(tmp_path), (ID, Column("v", "INT"))
    old, new = ([{"id": str(key), "v": str(v)} for key, v in rows] for rows in ([(1, 1), (2, 2)], [(1, 2), (2, 1)]))
    swap = [typed_line(columns, 20, row, kind) for kind, rows in (("INSERT", new), ("DELETE", old)) for row in rows]
    feed.file(
        "d.t", 10, b"".join([*swap, *swap, typed_line(columns, 21, {"id": "1", "v": "3"}, "UPDATE", old=new[:1])])
    )
    feed.checkpoint(30)
    rows = read(uri(feed), table="d.t", partition_bytes=size).sort_by("_seq").to_pylist()
    assert [(row["_op"], row["id"], row["v"]) for row in rows[2:]] == [
        ("D", 1, 1), ("D", 2, 2), ("I", 1, 2), ("I", 2, 1), ("U", 1, 3),
    ]  # fmt: skip
    assert [int(row["_seq"]) for row in rows] == [
        11 * 10**10, 12 * 10**10, *(20 * 10**10 + n for n in range(4)), 21 * 10**10,
    ]  # fmt: skip


def test_fields_say_key_type_and_what_is_never_null(tmp_path: Path) -> None:
    feed = Feed(tmp_path)
    columns = (
        Column("a", "BIGINT", unsigned=True, nullable=False, is_pk=True),
        Column("d", "DATE", nullable=False, is_pk=True),
        Column("b", "DATETIME", nullable=False),
        Column("c", "DECIMAL", length=12, scale=4, nullable=False),
    )
    feed.database("d", 1)
    keyed = "a BIGINT UNSIGNED, d DATE, PRIMARY KEY (a, d)"
    query = f"CREATE TABLE t ({keyed}, b DATETIME NOT NULL, c DECIMAL(12,4) NOT NULL)"
    feed.statement("d.t", 10, Action.CREATE_TABLE, query, columns)
    feed.checkpoint(20)

    def fields(**options: str) -> dict[str, tuple[bool, Any]]:
        schema = TicdcSource({"path": uri(feed), "table": "d.t", "tz": "UTC", **options}).schema()
        return {field.name: (field.nullable, field.metadata.get("ticdc", {})) for field in schema}

    found = fields()
    assert not any(found[name][0] for name in ("_op", "_commit_ts", "_seq", "a"))
    assert all(found[name][0] for name in "bcd"), "a change can lack them, or have a day of no calendar"
    assert found["a"][1]["type"] == "BIGINT UNSIGNED"
    assert found["c"][1] == {"type": "DECIMAL", "length": 12, "scale": 4}
    assert [name for name in "abcd" if found[name][1].get("key")] == ["a", "d"]
    strict = fields(mode="state", **{"zero-dates": "error"})
    assert not any(nullable for nullable, _ in strict.values())
    assert [name for name, (nullable, _) in fields(mode="state").items() if nullable] == ["d", "b"]
    moved = tuple(replace(column, is_pk=column.name == "c") for column in columns)
    feed.statement("d.t", 18, Action.ADD_PRIMARY_KEY, "ALTER TABLE t DROP PRIMARY KEY, ADD PRIMARY KEY (c)", moved)
    assert fields()["c"][0], "changes from before can have NULL there"


def test_what_a_change_found_comes_where_the_files_have_it(tmp_path: Path) -> None:
    feed = with_two_rows(tmp_path)
    one, two, moved = ({"id": "1", "v": v} for v in ("1", "5", None))
    columns, other = (ID, Column("v", "INT")), {"id": "7", "v": "5"}
    rows = typed_line(columns, 20, two, "UPDATE", old=[one]) + typed_line(
        columns, 21, moved, "UPDATE", old=[{"v": "5"}]
    )
    rows += typed_line(columns, 22, other, "UPDATE", old=[moved]) + typed_line(columns, 23, other, "DELETE")
    feed.file("d.t", 10, rows)
    feed.checkpoint(30)
    found = read(uri(feed), table="d.t", before="true", from_ts="11").to_pylist()
    assert [(row["_op"], row["id"], row["v"], row["_before"]) for row in found] == [
        ("I", 2, 2, None),
        ("U", 1, 5, {"id": 1, "v": 1}),
        ("U", 1, None, {"id": 1, "v": 5}),
        ("D", 1, None, {"id": 1, "v": None}),
        ("I", 7, 5, None),
        ("D", 7, 5, {"id": 7, "v": 5}),
    ]
    found = read(uri(feed), table="d.t", before="true", columns="v").column("_before").to_pylist()
    assert found[2:4] == [{"v": 1}, {"v": 5}]


@pytest.mark.parametrize("protocol", ["canal-json", "csv"])
def test_a_delete_can_have_its_key_alone(protocol: str, tmp_path: Path) -> None:
    """As with delete-only-output-handle-key-columns. What was there cannot be said then."""
    feed, columns = Feed(tmp_path / "storage"), (ID, Column("v", "INT", nullable=False))
    query = "CREATE TABLE t (id INT PRIMARY KEY, v INT NOT NULL)"
    feed.database("d", 1)
    feed.statement("d.t", 10, Action.CREATE_TABLE, query, columns)
    if protocol == "csv":
        feed.file("d.t", 10, b'"I","t","d",11,1,5\r\n"D","t","d",12,1\r\n', extension="csv")
    else:
        rows = typed_line(columns, 11, {"id": "1", "v": "5"}) + typed_line(columns, 12, {"id": "1"}, "DELETE")
        feed.file("d.t", 10, rows)
    feed.checkpoint(20)
    config = tmp_path / "changefeed.toml"
    config.write_text(f"[sink]\nprotocol = '{protocol}'\n[sink.csv]\ninclude-commit-ts = true\n")
    asked = {"table": "d.t", "config": str(config)}
    where = f"file://{feed.folder}?protocol={protocol}"
    found = read(where, **asked).to_pylist()
    assert [(row["_op"], row["_commit_ts"], row["id"], row["v"]) for row in found] == [
        ("I", 11, 1, 5),
        ("D", 12, 1, None),
    ]
    assert read(where, mode="state", **asked).num_rows == 0
    with pytest.raises(CannotBeExact, match="a DELETE does not have column v"):
        read(where, before="true", **asked)


@pytest.mark.parametrize(
    ("columns", "left", "kind"),
    [
        ("id INT PRIMARY KEY, v INT NOT NULL, w INT", {"id": "1", "v": None, "w": "3"}, CorruptFile),
        ("id INT PRIMARY KEY, v INT NOT NULL, w INT", {"id": "1", "w": "3"}, CannotBeExact),
        ("id INT, v INT NOT NULL, w INT", {"id": "1"}, SchemaDrift),
        ("id INT, v INT NOT NULL, w INT", {"id": "1", "v": None, "w": "3"}, CorruptFile),
    ],
)
def test_a_delete_that_has_neither_its_key_alone_nor_all_is_damaged(
    columns: str, left: dict[str, str | None], kind: type[ConsumerError], tmp_path: Path
) -> None:
    feed, keyed = Feed(tmp_path), "KEY" in columns
    of_table = (replace(ID, is_pk=keyed, nullable=not keyed), Column("v", "INT", nullable=False), Column("w", "INT"))
    feed.database("d", 1)
    feed.statement("d.t", 10, Action.CREATE_TABLE, f"CREATE TABLE t ({columns})", of_table)
    rows = typed_line(of_table, 11, {"id": "1", "v": "2", "w": "3"}) + typed_line(of_table, 12, left, "DELETE")
    feed.file("d.t", 10, rows)
    feed.checkpoint(20)
    with pytest.raises(kind):
        read(uri(feed), table="d.t")


def test_columns_that_are_called_as_those_of_changes(tmp_path: Path) -> None:
    """Only what a read gives beside a table's columns is in their way."""
    columns, feed = (ID, Column("_before", "INT"), Column("_file", "INT")), Feed(tmp_path / "storage")
    feed.database("d", 1)
    query = "CREATE TABLE `t` (`id` INT PRIMARY KEY,`_before` INT,`_file` INT)"
    feed.statement("d.t", 10, Action.CREATE_TABLE, query, columns)
    one, two = ({"id": "1", "_before": value, "_file": "7"} for value in ("10", "11"))
    feed.file("d.t", 10, typed_line(columns, 11, one) + typed_line(columns, 12, two, "UPDATE", old=[one]))
    feed.checkpoint(20)
    rows = read(uri(feed), table="d.t", mode="state").to_pylist()
    assert rows == [{"id": 1, "_before": 11, "_file": 7}]
    rows = read(uri(feed), table="d.t").to_pylist()
    assert [(row["_op"], row["_before"], row["_file"]) for row in rows] == [("I", 10, 7), ("U", 11, 7)]
    with pytest.raises(CannotBeExact, match="_before has the same name as a column that the read adds"):
        read(uri(feed), table="d.t", before="true")


def test_values_have_their_types_and_no_day_is_invented(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    columns = (
        Column("id", "BIGINT", unsigned=True, nullable=False, is_pk=True),
        Column("price", "DECIMAL", length=12, scale=4),
        Column("many", "DECIMAL", length=65, scale=0),
        Column("day", "DATE"),
        Column("at", "TIMESTAMP", scale=3),
        Column("bits", "BIT", length=9),
        Column("kind", "ENUM", elements=("a", "b")),
        Column("tags", "SET", elements=("x", "y", "z")),
        Column("raw", "VARBINARY", length=9),
        Column("near", "VECTOR"),
        Column("took", "TIME"),
        Column("born", "YEAR"),
    )
    feed = Feed(tmp_path)
    feed.database("d", 1)
    query = "CREATE TABLE t (id BIGINT UNSIGNED PRIMARY KEY, kind ENUM('a','b'), tags SET('x','y','z'))"
    feed.statement("d.t", 10, Action.CREATE_TABLE, query, columns)
    top = str((1 << 64) - 1)
    texts = (top, "1.5000", "9" * 65, "2024-02-29", "2024-07-01 12:00:00.500", "511", "2", "5", "\x00ÿ", "[1,2.5]")
    row = dict(zip((c.name for c in columns), (*texts, "-01:00:00", "2155"), strict=True))
    none = {**dict.fromkeys(row), "id": "2", "day": "2023-02-31", "at": "0000-00-00 00:00:00.000", "near": "[]"}
    feed.file("d.t", 10, lines(columns, ("INSERT", 11, row), ("INSERT", 12, none)))
    feed.checkpoint(20)
    first, second = read(uri(feed), table="d.t", mode="state", tz="Europe/Berlin").to_pylist()
    assert first == {
        "id": Decimal(top),
        "price": Decimal("1.5000"),
        "many": "9" * 65,
        "day": date(2024, 2, 29),
        "at": datetime(2024, 7, 1, 10, 0, 0, 500_000, UTC),
        "bits": 511,
        "kind": "b",
        "tags": "x,z",
        "raw": b"\x00\xff",
        "near": [1.0, 2.5],
        "took": "-01:00:00",
        "born": 2155,
    }
    assert second == {**dict.fromkeys(first), "id": Decimal(2), "near": []}
    assert sorted(record.getMessage().split(" ")[2] for record in caplog.records) == ["at", "day"]
    with pytest.raises(CannotBeExact, match="days of no calendar"):
        read(uri(feed), table="d.t", mode="state", zero_dates="error")


def test_several_tables_come_as_json(tmp_path: Path) -> None:
    feed = with_two_rows(tmp_path)
    feed.create("d.u", 15)
    feed.puts("d.u", 15, {16: (7, "7")})
    feed.create("e.u", 15)
    feed.checkpoint(20)
    rows = read(uri(feed), tables="d.*").to_pylist()
    assert [(row["_table"], row["_op"], row["_commit_ts"], row["_row"]) for row in rows] == [
        ("d.t", "I", 11, '{"id":1,"v":1}'),
        ("d.t", "I", 12, '{"id":2,"v":2}'),
        ("d.u", "I", 16, '{"id":7,"v":7}'),
    ]
    rows = read(uri(feed), tables="d.u", mode="state").to_pylist()
    assert rows == [{"_table": "d.u", "_row": '{"id":7,"v":7}'}]


def test_moments_and_columns_leave_bytes_unread(tmp_path: Path) -> None:
    feed = with_two_rows(tmp_path)
    for number in range(20, 40):
        feed.puts("d.t", 10, {number: (number, "1")})
    feed.checkpoint(50)

    def bytes_read(**moments: str) -> int:
        _, pieces = planned(uri(feed), table="d.t", partition_bytes="1B", **moments)
        return sum(share.eras[0].task.bytes for piece in pieces for share in piece.value)

    sizes = [path.stat().st_size for path in sorted(feed.folder.rglob("CDC*"))]
    assert bytes_read() == sum(sizes)
    assert bytes_read(from_ts="36") == sum(sizes[-3:])
    assert bytes_read(from_ts="24", to_ts="25") == sizes[6]
    _, (piece,) = planned(uri(feed), table="d.t", columns="id")
    assert [column.name for column in piece.value[0].eras[0].task.source.columns] == ["id"]
    asked = StructType().add("_op", StringType()).add("v", IntegerType())
    assert read(uri(feed), schema=asked, table="d.t", to_ts="11").to_pylist() == [{"_op": "I", "v": 1}]
    with pytest.raises(BadConfig, match="has v as string, and the format ticdc has int"):
        read(uri(feed), schema=StructType().add("v", StringType()), table="d.t")


def test_what_was_read_stays_the_same_as_the_changefeed_goes_on(tmp_path: Path) -> None:
    feed = with_two_rows(tmp_path)
    feed.checkpoint(12)
    reader, pieces = planned(uri(feed), table="d.t")
    feed.puts("d.t", 10, {13: (3, "3")})
    feed.checkpoint(20)
    rows = [row for piece in pieces for batch in reader.read(piece) for row in batch.to_pylist()]
    assert [row["id"] for row in rows] == [1, 2]


def damage(feed: Feed) -> None:
    feed.damaged("d.t", 10)


def gap(feed: Feed) -> None:
    feed.puts("d.t", 10, {13: (3, "3")}, number=3)


def no_schema(feed: Feed) -> None:
    feed.puts("d.t", 15, {16: (3, "3")})


@pytest.mark.parametrize(
    ("harm", "kind", "said"),
    [
        (damage, CorruptFile, "CDC00000000000000000002.json"),
        (gap, GapFound, "file number 2 is missing before number 3"),
        (no_schema, SchemaMissing, "schema file"),
    ],
)
def test_what_stops_a_table_of_a_target_ends_the_read(
    harm: Any, kind: type[ConsumerError], said: str, tmp_path: Path
) -> None:
    feed = with_two_rows(tmp_path)
    harm(feed)
    feed.checkpoint(20)
    for mode in ("changes", "state"):
        with pytest.raises(kind, match=said):
            read(uri(feed), table="d.t", mode=mode)


def test_the_hint_of_a_gap_is_a_flag_of_what_reads(tmp_path: Path) -> None:
    feed = with_two_rows(tmp_path)
    gap(feed)
    feed.checkpoint(20)
    with pytest.raises(GapFound) as found:
        read(uri(feed), table="d.t")
    assert "give --accept-gap-in d.t to this command" in str(found.value)
    assert "storage-consumer once" not in str(found.value)


@pytest.mark.parametrize(
    ("options", "kind", "said"),
    [
        ({}, BadConfig, "give either table"),
        ({"table": "d.t", "tables": "d.*"}, BadConfig, "give either table"),
        ({"table": "d.t", "tabel": "x"}, BadConfig, "did you mean table"),
        ({"table": "d.s"}, TableMissing, "did you mean d.t"),
        ({"tables": "e.*"}, BadConfig, "lets no table of the storage through"),
        ({"table": "d.t", "mode": "all"}, BadConfig, "give changes or state"),
        ({"table": "d.t", "columns": "id, x"}, BadConfig, "has no column x"),
        ({"table": "d.t", "to_ts": "99"}, CheckpointBehind, "complete only up to 20"),
        ({"table": "d.t", "from_ts": "15", "to_ts": "12"}, BadConfig, "is not after"),
        ({"table": "d.t", "mode": "state", "from_ts": "15"}, BadConfig, "mode changes"),
        ({"table": "d.t", "tz": "Mars"}, BadConfig, "not a time zone"),
        ({"table": "d.t", "provider": "ticdc"}, BadConfig, "CREATE TEMPORARY VIEW"),
    ],
)
def test_what_cannot_be_asked_for_is_said(options: Any, kind: type[ConsumerError], said: str, tmp_path: Path) -> None:
    feed = with_two_rows(tmp_path)
    feed.checkpoint(20)
    with pytest.raises(kind, match=said):
        read(uri(feed), **options)


def test_a_state_is_refused_where_the_storage_does_not_have_all_rows(tmp_path: Path) -> None:
    feed = Feed(tmp_path)
    feed.describe("d.t", 10)
    feed.puts("d.t", 10, {11: (1, "1")})
    feed.checkpoint(20)
    assert changes(feed) == [("I", 11, 1, 1)]
    with pytest.raises(CannotBeExact, match="older than the changefeed"):
        state(feed)


def test_rows_that_a_partition_took_away_are_not_guessed(tmp_path: Path) -> None:
    feed = Feed(tmp_path)
    feed.database("d", 1)
    query = "CREATE TABLE t (id INT PRIMARY KEY, v INT) PARTITION BY RANGE (id) (PARTITION p VALUES LESS THAN (5))"
    feed.statement("d.t", 10, Action.CREATE_TABLE, query)
    feed.puts("d.t", 10, {11: (1, "1")})
    feed.statement("d.t", 20, Action.TRUNCATE_PARTITION, "ALTER TABLE t TRUNCATE PARTITION p")
    feed.puts("d.t", 20, {21: (2, "2")})
    feed.checkpoint(30)
    assert changes(feed) == [("I", 11, 1, 1), ("I", 21, 2, 2)]
    assert state(feed, to_ts="15") == [(1, 1)]
    with pytest.raises(CannotBeExact, match="takes rows away by partitions"):
        state(feed)
    feed.file("d.t", 20, typed_line((ID, Column("v", "INT")), 22, {"id": "1", "v": "1"}, "DELETE"))
    assert state(feed) == [(2, 2)], "no row of before is left that could be gone"


def test_rows_without_a_time_have_a_newest_state_alone(tmp_path: Path) -> None:
    feed = Feed(tmp_path)
    feed.database("d", 1)
    feed.create("d.t", 10)
    feed.file("d.t", 10, b'"I","t","d",1,5\r\n"I","t","d",2,6\r\n"D","t","d",1,5\r\n', extension="csv")
    feed.checkpoint(20)
    config = tmp_path.parent / "changefeed.toml"
    config.write_text("[sink]\nprotocol = 'csv'\n[sink.csv]\ninclude-commit-ts = false\n")
    asked = {"table": "d.t", "config": str(config)}
    where = f"file://{tmp_path}?protocol=csv"
    assert read(where, mode="state", **asked).to_pylist() == [{"id": 2, "v": 6}]
    for more in ({"mode": "changes"}, {"mode": "state", "to_ts": "15"}):
        with pytest.raises(CannotBeExact, match="do not say when they were committed"):
            read(where, **asked, **more)


def test_an_option_that_nobody_gave_is_asked_for(tmp_path: Path) -> None:
    feed = Feed(tmp_path)
    feed.database("d", 1)
    columns = (ID, Column("raw", "VARBINARY", length=9))
    feed.statement("d.t", 10, Action.CREATE_TABLE, "CREATE TABLE t (id INT PRIMARY KEY, raw VARBINARY(9))", columns)
    feed.file("d.t", 10, b'"I","t","d",11,1,"YQ=="\r\n', extension="csv")
    feed.checkpoint(20)
    config = tmp_path.parent / "proven.toml"
    own = "[sink.csv]\ninclude-commit-ts = true\n"
    config.write_text(f"[sink]\nprotocol = 'csv'\n{own}[consumer]\nunproven = ['binary-encoding-method']\n")
    with pytest.raises(BadConfig, match="binary-encoding-method"):
        read(f"file://{tmp_path}?protocol=csv", table="d.t", config=str(config))


def test_a_file_that_is_not_in_the_order_of_time_is_not_read_by_halves(tmp_path: Path) -> None:
    feed = Feed(tmp_path)
    feed.database("d", 1)
    feed.create("d.t", 10)
    feed.puts("d.t", 10, {11: (1, "1"), 40: (2, "2"), 12: (3, "3")})
    feed.puts("d.t", 10, {30: (4, "4"), 50: (5, "5")})
    feed.checkpoint(60)
    assert len(changes(feed)) == 5
    with pytest.raises(CannotBeExact, match="partition-bytes"):
        changes(feed, partition_bytes="1B")
