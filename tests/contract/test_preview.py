"""`preview_ddls`: what would be executed, asked of every target."""

from __future__ import annotations

from dataclasses import replace

from consumer.model.actions import Action
from consumer.model.columns import Column
from consumer.model.names import TableName
from consumer.model.progress import Progress
from consumer.model.steps import TableBefore
from consumer.target import Sink
from tests.contract.acts import ID, NAME, SHOP, UPSTREAM, apply, create_item, ddl
from tests.contract.targets import Target


def test_a_preview_answers_every_step_and_changes_nothing(target: Target) -> None:
    looking = target.sink()
    steps = [
        ddl(Action.CREATE_SCHEMA, TableName("shop", ""), 1, "CREATE DATABASE `shop`"),
        ddl(Action.CREATE_TABLE, SHOP, 2, "CREATE TABLE `item` (`id` INT PRIMARY KEY,`name` VARCHAR(50))", (ID, NAME)),
        ddl(Action.ADD_INDEX, SHOP, 3, "ALTER TABLE `item` ADD INDEX `i`(`name`)", (ID, NAME)),
        ddl(Action.DROP_INDEX, SHOP, 4, "ALTER TABLE `item` DROP INDEX `i`", (ID, NAME)),
        ddl(Action.RECOVER_TABLE, TableName("shop", "lost"), 5, "RECOVER TABLE `lost`", (ID,)),
    ]
    answers = looking.preview_ddls(steps)
    assert ["did not keep it" in answer.error for answer in answers] == [False] * 4 + [True]
    assert any("CREATE TABLE" in text for text in answers[1].statements)
    assert not any("not in the target" in answer.note for answer in answers)
    assert list(looking.preview_ddls([])) == []
    looking.close()
    sink = target.sink()
    assert sink.acquire(UPSTREAM) == Progress(UPSTREAM)
    create_item(sink)
    sink.close()


def test_a_preview_follows_the_trash(target: Target, sink: Sink) -> None:
    trash = TableName("shop", "__trash_9_item")
    drop = replace(ddl(Action.DROP_TABLE, SHOP, 9, "DROP TABLE `shop`.`item`"), trash=trash)
    recover = replace(ddl(Action.RECOVER_TABLE, SHOP, 10, "RECOVER TABLE `item`", (ID, NAME)), trash=trash)
    create_item(sink)
    answers = sink.preview_ddls([drop, recover])
    assert [answer.error for answer in answers] == ["", ""]
    assert all(answer.statements for answer in answers)
    apply(sink, drop, recover)
    assert target.rows(SHOP) == []


def test_a_column_that_comes_anew_keeps_no_values(target: Target, sink: Sink) -> None:
    create_item(sink)
    query = "ALTER TABLE `item` DROP COLUMN `name`, ADD COLUMN `name` INT"
    anew = ddl(Action.MULTI_SCHEMA_CHANGE, SHOP, 9, query, (ID, Column("name", "INT")))
    anew = replace(anew, table_before=TableBefore((ID, NAME)))
    (answer,) = sink.preview_ddls([anew])
    shown = "; ".join(answer.statements).replace("`", "").replace('"', "")
    rebuilt = any(text in shown for text in ("CAST(NULL AS INTEGER) AS name", "writes the rows of shop.item anew"))
    assert rebuilt or ("DROP COLUMN name" in shown and "ADD COLUMN name" in shown)
