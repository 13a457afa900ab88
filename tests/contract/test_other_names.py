"""What ports.Sink promises of tables that have another name in the target than upstream, asked of every
implementation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from consumer.ddl.resolve import routed_file
from consumer.errors import TableMissing
from consumer.model.actions import Action
from consumer.model.columns import Column
from consumer.model.load import LoadTarget, TableLoad
from consumer.model.names import TableName
from consumer.model.progress import State, TableProgress
from consumer.model.steps import ApplyDdl, Window
from consumer.target import LoadRequest, Sink
from tests.contract.acts import ID, LOG, LOG_COLUMNS, NAME, SHOP, WINDOW, apply, changes, ddl, load, load_net, net
from tests.contract.targets import Target
from tests.support.renamed import NAMING, other_name


def elsewhere(step: ApplyDdl) -> ApplyDdl:
    """`step` as the plan makes it where every table has another name."""
    old = step.old_name
    return replace(
        step,
        routed=routed_file(step.file, NAMING, step.touches, old),
        touches=NAMING.targets(step.touches),
        old_name=None if old is None else NAMING.target(old),
    )


def found(sink: Sink, table: TableName, columns: Sequence[Column]) -> LoadTarget:
    (answer,) = sink.prepare([LoadRequest(TableLoad(table, other_name(table)), tuple(columns))])
    assert isinstance(answer, LoadTarget), answer
    return answer


def begin(sink: Sink) -> None:
    keyed = "CREATE TABLE `item` (`id` INT PRIMARY KEY,`name` VARCHAR(50))"
    keyless = "CREATE TABLE `log` (`a` INT,`b` VARCHAR(50))"
    for step in (
        ddl(Action.CREATE_SCHEMA, TableName("shop", ""), 1, "CREATE DATABASE `shop`"),
        ddl(Action.CREATE_TABLE, SHOP, 2, keyed, (ID, NAME)),
        ddl(Action.CREATE_TABLE, LOG, 3, keyless, LOG_COLUMNS),
    ):
        apply(sink, elsewhere(step))


def test_rows_go_to_the_targets_table_and_the_progress_is_upstreams(target: Target, sink: Sink) -> None:
    begin(sink)
    load(sink, found(sink, SHOP, (ID, NAME)), changes((True, ("1", "a"))))
    load_net(sink, found(sink, LOG, LOG_COLUMNS), net((2, ("1", "x"))), WINDOW)
    assert target.rows(other_name(SHOP)) == [("1", "a")]
    assert target.rows(other_name(LOG)) == [("1", "x")] * 2
    assert {name for name in sink.progress().tables if name.table} == {SHOP, LOG}
    assert set(sink.missing([SHOP, other_name(SHOP)])) == {SHOP}
    assert sink.has_rows([other_name(SHOP)]) == [other_name(SHOP)]


def test_statements_change_the_targets_table(target: Target, sink: Sink) -> None:
    begin(sink)
    load(sink, found(sink, SHOP, (ID, NAME)), changes((True, ("1", "a"))))
    goods, added = TableName("shop", "goods"), (ID, NAME, Column("n", "INT", length=11, default="7", nullable=False))
    add = "ALTER TABLE `item` ADD COLUMN `n` INT NOT NULL DEFAULT 7"
    rename = "RENAME TABLE `shop`.`item` TO `shop`.`goods`"
    apply(sink, elsewhere(ddl(Action.ADD_COLUMN, SHOP, 21, add, added)))
    apply(sink, elsewhere(ddl(Action.RENAME_TABLE, goods, 22, rename, added, old_name=SHOP)))
    load(sink, found(sink, goods, added), changes((True, ("2", "b", "9"))), window=Window(22, 30))
    assert target.rows(other_name(goods)) == [("1", "a", "7"), ("2", "b", "9")]
    assert sink.progress().tables[SHOP] == TableProgress(22, State.DROPPED)
    apply(sink, elsewhere(ddl(Action.DROP_TABLE, goods, 31, "DROP TABLE `shop`.`goods`", added)))
    assert set(sink.missing([other_name(goods), other_name(LOG)])) == {other_name(goods)}


def test_errors_name_the_upstreams_table_and_what_the_target_calls_it(sink: Sink) -> None:
    (answer,) = sink.prepare([LoadRequest(TableLoad(SHOP, other_name(SHOP)), (ID, NAME))])
    assert isinstance(answer, TableMissing)
    assert answer.table == str(SHOP)
    assert str(other_name(SHOP)) in answer.message
    step = elsewhere(ddl(Action.ADD_COLUMN, SHOP, 5, "ALTER TABLE `item` ADD COLUMN `n` INT", (ID, NAME)))
    (outcome,) = sink.apply_ddls([step], {})
    assert outcome.error is not None
    assert outcome.error.table == str(SHOP)
    assert "ALTER TABLE `item` ADD COLUMN `n` INT" in outcome.error.message
