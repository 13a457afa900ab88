"""[[consumer.event-filters]] and [[consumer.rows]] as the file has them: what is taken and what is refused, by name."""

from __future__ import annotations

from pathlib import Path

import pytest

from consumer.config.filters import KINDS_OF
from consumer.config.load import load
from consumer.config.settings import Settings
from consumer.errors import BadConfig
from consumer.model.actions import Action
from consumer.model.ddl_policy import KINDS, NEVER_IGNORED, DdlPolicy
from consumer.model.layout import Layout, PartitionTransform
from consumer.model.names import TableName
from consumer.model.rules import EventFilter, Shaping

T = TableName("shop", "orders")


def settings(folder: Path, text: str) -> Settings:
    file = folder / "c.toml"
    file.write_text('[consumer]\nupstream-uri = "file:///cdc?protocol=canal-json"\n' + text, encoding="utf-8")
    return load({}, {}, str(file)).settings


def test_ticdcs_own_keys(tmp_path: Path) -> None:
    found = settings(
        tmp_path,
        """
        [[consumer.event-filters]]
        matcher = ["shop.*", "!shop.items"]
        ignore-event = ["insert", "drop table", "all dml"]
        ignore-sql = ["^alter table .* comment"]
        ignore-insert-value-expr = "id >= 100"
        ignore-update-new-value-expr = "gender = 'male' and age > 18"
        ignore-update-old-value-expr = "age < 18 or name = 'lili'"
        ignore-delete-value-expr = "name = 'john'"
        collation = "UTF8MB4_BIN"
        """,
    )
    [rule] = (found.shaping_of(T) or Shaping()).events
    assert rule == EventFilter(
        ("insert", "update", "delete"),
        "id >= 100",
        "age < 18 or name = 'lili'",
        "gender = 'male' and age > 18",
        "name = 'john'",
        "utf8mb4_bin",
    )
    assert found.shaping_of(TableName("shop", "items")) is None
    policy = found.ddl_policy
    assert policy(Action.DROP_TABLE, T, "DROP TABLE `orders`") is DdlPolicy.IGNORE
    assert policy(Action.DROP_TABLE, TableName("shop", "items"), "DROP TABLE `items`") is DdlPolicy.EVOLVE
    assert policy(Action.MODIFY_TABLE_COMMENT, T, "ALTER TABLE `orders` COMMENT = 'x'") is DdlPolicy.IGNORE
    assert policy(Action.TRUNCATE_TABLE, T, "TRUNCATE TABLE `orders`") is DdlPolicy.EVOLVE
    assert policy(Action.RENAME_TABLE, T, "ALTER TABLE x COMMENT") is DdlPolicy.FAIL, "it must not be ignored"


def test_a_database_is_matched_by_a_rule_for_some_of_it(tmp_path: Path) -> None:
    rule = '[[consumer.event-filters]]\nmatcher = ["{}"]\nignore-event = ["drop database"]'
    for matcher, policy in (
        ("*.orders", DdlPolicy.IGNORE),
        ("shop.orders", DdlPolicy.IGNORE),
        ("x.*", DdlPolicy.EVOLVE),
    ):
        found = settings(tmp_path, rule.format(matcher)).ddl_policy
        assert found(Action.DROP_SCHEMA, TableName("shop", ""), "DROP DATABASE `shop`") is policy


def test_the_first_row_filter_that_fits_decides(tmp_path: Path) -> None:
    found = settings(
        tmp_path,
        """
        rows = [{tables = ["shop.orders"], where = "a = 1"}, {tables = ["*.*"], where = "b IS NULL"}]
        """,
    )
    assert found.shaping_of(T) == Shaping(where="a = 1")
    assert found.shaping_of(TableName("x", "y")) == Shaping(where="b IS NULL")


def test_the_environment_has_them_as_json() -> None:
    env = {
        "STORAGE_CONSUMER_ROWS": '[{"tables": ["shop.*"], "where": "a = 1"}]',
        "STORAGE_CONSUMER_MASKS": '[{"tables": ["*.*"], "columns": ["m"], "mask": "hash", "key": "env:KEY"}]',
        "KEY": "sixteen letters and more",
    }
    found = load({"upstream_uri": "file:///cdc?protocol=canal-json"}, env).settings.shaping_of(T)
    assert found is not None
    assert (found.where, found.masks[0].key) == ("a = 1", b"sixteen letters and more")


def test_every_name_of_an_event_is_a_kind_of_statement() -> None:
    named = {kind for kinds in KINDS_OF.values() for kind in kinds}
    assert named == {"insert", "update", "delete", *KINDS}
    alone = {kinds[0] for name, kinds in KINDS_OF.items() if len(kinds) == 1}
    assert alone >= NEVER_IGNORED.keys()


EVENTS = '[[consumer.event-filters]]\nmatcher = ["a.b"]\n'
ROWS = '[[consumer.rows]]\ntables = ["a.b"]\n'
LAKE = '[[consumer.lake-tables]]\ntables = ["a.b"]\n'


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (EVENTS, "rule 1: it ignores nothing"),
        (EVENTS + "ignore = 1", "rule 1: ignore is not a key; known are matcher, ignore-event"),
        (EVENTS + 'ignore-event = ["insrt"]', "ignore-event: 'insrt' is not an event of TiCDC; did you mean 'insert'?"),
        (EVENTS + 'ignore-event = ["rename table"]', "rename table cannot be ignored: later rows would meet"),
        (EVENTS + "ignore-event = []", "ignore-event must be a list of texts, with one at least"),
        (EVENTS + 'ignore-sql = ["("]', "ignore-sql: '(' is not a regular expression"),
        (EVENTS + 'ignore-insert-value-expr = "a ="', "ignore-insert-value-expr: 'a =' is not an expression of MySQL"),
        (EVENTS + 'ignore-insert-value-expr = "a"', "is a value and not a condition; write a <> 0"),
        ('[[consumer.event-filters]]\nignore-event = ["insert"]', "matcher must be a list of texts"),
        ('[[consumer.event-filters]]\nmatcher = ["a"]\nignore-event = ["insert"]', "matcher: 'a' is not a table rule"),
        (ROWS, "rule 1: where is missing"),
        (ROWS + "where = 5", "where must be an expression, as a text"),
        (ROWS + "where = \"f(a) = 1\"", "'F(a)' is not supported here; supported are"),
        (ROWS + "where = \"a IN (SELECT 1)\"", "has a query, which is not supported here"),
        (ROWS + "where = \"a.b = 1\"", "has a table, which is not supported here"),
        (ROWS + "where = \"a = 1 -- x\"", "has a comment; leave it out"),
        (ROWS + "where = \"a = 1; b\"", "is not supported here"),
        (ROWS + "where = \"LENGTH(a) = 1\"", "LENGTH counts bytes"),
        (ROWS + "where = \"a || b\"", "write NOT, OR and AND for !, || and &&"),
        (ROWS + "where = 'a = \"\\x\"'", "a backslash means different things under different SQL modes"),
        (ROWS + "where = \"a = 'x'\"\ncollation = \"x_ci\"", "the collation x_ci cannot be followed exactly"),
        (LAKE, "rule 1: give partition-by, cluster-by, properties or copy-on-write"),
        (LAKE + 'partition-by = ["days(at"]', "'days(at' is neither a column nor a transform of one"),
        (LAKE + 'partition-by = ["bucket(id)"]', "only bucket and truncate have a number, and both need one"),
        (LAKE + 'partition-by = ["days(2, id)"]', "only bucket and truncate have a number"),
        (LAKE + 'partition-by = ["week(at)"]', "week is none of bucket, days, hours, months, truncate, years"),
        (LAKE + 'copy-on-write = "yes"', "copy-on-write: input should be a valid boolean"),
        (LAKE + "properties = { a = 1 }", 'properties must be a table of texts, as { "write.merge.mode" = "copy'),
        ("rows = 5", "give tables in the file, each written [[consumer.rows]]"),
        ('rows = "x"', "each written [[consumer.rows]], or a list of them as JSON"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_refused_by_name(tmp_path: Path, text: str, why: str) -> None:
    with pytest.raises(BadConfig) as refused:
        settings(tmp_path, text)
    assert why in str(refused.value)


def test_the_first_rule_that_fits_lays_a_new_table_of_a_lake_out(tmp_path: Path) -> None:
    text = (
        '[[consumer.lake-tables]]\ntables = ["a.t"]\npartition-by = ["days(at)", "bucket(16, `i)d`)", "region"]\n'
        '[[consumer.lake-tables]]\ntables = ["a.*"]\ncluster-by = ["id"]\nproperties = { x = "y" }\n'
        "copy-on-write = true"
    )
    layouts = settings(tmp_path, text).target_options.layouts
    parts = (PartitionTransform("at", "day"), PartitionTransform("i)d", "bucket", 16), PartitionTransform("region"))
    assert layouts.of(TableName("A", "t")) == Layout(parts)
    assert layouts.of(TableName("a", "u")) == Layout((), ("id",), (("x", "y"),), copy_on_write=True)
    assert layouts.of(TableName("b", "t")) == Layout()
