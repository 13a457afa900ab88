"""[[consumer.columns]]: a table has the columns that its rule chooses of a mirror's, under the rule's names."""

from __future__ import annotations

import json
import random
import re
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import pytest

from consumer import app
from consumer.config.load import load
from consumer.config.settings import Settings
from consumer.errors import BadConfig
from consumer.model.actions import Action
from consumer.model.columns import Column
from consumer.model.names import TableName
from consumer.results import RunResult
from tests.e2e.corpus import Case, read_cases
from tests.servers import MariaDb
from tests.support.build import ID, VALUE
from tests.support.canal_json import row_line, typed_line
from tests.support.changes import keys_of
from tests.support.every_target import Duck
from tests.support.feed import Feed
from tests.support.inline_loader import InlineLoader
from tests.support.observers import Recorder

CASES = {case.name: case for case in read_cases(Path(__file__).parents[2] / "fixtures" / "cdc", Path("/nowhere"))}
NAMES = (
    "tiflow/d_keys/cj_ext", "tiflow/d_keys/csv_old", "tiflow/c_ddl/cj_ext", "tiflow/b4_gen/csv_old",
    "tiflow/b4_gen/cj_ext", "ticdc/h_dup/cj_across",
)  # fmt: skip
NO_VIEWS = {"rules": [{"kinds": ["view"], "action": "ignore"}]}
Query = Callable[[str], list[tuple[Any, ...]]]


@pytest.fixture(params=["duckdb", "mariadb", "mysql", "tidb"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, Query]:
    if request.param == "duckdb":
        return f"duckdb:///{tmp_path}/r.duckdb", Duck(tmp_path / "r.duckdb")
    server: MariaDb = request.getfixturevalue(f"fresh_{request.param}")
    return server.url(), server.execute


def columns_of(storage: Path) -> dict[str, list[str]]:
    """All columns that each table ever had, as the schema files have them."""
    found: defaultdict[str, dict[str, None]] = defaultdict(dict)
    for path in storage.rglob("schema_*.json"):
        content = json.loads(path.read_text())
        for column in content.get("TableColumns") or ():
            found[f"{content['Schema']}.{content['Table']}"][column["ColumnName"]] = None
    return {table: list(columns) for table, columns in found.items()}


def rule_for(storage: Path, rnd: random.Random) -> tuple[list[str], list[str], dict[str, str]]:
    """Which tables have a key in all of their versions, columns to leave out of them all, and new names of others."""
    columns, keys = columns_of(storage), keys_of(storage, {})
    tables = [table for table in columns if keys.get(table)]
    names = sorted({name.lower() for table in tables for name in columns[table]})
    kept = {name.lower() for table in tables for name in keys[table]} | in_renames(storage)
    left = [name for name in names if name not in kept and rnd.random() < 0.6]
    return tables, left, {name: f"New {name}" for name in names if name not in left and rnd.random() < 0.5}


def in_renames(storage: Path) -> set[str]:
    """The names in statements that rename columns: one that comes to be kept has no values."""
    queries = (str(json.loads(path.read_text()).get("Query")) for path in storage.rglob("schema_*.json"))
    renaming = (query for query in queries if re.search(r"RENAME COLUMN|CHANGE", query))
    return {name.lower() for query in renaming for name in re.findall(r"`(\w+)`", query)}


def listed(query: Query, database: str, table: str) -> list[str]:
    """The table's columns, without virtual ones, which the files do not have."""
    where = f"table_schema = '{database}' AND table_name = '{table}'"
    where += "" if isinstance(query, Duck) else " AND extra NOT LIKE '%VIRTUAL%'"
    names = f"SELECT column_name FROM information_schema.columns WHERE {where} ORDER BY ordinal_position"
    return [str(name) for (name,) in query(names)]


def rows(query: Query, database: str, table: str, columns: Sequence[str]) -> list[str]:
    quote = '"' if isinstance(query, Duck) else "`"
    names = ", ".join(f"{quote}{name}{quote}" for name in columns)
    return sorted(map(repr, query(f"SELECT {names} FROM {quote}{database}{quote}.{quote}{table}{quote}")))


def quoted(table: str) -> str:
    """A table rule for just this table."""
    return ".".join(f"`{part}`" for part in table.split(".", 1))


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("name", NAMES)
def test_the_columns_are_a_mirrors(name: str, seed: int, place: tuple[str, Query]) -> None:
    url, query = place
    case: Case = CASES[name]
    storage = case.folder / "storage"
    tables, left, named = rule_for(storage, random.Random(seed))
    mirror = case.settings(storage, url, ddl=NO_VIEWS, routes=["*.* -> m_*.*"], name="mirror")
    assert app.once(mirror, Recorder(), InlineLoader()).exit_code == 0
    keyless = [f"!{quoted(table)}" for table in columns_of(storage) if table not in tables]
    rule: dict[str, Any] = {"tables": ["*.*", *keyless], "exclude": left or ["no such"], "rename": named}
    chosen = case.settings(storage, url, ddl=NO_VIEWS, columns=[rule])
    result = app.once(chosen, Recorder(), InlineLoader(3 * seed))
    assert result.exit_code == 0, [table.error for table in result.tables.values() if table.error]
    beside = app.verify(chosen, Recorder(), loader=InlineLoader(3 * seed)).tables
    assert not [check for check in beside if check.error or check.counted.differences]
    compared = 0
    for table in tables:
        database, _, short = table.partition(".")
        there = listed(query, f"m_{database}", short)
        if not there:  # it is gone
            continue
        taken = [column for column in there if column.lower() not in left]
        new = [named.get(column.lower(), column) for column in taken]
        assert listed(query, database, short) == new, table
        assert rows(query, database, short, new) == rows(query, f"m_{database}", short, taken)
        compared += 1
    assert compared >= 2


@pytest.fixture(params=["duckdb", "mariadb"])
def made(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, Query]:
    if request.param == "duckdb":
        return f"duckdb:///{tmp_path}/r.duckdb", Duck(tmp_path / "r.duckdb")
    server: MariaDb = request.getfixturevalue("fresh_mariadb")
    return server.url(), server.execute


NOTE = Column("note", "VARCHAR", length=20, default="n")
RULE: dict[str, Any] = {"tables": ["d.t"], "exclude": ["note"], "rename": {"v": "worth"}}


def settings(feed: Feed, url: str, *rules: dict[str, Any], **flags: Any) -> Settings:
    uri = f"file://{feed.folder}?protocol=canal-json"
    return load({"upstream_uri": uri, "downstream_uri": url, "tz": "UTC", "columns": list(rules), **flags}, {}).settings


def once(feed: Feed, url: str, *rules: dict[str, Any], **flags: Any) -> RunResult:
    return app.once(settings(feed, url, *rules, **flags), Recorder(), InlineLoader())


def line(ts: int, kind: str, **data: str | None) -> bytes:
    return row_line(kind, dict(data), commit_ts=ts, old=[dict(data)] if kind == "UPDATE" else None) + b"\r\n"


def made_table(feed: Feed) -> None:
    feed.database("d", 1)
    query = "CREATE TABLE `t` (`id` INT PRIMARY KEY, `v` INT, `note` VARCHAR(20) DEFAULT 'n')"
    feed.statement("d.t", 2, Action.CREATE_TABLE, query, (ID, VALUE, NOTE))
    feed.checkpoint(30)


def first_rows(feed: Feed) -> None:
    made_table(feed)
    feed.file("d.t", 2, b"".join(line(10 + n, "INSERT", id=str(n), v=str(n * 5), note=f"n{n}") for n in (1, 2, 3)))
    feed.file("d.t", 2, line(20, "UPDATE", id="1", v="7", note="m") + line(21, "DELETE", id="2", v="10", note="n2"))


def test_statements_go_on_under_the_rule(feed: Feed, made: tuple[str, Query]) -> None:
    url, query = made
    first_rows(feed)
    assert once(feed, url, RULE).exit_code == 0
    assert rows(query, "d", "t", ["id", "worth"]) == ["(1, 7)", "(3, 15)"]
    feed.statement("d.t", 40, Action.ADD_COLUMN, "ALTER TABLE `t` ADD COLUMN `own` INT DEFAULT 5 AFTER `id`",
                   (ID, Column("own", "INT", default="5"), VALUE, NOTE))  # fmt: skip
    wide = Column("note", "VARCHAR", length=90)
    feed.statement("d.t", 41, Action.MODIFY_COLUMN, "ALTER TABLE `t` MODIFY COLUMN `note` VARCHAR(90)",
                   (ID, Column("own", "INT", default="5"), VALUE, wide))  # fmt: skip
    feed.statement("d.t", 42, Action.MODIFY_COLUMN, "ALTER TABLE `t` RENAME COLUMN `v` TO `w`",
                   (ID, Column("own", "INT", default="5"), Column("w", "INT"), wide))  # fmt: skip
    feed.statement("d.t", 43, Action.ADD_INDEX, "ALTER TABLE `t` ADD UNIQUE INDEX `i` (`note`)",
                   (ID, Column("own", "INT", default="5"), Column("w", "INT"), wide))  # fmt: skip
    feed.file("d.t", 43, line(45, "INSERT", id="4", own="6", w="8", note="x"))
    feed.statement("d.t", 50, Action.DROP_COLUMN, "ALTER TABLE `t` DROP COLUMN `note`",
                   (ID, Column("own", "INT", default="5"), Column("w", "INT")))  # fmt: skip
    feed.checkpoint(60)
    planned = app.plan(settings(feed, url, RULE), Recorder())
    assert not planned.stopped
    assert once(feed, url, RULE).exit_code == 0
    assert listed(query, "d", "t") == ["id", "own", "w"]
    assert rows(query, "d", "t", ["id", "own", "w"]) == ["(1, 5, 7)", "(3, 5, 15)", "(4, 6, 8)"]
    feed.truncate("d.t", 70)
    feed.checkpoint(80)
    assert once(feed, url, RULE).exit_code == 0
    assert rows(query, "d", "t", ["id"]) == []
    feed.drop("d.t", 90)
    feed.checkpoint(99)
    assert once(feed, url, RULE).exit_code == 0
    assert listed(query, "d", "t") == []


@pytest.mark.parametrize("form", ["", "append", "soft-delete"])
def test_a_column_that_is_added_where_it_was_there_keeps_its_values(
    feed: Feed, made: tuple[str, Query], form: str
) -> None:
    url, query = made
    first_rows(feed)
    new = Column("w", "INT", default="4")
    text = "ALTER TABLE `t` ADD COLUMN IF NOT EXISTS `V` INT DEFAULT 9, ADD COLUMN IF NOT EXISTS `w` INT DEFAULT 4"
    feed.statement("d.t", 25, Action.MULTI_SCHEMA_CHANGE, text, (ID, VALUE, NOTE, new))
    forms = [f"d.t = {form}"] if form else []
    assert once(feed, url, {"tables": ["d.t"], "rename": {"v": "worth"}}, table_modes=forms).exit_code == 0
    present = {"": "", "append": " WHERE _commit_ts IN (20, 13)", "soft-delete": " WHERE _deleted_at IS NULL"}[form]
    assert sorted(query(f"SELECT id, worth, note, w FROM d.t{present}")) == [(1, 7, "m", 4), (3, 15, "n3", 4)]


@pytest.mark.parametrize(
    ("rule", "why"),
    [
        (
            {"tables": ["*.*"], "exclude": ["ID"]},
            "[[consumer.columns]] leaves its column id out, which is one of its key",
        ),
        (
            {"tables": ["*.*"], "include": ["v"]},
            "[[consumer.columns]] leaves its column id out, which is one of its key",
        ),
        ({"tables": ["*.*"], "rename": {"v": "Note"}}, "[[consumer.columns]] gives two of its columns the name note"),
        (
            {"tables": ["d.t"], "exclude": ["nota"]},
            "[[consumer.columns]] gives columns of it that it does not have (nota)",
        ),
        (
            {"tables": ["d.t"], "rename": {"w": "x"}},
            "[[consumer.columns]] gives columns of it that it does not have (w)",
        ),
    ],
)
def test_rules_that_the_table_cannot_follow_stop_it(
    feed: Feed, made: tuple[str, Query], rule: dict[str, Any], why: str
) -> None:
    url, query = made
    first_rows(feed)
    result = once(feed, url, rule)
    assert result.exit_code == 5
    assert why in result.tables[TableName("d", "t")].error
    # The rule can be mended: nothing was made by it.
    assert once(feed, url, RULE).exit_code == 0
    assert rows(query, "d", "t", ["id", "worth"]) == ["(1, 7)", "(3, 15)"]


def test_a_column_without_values_does_not_come_to_be_kept(feed: Feed, made: tuple[str, Query]) -> None:
    url, query = made
    first_rows(feed)
    feed.statement("d.t", 25, Action.MODIFY_COLUMN, "ALTER TABLE `t` RENAME COLUMN `note` TO `text`",
                   (ID, VALUE, Column("text", "VARCHAR", length=20)))  # fmt: skip
    result = once(feed, url, RULE)
    assert result.exit_code == 5
    why = "it renames column note, of which the target has no values, to text, of which it has"
    assert why in result.tables[TableName("d", "t")].error
    assert rows(query, "d", "t", ["id", "worth"]) == ["(1, 7)", "(3, 15)"]


def test_labels_are_not_those_of_a_column_that_is_left_out(feed: Feed, place: tuple[str, Query]) -> None:
    url, query = place
    feed.database("d", 1)
    text = "CREATE TABLE `t` (`id` INT PRIMARY KEY, `size` ENUM('s','m','l'), `state` ENUM('on','off'))"
    feed.statement("d.t", 2, Action.CREATE_TABLE, text, (ID, Column("size", "ENUM"), Column("state", "ENUM")))
    feed.file("d.t", 2, line(10, "INSERT", id="1", size="2", state="1"))
    feed.checkpoint(30)
    assert once(feed, url, {"tables": ["d.t"], "exclude": ["state"], "rename": {"size": "state"}}).exit_code == 0
    assert query("SELECT id, state FROM d.t") == [(1, "m")]


def test_a_time_that_is_left_out_needs_no_zone(feed: Feed, place: tuple[str, Query]) -> None:
    url, query = place
    feed.database("d", 1)
    text = "CREATE TABLE `t` (`id` INT PRIMARY KEY, `v` INT, `seen` TIMESTAMP NULL)"
    seen = Column("seen", "TIMESTAMP")
    feed.statement("d.t", 2, Action.CREATE_TABLE, text, (ID, VALUE, seen))
    feed.file("d.t", 2, line(10, "INSERT", id="1", v="5", seen="2024-06-01 12:00:00"))
    text = "ALTER TABLE `t` MODIFY COLUMN `seen` DATETIME"
    feed.statement("d.t", 25, Action.MODIFY_COLUMN, text, (ID, VALUE, replace(seen, type="DATETIME")))
    feed.checkpoint(30)
    rule = {"tables": ["d.t"], "exclude": ["seen"]}
    assert once(feed, url, rule, tz="Asia/Shanghai").exit_code == 0
    assert query("SELECT * FROM d.t") == [(1, 5)]


def test_a_column_that_comes_to_be_left_out_goes(feed: Feed, made: tuple[str, Query]) -> None:
    url, query = made
    first_rows(feed)
    feed.statement("d.t", 25, Action.MODIFY_COLUMN, "ALTER TABLE `t` RENAME COLUMN `v` TO `secret_v`",
                   (ID, Column("secret_v", "INT"), NOTE))  # fmt: skip
    assert once(feed, url, {"tables": ["d.*"], "exclude": ["secret*"]}).exit_code == 0
    assert listed(query, "d", "t") == ["id", "note"]
    assert rows(query, "d", "t", ["id", "note"]) == ["(1, 'm')", "(3, 'n3')"]


def test_another_rule_for_a_table_that_has_begun_is_refused(feed: Feed, made: tuple[str, Query]) -> None:
    url, _ = made
    first_rows(feed)
    assert once(feed, url, RULE).exit_code == 0
    for other in ({**RULE, "exclude": ["note", "x*"]}, {**RULE, "rename": {"v": "w"}}, {**RULE, "tables": ["e.*"]}):
        with pytest.raises(BadConfig, match="and the settings say"):
            once(feed, url, other)


def test_the_order_of_names_makes_no_other_rule(feed: Feed, made: tuple[str, Query]) -> None:
    url, query = made
    first_rows(feed)
    assert once(feed, url, {**RULE, "include": ["id", "v", "x*"], "exclude": ["note", "a*"]}).exit_code == 0
    other = {**RULE, "include": ["X*", "V", "ID", "id"], "exclude": ["A*", "Note"]}
    assert once(feed, url, other).exit_code == 0
    ((kept,),) = query("SELECT modes FROM storage_consumer.consumer")
    assert '\\"id\\", \\"v\\"' in str(kept).lower()
    with pytest.raises(BadConfig, match="and the settings say"):
        once(feed, url, {**other, "exclude": ["a*"]})
    assert rows(query, "d", "t", ["id", "worth"]) == ["(1, 7)", "(3, 15)"]


def test_a_renamed_table_goes_on_under_an_equal_rule(feed: Feed, made: tuple[str, Query]) -> None:
    url, query = made
    first_rows(feed)
    text = "RENAME TABLE `d`.`t` TO `d`.`other`"
    feed.statement("d.other", 25, Action.RENAME_TABLE, text, (ID, VALUE, NOTE))
    assert once(feed, url, RULE, {**RULE, "tables": ["d.*"]}).exit_code == 0
    assert rows(query, "d", "other", ["id", "worth"]) == ["(1, 7)", "(3, 15)"]


def test_filters_and_masks_see_upstreams_columns(feed: Feed, made: tuple[str, Query]) -> None:
    url, query = made
    first_rows(feed)
    where = [{"tables": ["d.t"], "where": "note = 'n3' OR v = 7", "collation": "utf8mb4_bin"}]
    mask = [{"tables": ["d.t"], "columns": ["v"], "mask": "fixed", "value": "1"}]
    assert once(feed, url, RULE, rows=where, masks=mask).exit_code == 0
    assert rows(query, "d", "t", ["id", "worth"]) == ["(1, 1)", "(3, 1)"]


def test_they_go_with_a_form(feed: Feed, made: tuple[str, Query]) -> None:
    url, query = made
    first_rows(feed)
    assert once(feed, url, RULE, table_modes=["d.t = append"]).exit_code == 0
    found = rows(query, "d", "t", ["id", "worth", "_op", "_commit_ts"])
    assert found == [
        "(1, 5, 'I', 11)", "(1, 7, 'U', 20)", "(2, 10, 'D', 21)", "(2, 10, 'I', 12)", "(3, 15, 'I', 13)",
    ]  # fmt: skip


def test_rows_that_lack_columns_are_not_for_a_rule(feed: Feed, made: tuple[str, Query]) -> None:
    url, query = made
    made_table(feed)
    feed.file("d.t", 2, line(25, "INSERT", id="9", v="9"))
    result = once(feed, url, RULE)
    assert result.exit_code != 0
    assert "its rows lack columns (note)" in result.tables[TableName("d", "t")].error
    assert once(feed, url, name="second", routes=["d.* -> e.*"]).exit_code == 0
    assert rows(query, "e", "t", ["id", "v"]) == ["(9, 9)"]


def test_columns_of_a_restored_table_are_converted_by_their_own_types(feed: Feed, tmp_path: Path) -> None:
    feed.database("d", 1)
    amount, share = Column("amount", "VARCHAR", length=9), Column("share", "DOUBLE")
    feed.describe("d.t", 2, (ID, amount, share))
    with duckdb.connect(tmp_path / "r.duckdb") as connection:
        connection.execute("CREATE SCHEMA d")
        connection.execute("CREATE TABLE d.t (id INTEGER, share VARCHAR, amount DOUBLE)")
        connection.execute("INSERT INTO d.t VALUES (1, '2.5', 4.5)")
    text = "ALTER TABLE `t` MODIFY COLUMN `amount` INT"
    feed.statement("d.t", 25, Action.MODIFY_COLUMN, text, (ID, Column("amount", "INT"), share))
    feed.checkpoint(30)
    swapped = {"tables": ["d.t"], "rename": {"amount": "share", "share": "amount"}}
    assert once(feed, f"duckdb:///{tmp_path}/r.duckdb", swapped, start_ts="5").exit_code == 0
    assert rows(Duck(tmp_path / "r.duckdb"), "d", "t", ["id", "share", "amount"]) == ["(1, 3, 4.5)"]


def test_a_table_with_no_key_stops(feed: Feed, made: tuple[str, Query]) -> None:
    url, _ = made
    feed.database("d", 1)
    feed.statement("d.t", 2, Action.CREATE_TABLE, "CREATE TABLE `t` (`id` INT, `v` INT)", (Column("id", "INT"), VALUE))
    feed.checkpoint(30)
    result = once(feed, url, {"tables": ["*.*"], "exclude": ["v"]})
    assert "it has no key" in result.tables[TableName("d", "t")].error


@pytest.mark.parametrize(
    ("rule", "why"),
    [
        ({"tables": ["d.t"]}, "give include, exclude or rename"),
        ({"tables": ["d.t"], "exclude": "v"}, "exclude must be a list of texts"),
        ({"tables": ["d.t"], "rename": ["v"]}, "rename must be a table of names"),
        ({"tables": ["d.t"], "rename": {"v*": "w"}}, "both are whole names"),
        ({"tables": ["d.t"], "rename": {"v": "w "}}, "both are whole names"),
        ({"tables": ["d.t"], "rename": {"v": "x", "w": "X"}}, "rename has a name twice"),
        ({"tables": ["dt"], "exclude": ["v"]}, "tables: 'dt' is not a table rule"),
        ({"tables": ["d.t"], "drop": ["v"]}, "drop is not a key; known are tables, include, exclude, rename"),
    ],
)
def test_rules_that_are_wrong_are_refused(rule: dict[str, Any], why: str) -> None:
    with pytest.raises(BadConfig) as refused:
        load({"upstream_uri": "file:///cdc?protocol=canal-json", "columns": [rule]}, {})
    assert why in str(refused.value)


def test_the_example_of_the_docs(tmp_path: Path, feed: Feed) -> None:
    text = (Path(__file__).parents[2] / "docs" / "shaping.md").read_text(encoding="utf-8")
    example = next(b for b in re.findall(r"```toml\n(.*?)```", text, re.DOTALL) if "[[consumer.columns]]" in b)
    table = re.findall(r"\| `(shop\.\w+)` \| `([\w, ]+)` \| `([\w, ]+)` \|\n", text)
    assert len(table) == 2
    feed.database("shop", 1)
    for version, (name, columns, _) in enumerate(table, 2):
        names = columns.split(", ")
        own = (ID, *(Column(column, "VARCHAR", length=9) for column in names[1:]))
        body = ", ".join(f"`{column}` VARCHAR(9)" for column in names[1:])
        short = name.partition(".")[2]
        feed.statement(
            name, version, Action.CREATE_TABLE, f"CREATE TABLE `{short}` (`id` INT PRIMARY KEY, {body})", own
        )
        row = {column: "1" if column == "id" else column[:9] for column in names}
        feed.file(name, version, typed_line(own, 10, row, database="shop", table=short))
    feed.checkpoint(20)
    (tmp_path / "c.toml").write_text(example, encoding="utf-8")
    url, uri = f"duckdb:///{tmp_path}/replica.duckdb", f"file://{feed.folder}?protocol=canal-json"
    flags = {"upstream_uri": uri, "downstream_uri": url, "tz": "UTC"}
    assert app.once(load(flags, {}, str(tmp_path / "c.toml")).settings, Recorder(), InlineLoader()).exit_code == 0
    query = Duck(tmp_path / "replica.duckdb")
    for name, columns, kept in table:
        there = kept.split(", ")
        assert listed(query, *name.split(".")) == there
        former = {"email": "mail"}
        assert query(f"SELECT {kept} FROM {name}") == [
            tuple(1 if column == "id" else former.get(column, column) for column in there)
        ]
        assert len(columns.split(", ")) > len(there)
