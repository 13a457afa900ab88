"""The comparison sees every kind of difference, and takes rows for equal that are."""

from __future__ import annotations

import json
from pathlib import Path

import duckdb
import pytest

from consumer.model.names import TableName
from tests.e2e.compare_duckdb import compare, unmatched

COLUMNS = [
    ("id", "int(10) unsigned zerofill", "text", "UINTEGER", ["0000000007", "8"]),
    ("price", "decimal(3,3)", "text", "DECIMAL(3,3)", ["0.500", "-0.125"]),
    ("weight", "float", "float", "FLOAT", ["0.1", None]),
    ("moment", "datetime(3)", "text", "TIMESTAMP", ["2024-01-02 03:04:05.600", None]),
    ("day", "date", "text", "VARCHAR", ["0000-00-00", "2024-01-02"]),
    ("code", "binary(2)", "hex", "BLOB", ["00FF", "4100"]),
    ("bits", "bit(4)", "num", "UBIGINT", ["5", "0"]),
    ("size", "enum('S','it''s')", "num", "VARCHAR", ["2", "0"]),
    ("tags", "set('x','y','z')", "num", "VARCHAR", ["5", "0"]),
    ("doc", "json", "json", "JSON", ['{"a": 1, "b": [2.5]}', None]),
    ("place", "vector(2)", "text", "FLOAT[]", ["[1,2.5]", None]),
]
ROWS = [
    "(7, 0.5, 0.1, '2024-01-02 03:04:05.6', '0000-00-00', '\\x00\\xFF', 5, 'it''s', 'x,z',"
    """ '{"b":[2.5],"a":1}', [1, 2.5])""",
    "(8, -0.125, NULL, NULL, '2024-01-02', 'A\\x00', 0, '', '', NULL, NULL)",
]


@pytest.fixture
def expected(tmp_path: Path) -> Path:
    folder = tmp_path / "expected"
    folder.mkdir()
    columns = [{"name": name, "type": type_, "kind": kind} for name, type_, kind, *_ in COLUMNS]
    virtual = {"name": "sum", "type": "int(11)", "kind": "text"}
    create = "CREATE TABLE `t` (\n  `id` int(10),\n  `sum` int(11) GENERATED ALWAYS AS (`id` + 1) VIRTUAL\n)"
    table = {"schema": "d", "table": "t", "type": "BASE TABLE", "create": create, "file": "t.jsonl"}
    view = {"schema": "d", "table": "v", "type": "VIEW", "create": "", "columns": [], "file": ""}
    state = {
        "schemas": [["test", "utf8mb4", ""], ["d", "utf8mb4", ""]],
        "tables": [{**table, "columns": [*columns, virtual]}, view],
    }
    (folder / "tables.json").write_text(json.dumps(state), encoding="utf-8")
    rows = [[*row, "8"] for row in zip(*(values for *_, values in COLUMNS), strict=True)]
    (folder / "t.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    return folder


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "r.duckdb"
    body = ", ".join(f"{name} {kind}" for name, _, _, kind, _ in COLUMNS)
    change(path, "CREATE SCHEMA d", f"CREATE TABLE d.t ({body})", f"INSERT INTO d.t VALUES {', '.join(ROWS)}")
    return path


def change(file: Path, *statements: str) -> None:
    with duckdb.connect(str(file)) as connection:
        for statement in statements:
            connection.execute(statement)


def test_a_replica_in_the_documented_types_is_equal(expected: Path, file: Path) -> None:
    assert compare(expected, file) == []


@pytest.mark.parametrize(
    ("statement", "told"),
    [
        ("UPDATE d.t SET id = 9 WHERE id = 8", "1 rows missing, 1 unexpected"),
        ("UPDATE d.t SET weight = 0.1001 WHERE id = 7", "1 rows missing, 1 unexpected"),
        ("UPDATE d.t SET weight = 0 WHERE id = 8", "1 rows missing, 1 unexpected"),
        ("UPDATE d.t SET moment = '2024-01-02 03:04:05.6001' WHERE id = 7", "1 rows missing, 1 unexpected"),
        ("UPDATE d.t SET day = NULL WHERE id = 7", "1 rows missing, 1 unexpected"),
        ("UPDATE d.t SET code = 'A' WHERE id = 8", "1 rows missing, 1 unexpected"),
        ("UPDATE d.t SET size = 'S' WHERE id = 7", "1 rows missing, 1 unexpected"),
        ("UPDATE d.t SET tags = 'x,y' WHERE id = 7", "1 rows missing, 1 unexpected"),
        ("UPDATE d.t SET doc = '{\"a\":1}' WHERE id = 7", "1 rows missing, 1 unexpected"),
        ("UPDATE d.t SET place = [1, 2.25] WHERE id = 7", "1 rows missing, 1 unexpected"),
        ("INSERT INTO d.t SELECT * FROM d.t WHERE id = 7", "0 rows missing, 1 unexpected"),
        ("DELETE FROM d.t WHERE id = 7", "1 rows missing, 0 unexpected"),
        ("ALTER TABLE d.t ALTER bits TYPE VARCHAR", "column bits (bit(4)) is VARCHAR, documented is UBIGINT"),
        ("ALTER TABLE d.t ADD COLUMN more INTEGER", "d.t: columns"),
        ("ALTER TABLE d.t RENAME TO u", "d.u: should not exist"),
        ("CREATE TABLE main.t (id INTEGER)", "main.t: should not exist"),
        ("DROP TABLE d.t", "d.t: is missing"),
        ("CREATE SCHEMA e", "database e: should not exist"),
        ("DROP SCHEMA d CASCADE", "database d: is missing"),
    ],
)
def test_every_difference_is_told(statement: str, told: str, expected: Path, file: Path) -> None:
    change(file, statement)
    assert told in "\n".join(compare(expected, file))


def test_an_ignored_table_is_not_compared(expected: Path, file: Path) -> None:
    change(file, "DELETE FROM d.t")
    assert compare(expected, file, [TableName("d", "t")]) == []


def test_rows_that_differ_in_floats_only_are_paired_whatever_their_order() -> None:
    want = [("a", 1.0, 5.0), ("a", 1.0000001, 7.0), ("a", None, 7.0), ("b", 0.0, 0.0)]
    assert unmatched(want, [want[2], want[3], ("a", 1.0, 7.0), ("a", 1.0000001, 5.0)], {1, 2}) == ([], [])


def test_a_row_is_paired_once() -> None:
    # 1.0 is close to both, the others each only to one: taking the first that fits would leave a pair over.
    want, got = [("a", 1.0), ("a", 0.999993)], [("a", 1.000001), ("a", 1.000008)]
    assert unmatched(want, got, {1}) == ([], [])
    for more, lone in (([], [*got, got[0]]), ([want[1]], got)):
        missing, extra = unmatched([*want, *more], lone, {1})
        assert (len(missing), len(extra)) == (len(more), len(lone) - len(got))
