"""What a column's values become on a server: what TiDB made of them, or the statement is refused."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace

import pytest

from consumer.errors import DdlRefused
from consumer.model.actions import Action
from consumer.model.columns import Column, Family
from consumer.model.json_texts import json_form
from consumer.model.steps import ApplyDdl, TableBefore
from consumer.model.types.conversions import Value
from consumer.sink.mysql.sink import MySqlSink
from consumer.sink.mysql.statements import execute
from consumer.target import DdlOutcome
from tests.integration.mysql.steps import acquired, ddl
from tests.servers import MariaDb
from tests.support.build import ID
from tests.support.conversions import Pair, by_type, column_of, computed, pairs, same, shown

TYPES = by_type(pair for pair in pairs() if not pair.refused)
_NUMBERED = (Family.BIT, Family.YEAR, Family.ENUM, Family.SET)


def literal(column: Column, value: Value | None) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, bytes):
        return f"x'{value.hex()}'"
    if column.family in _NUMBERED and column.family is not Family.YEAR:
        return value
    text = value.rjust(4, "0") if column.family is Family.YEAR else value  # as a text, 0 is the year 2000
    return "'" + text.replace("\\", "\\\\").replace("'", "''") + "'"


def selected(column: Column, name: str) -> str:
    """A value as change tables have it: labels as numbers, and a FLOAT with all its digits."""
    match column.family:
        case Family.BIT | Family.YEAR | Family.ENUM | Family.SET:
            return f"CAST({name} AS UNSIGNED)"
        case Family.INTEGER:
            return f"{name} + 0"
        case Family.FLOAT | Family.DOUBLE:
            return f"{name} + 0e0"
        case Family.BINARY | Family.DECIMAL:
            return name
        case _:
            return f"CAST({name} AS CHAR)"


def made(server: MariaDb, told: dict[str, tuple[Pair, Sequence[Value | None]]]) -> None:
    """The table t, with a column for each of the pairs, which has these values."""
    columns = ", ".join(f"{name} {pair.before} NULL" for name, (pair, _) in told.items())
    options = "CHARACTER SET utf8mb4 COLLATE utf8mb4_bin"
    server.execute(
        "CREATE DATABASE IF NOT EXISTS d",
        "DROP TABLE IF EXISTS d.t",
        f"CREATE TABLE d.t (id INT PRIMARY KEY, {columns}) {options}",
    )
    modes = "SET sql_mode = 'ALLOW_INVALID_DATES'", "SET time_zone = '+00:00'"
    most = max(len(values) for _, values in told.values())
    rows = []
    for at in range(most):
        of_row = [literal(pair.old, values[at] if at < len(values) else None) for pair, values in told.values()]
        rows.append(f"({at}, {', '.join(of_row)})")
    server.execute(*modes, f"INSERT INTO d.t VALUES {', '.join(rows)}")


def altered(sink: MySqlSink, told: dict[str, Pair], version: int) -> DdlOutcome:
    old, new = [ID], [ID]
    for name, pair in told.items():
        old.append(replace(pair.old, name=name))
        new.append(replace(pair.new, name=name))
    clauses = ", ".join(f"MODIFY COLUMN `{name}` {pair.behind}" for name, pair in told.items())
    step: ApplyDdl = ddl(
        Action.MULTI_SCHEMA_CHANGE, "d", "t", version, f"ALTER TABLE `t` {clauses}", columns=tuple(new)
    )
    [outcome] = sink.apply_ddls([replace(step, table_before=TableBefore(tuple(old)))], {})
    return outcome


NOT_MADE = {
    (Family.DOUBLE, Family.TEXT), (Family.DOUBLE, Family.BINARY),  # with an exponent
    (Family.FLOAT, Family.TEXT), (Family.FLOAT, Family.BINARY),  # with six digits
    (Family.BIT, Family.TEXT), (Family.BIT, Family.BINARY),  # the bytes
    (Family.BIT, Family.DOUBLE), (Family.BIT, Family.FLOAT),  # below 0 where the highest bit is set
    (Family.DATE, Family.YEAR), (Family.DATETIME, Family.YEAR),  # refused in strict mode
    (Family.YEAR, Family.TEXT), (Family.YEAR, Family.BINARY),  # four digits
    (Family.DOUBLE, Family.JSON), (Family.FLOAT, Family.JSON), (Family.DECIMAL, Family.JSON),  # other digits
    *((family, Family.JSON) for family in (Family.DATE, Family.DATETIME, Family.TIME, Family.YEAR)),  # no JSON
}  # fmt: skip
"""MariaDB makes others of some values of these, so that a statement about them is refused."""


@pytest.mark.parametrize("type_", TYPES)
def test_each_value_is_tidbs_or_the_statement_is_refused(type_: str, fresh_mariadb: MariaDb) -> None:
    server = fresh_mariadb
    every = {f"c{number}": (pair, computed(pair)) for number, pair in enumerate(TYPES[type_])}
    told = {name: (pair, values) for name, (pair, values) in every.items() if values}
    given = {name: (pair, [measured.before for measured, _ in values]) for name, (pair, values) in told.items()}
    sink = acquired(server)
    alike = {name for name, (pair, _) in told.items() if not _is_refused(pair)}
    rounds = [alike, *({name} for name in told if name not in alike)]
    for version, names in enumerate(filter(None, rounds), 20):
        some = {name: given[name] for name in told if name in names}
        made(server, some)
        before = server.execute("SELECT * FROM d.t")
        outcome = altered(sink, {name: pair for name, (pair, _) in some.items()}, version)
        if outcome.error is not None:
            assert isinstance(outcome.error, DdlRefused), outcome.error
            assert names != alike, outcome.error
            assert server.execute("SELECT * FROM d.t") == before
            continue
        for name in some:
            pair, values = told[name]
            found = server.execute(f"SELECT {selected(pair.new, name)} FROM d.t ORDER BY id")
            for (held,), (measured, _) in zip(found, values, strict=False):
                assert _is_same(pair.new, held, measured.behind), (str(pair), measured.text, held)
    sink.close()


def test_a_table_of_which_no_statement_tells_the_columns_is_looked_at(fresh_mariadb: MariaDb) -> None:
    """What its columns were the server itself says."""
    server, sink = fresh_mariadb, acquired(fresh_mariadb)
    made(server, {"c": (Pair("VARCHAR(9)", "INT", (), refused=False, depends=False), ["2.5", "x"])})
    step = ddl(
        Action.MODIFY_COLUMN, "d", "t", 20, "ALTER TABLE `t` MODIFY COLUMN `c` INT", columns=(ID, Column("c", "INT"))
    )
    [outcome] = sink.apply_ddls([step], {})
    assert isinstance(outcome.error, DdlRefused)
    assert "column c: 'x' is no number" in outcome.error.message
    server.execute("UPDATE d.t SET c = '1e3' WHERE c = 'x'")
    [outcome] = sink.apply_ddls([step], {})
    sink.close()
    assert outcome.error is None
    assert server.execute("SELECT c FROM d.t ORDER BY id") == [(3,), (1000,)]


def test_labels_that_only_the_server_tells(fresh_mariadb: MariaDb) -> None:
    """Schema files of older releases of TiCDC have none."""
    server, sink = fresh_mariadb, acquired(fresh_mariadb)
    made(server, {"c": (Pair("ENUM('a','b')", "VARCHAR(9)", (), refused=False, depends=False), ["2"])})
    old, new = (ID, Column("c", "ENUM")), (ID, Column("c", "VARCHAR", length=9))
    step = ddl(Action.MODIFY_COLUMN, "d", "t", 20, "ALTER TABLE `t` MODIFY COLUMN `c` VARCHAR(9)", columns=new)
    [outcome] = sink.apply_ddls([replace(step, table_before=TableBefore(old))], {})
    sink.close()
    assert outcome.error is None
    assert server.execute("SELECT c FROM d.t") == [("b",)]


@pytest.mark.parametrize(("given", "left"), [(["2.5"], ["3"]), (["2.5", "x"], ["2.5", "x"])], ids=["all", "none"])
def test_a_run_that_died_before_the_statement_is_gone_over_again(
    given: list[Value | None], left: list[str], fresh_mariadb: MariaDb, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Texts may have been written as upstream reads them: they are so again."""
    server, sink = fresh_mariadb, acquired(fresh_mariadb)
    pair = Pair("VARCHAR(9)", "INT", (), refused=False, depends=False)
    made(server, {"c": (pair, given)})
    step = ddl(
        Action.MODIFY_COLUMN, "d", "t", 20, "ALTER TABLE `t` MODIFY COLUMN `c` INT", columns=(ID, Column("c", "INT"))
    )
    step = replace(step, table_before=TableBefore((ID, column_of(pair.before))))

    def dies(*given: object) -> str:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, suppress(KeyboardInterrupt):
        patch.setattr(execute, "_run_from", dies)
        sink.apply_ddls([step], {})
    assert [text for (text,) in server.execute("SELECT c FROM d.t ORDER BY id")] == left
    sink.close()
    sink = acquired(server)
    [outcome] = sink.apply_ddls([step], sink.progress().ddls)
    sink.close()
    assert (outcome.error is None) == (len(given) == 1)
    found = [str(value) for (value,) in server.execute("SELECT c FROM d.t ORDER BY id")]
    assert found == left


@pytest.mark.parametrize(
    ("before", "behind", "text", "wanted"),
    [
        ("CHAR(8)", "DATE", "20240102", "2024-01-02"),
        ("VARCHAR(10)", "DATETIME", "2024-01-01", "2024-01-01 00:00:00"),
        ("VARCHAR(19)", "DATETIME(3)", "2024-01-01 10:11:12", "2024-01-01 10:11:12.000"),
        ("VARCHAR(2)", "YEAR", "24", "2024"),
        ("VARCHAR(3)", "DECIMAL(10,2)", "1e5", "100000.00"),
        ("VARCHAR(3)", "DOUBLE", "100", "100"),
        ("VARCHAR(4)", "BIGINT", "1e10", None),  # to the server it is 1
    ],
)
def test_a_text_that_fills_its_column(
    before: str, behind: str, text: str, wanted: str | None, fresh_mariadb: MariaDb
) -> None:
    """What must be written into it first may be longer than it is."""
    server, sink = fresh_mariadb, acquired(fresh_mariadb)
    pair = Pair(before, behind, (), refused=False, depends=False)
    made(server, {"c": (pair, [text])})
    outcome = altered(sink, {"c": pair}, 20)
    sink.close()
    if wanted is None:
        assert "VARCHAR(4) is too short" in str(outcome.error)
    else:
        assert outcome.error is None
    assert server.execute("SELECT CAST(c AS CHAR) FROM d.t") == [(wanted or text,)]


@pytest.mark.parametrize("other", ["x", None])
def test_no_text_is_written_where_another_column_stops_the_statement(other: str | None, fresh_mariadb: MariaDb) -> None:
    server, sink = fresh_mariadb, acquired(fresh_mariadb)
    pair = Pair("VARCHAR(9)", "INT", (), refused=False, depends=False)
    made(server, {"a": (pair, ["2.5", "1e3"]), "b": (pair, ["7", other])})
    old = (ID, *(replace(pair.old, name=name) for name in "ab"))
    new = (ID, Column("a", "INT"), Column("b", "INT", nullable=False))
    query = "ALTER TABLE `t` MODIFY COLUMN `a` INT, MODIFY COLUMN `b` INT NOT NULL"
    step = replace(ddl(Action.MULTI_SCHEMA_CHANGE, "d", "t", 20, query, columns=new), table_before=TableBefore(old))
    [outcome] = sink.apply_ddls([step], {})
    sink.close()
    assert isinstance(outcome.error, DdlRefused)
    assert server.execute("SELECT a, b FROM d.t ORDER BY id") == [("2.5", "7"), ("1e3", other)]


def _is_same(column: Column, held: object, measured: Value | None) -> bool:
    """Labels come as their numbers."""
    if column.family is Family.JSON:  # to MariaDB a text, of which the value counts
        return json_form(str(held)) == json_form(str(measured))
    text = str(held) if isinstance(held, (int, float)) else held
    return same(column, str(held) if column.labelled else shown(column, text), measured)


def _is_refused(pair: Pair) -> bool:
    zeros = "ZEROFILL" in pair.before and pair.new.family in (Family.TEXT, Family.BINARY, Family.JSON)
    return zeros or (pair.old.family, pair.new.family) in NOT_MADE
