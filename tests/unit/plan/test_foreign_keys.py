"""Which statements come behind those that take a foreign key away."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from consumer.model.actions import Action
from consumer.model.files import SchemaFile
from consumer.model.progress import DdlRecord, DdlState, Progress
from consumer.model.steps import ddl_id
from consumer.plan.catalog import Catalog
from consumer.plan.timeline import build_timeline
from tests.support.build import schema_file

KEY = "CONSTRAINT `f` FOREIGN KEY (`v`) REFERENCES `p`(`id`)"
PARENT = schema_file("d.p", 5)
CHILD = schema_file("d.c", 10, query=f"CREATE TABLE `c` (`id` INT PRIMARY KEY,`v` INT,{KEY})")
LATER_KEY = schema_file("d.c", 12, Action.ADD_FOREIGN_KEY, f"ALTER TABLE `c` ADD {KEY}")
DROP_KEY = schema_file("d.c", 20, Action.DROP_FOREIGN_KEY, "ALTER TABLE `c` DROP FOREIGN KEY `f`")
DROP_CHILD = schema_file("d.c", 20, Action.DROP_TABLE, "DROP TABLE `c`")
DROP_DATABASE = schema_file("d", 20, Action.DROP_SCHEMA, "DROP DATABASE `d`")
WIDER = schema_file("d.p", 30, Action.MODIFY_COLUMN, "ALTER TABLE `p` MODIFY COLUMN `id` BIGINT")


def renamed(old: str, new: str, version: int) -> SchemaFile:
    return schema_file(f"d.{new}", version, Action.RENAME_TABLE, f"RENAME TABLE `d`.`{old}` TO `d`.`{new}`")


def touched(files: Sequence[SchemaFile], done: Sequence[SchemaFile] = ()) -> list[str]:
    """What the last one touches; `done` are those that ran."""
    ddls = {ddl_id(file): DdlRecord(ddl_id(file), DdlState.DONE) for file in done}
    applied_ts = max((file.version for file in done), default=0)
    found = build_timeline(Catalog.of(sorted(files, key=lambda f: f.version)), Progress("u", applied_ts, {}, {}, ddls),
                           100, lambda name: name.table != "left_out")  # fmt: skip
    last = max(found.pending, key=lambda statement: statement.version)
    return [str(name) for name in last.touches]


@pytest.mark.parametrize("taken", [DROP_KEY, DROP_CHILD])
def test_a_statement_comes_behind_the_end_of_a_key_to_its_table(taken: SchemaFile) -> None:
    assert touched([PARENT, CHILD, taken, WIDER]) == ["d.c", "d.p"]
    assert touched([PARENT, CHILD, taken, WIDER], done=[PARENT, CHILD]) == ["d.c", "d.p"]
    assert touched([PARENT, CHILD, taken, WIDER], done=[PARENT, CHILD, taken]) == ["d.p"]


def test_a_key_that_was_added_later_counts() -> None:
    assert touched([PARENT, schema_file("d.c", 10), LATER_KEY, DROP_KEY, WIDER]) == ["d.c", "d.p"]


def test_a_key_that_stays_orders_nothing() -> None:
    assert touched([PARENT, CHILD, WIDER]) == ["d.p"]


def test_a_reference_in_a_columns_definition_is_no_key() -> None:
    child = schema_file("d.c", 10, query="CREATE TABLE `c` (`id` INT PRIMARY KEY,`v` INT REFERENCES `p`(`id`))")
    assert touched([PARENT, child, DROP_CHILD, WIDER]) == ["d.p"]


def test_both_tables_may_have_other_names_since() -> None:
    drop = schema_file("d.k", 20, Action.DROP_FOREIGN_KEY, "ALTER TABLE `k` DROP FOREIGN KEY `f`")
    wider = schema_file("d.q", 30, Action.MODIFY_COLUMN, "ALTER TABLE `q` MODIFY COLUMN `id` BIGINT")
    assert touched([PARENT, CHILD, renamed("c", "k", 14), renamed("p", "q", 15), drop, wider]) == ["d.k", "d.q"]
    assert touched([PARENT, CHILD, DROP_KEY, renamed("p", "q", 25), wider]) == ["d.c", "d.q"]


def test_tables_that_exchange_their_names_keep_their_keys() -> None:
    other = schema_file("d.k", 11)
    drop = schema_file("d.k", 20, Action.DROP_FOREIGN_KEY, "ALTER TABLE `k` DROP FOREIGN KEY `f`")
    for files in ([renamed("c", "k", 14), renamed("k", "c", 14)], [renamed("k", "c", 14), renamed("c", "k", 14)]):
        assert "d.k" in touched([PARENT, CHILD, other, *files, drop, WIDER])


def test_a_table_that_comes_with_the_name_does_too() -> None:
    drop = schema_file("d.p", 25, Action.DROP_TABLE, "DROP TABLE `p`")
    assert touched([PARENT, CHILD, DROP_KEY, drop, schema_file("d.p", 30)]) == ["d.c", "d.p"]


def test_a_key_from_before_the_changefeed_can_be_to_any_table_as_old() -> None:
    described = [schema_file("d.p", 5, query=""), schema_file("d.c", 10, query="")]
    assert touched([*described, DROP_KEY, WIDER]) == ["d.c", "d.p"]
    assert touched([PARENT, described[1], DROP_KEY, WIDER]) == ["d.p"]
    assert touched([*described, DROP_CHILD, WIDER]) == ["d.p"]


def test_a_database_that_goes_takes_its_keys_along() -> None:
    parent = schema_file("e.p", 5)
    child = schema_file("d.c", 10, query=CHILD.query.replace("`p`", "`e`.`p`"))
    wider = schema_file("e.p", 30, Action.MODIFY_COLUMN, "ALTER TABLE `p` MODIFY COLUMN `id` BIGINT")
    assert touched([parent, child, DROP_DATABASE, wider]) == ["d.c", "e.p"]


def test_a_table_that_nobody_follows_is_not_waited_for() -> None:
    child = schema_file("d.left_out", 10, query=CHILD.query.replace("`c`", "`left_out`"))
    drop = schema_file("d.left_out", 20, Action.DROP_FOREIGN_KEY, "ALTER TABLE `left_out` DROP FOREIGN KEY `f`")
    assert touched([PARENT, child, drop, WIDER]) == ["d.p"]
