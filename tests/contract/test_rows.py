"""What ports.Sink promises of rows, asked of every implementation as the pipeline would ask."""

from __future__ import annotations

import random
from dataclasses import replace

import pyarrow as pa
import pytest

from consumer.errors import CannotBeExact, DdlRefused, TableMissing
from consumer.model.actions import Action
from consumer.model.columns import Column
from consumer.model.load import Dialect, LoadOutcome, LoadTarget, LoadTask, TableLoad
from consumer.model.names import TableName
from consumer.model.progress import (
    ProgressChange,
    TableProgress,
)
from consumer.model.steps import Window
from consumer.model.table_modes import ModeKind, TableMode
from consumer.target import LoadRequest, Sink
from tests.contract.acts import (
    ID,
    LOG,
    LOG_COLUMNS,
    NAME,
    SHOP,
    UPSTREAM,
    Change,
    apply,
    changes,
    create_item,
    create_log,
    ddl,
    load,
    load_net,
    net,
    outcome,
    prepared,
    write,
)
from tests.contract.targets import Target


def test_rows_and_progress_arrive_together(target: Target, sink: Sink) -> None:
    create_item(sink)
    load(sink, prepared(sink), changes((True, ("1", "a")), (True, ("2", None))))
    assert target.rows(SHOP) == [("1", "a"), ("2", None)]
    assert sink.progress().table(SHOP) == TableProgress(20)
    assert sink.has_rows([SHOP, LOG]) == [SHOP]
    assert sink.count_rows([SHOP, LOG, TableName("shop", "none")]) == {SHOP: 2}
    nowhere = {TableName("nowhere", "t"), TableName("d😀", "t"), TableName("d", "t😀")}
    assert set(sink.missing([SHOP, LOG, *nowhere])) == {LOG, *nowhere}
    assert list(sink.tables_in(SHOP.database)) == [SHOP]
    called = sink.called(lambda name: name == SHOP)
    assert (list(called), sink.called(lambda name: name.table == "progress")) == ([SHOP], {})
    assert {name.lower() for name in called[SHOP]} == {ID.name, NAME.name}
    assert list(sink.tables_in("nowhere")) == list(sink.tables_in("d😀")) == []


def test_receipts_count_puts_and_deletes(sink: Sink) -> None:
    create_item(sink)
    (receipt,) = write(sink.writer(), prepared(sink), changes((True, ("1", "a")), (False, ("2", None))))
    assert (receipt.puts, receipt.deletes) == (1, 1)


def test_a_failed_outcome_is_not_published(target: Target, sink: Sink) -> None:
    create_item(sink)
    failed = LoadOutcome(LoadTask(0, prepared(sink), Window(10, 20), (), Dialect()), (), (), TableMissing("gone"))
    sink.commit([failed], ProgressChange())
    assert target.rows(SHOP) == []


@pytest.mark.parametrize("seed", range(3))
def test_order_and_repetition_of_writes_do_not_matter(target: Target, sink: Sink, seed: int) -> None:
    """Every value of the unique key changes its row, a part of the rows goes, new ones come."""
    create_item(sink)
    shipped = prepared(sink)
    load(sink, shipped, changes(*((True, (str(row), f"n{row}")) for row in range(30))))
    rows: list[Change] = [(True, (str(row), f"n{(row + 7) % 30}")) for row in range(5, 30)]
    rows += [(False, (str(row), None)) for row in range(5)] + [(True, (str(row), f"n{row}")) for row in range(30, 33)]
    rows = [change for change in rows if change[1][1] not in {f"n{row}" for row in range(7)}]
    rows += [(True, (str(row), None)) for row in range(23, 30)]
    random.Random(seed).shuffle(rows)
    parts = [changes(*rows[start : start + 9]) for start in range(0, len(rows), 9)]
    load(sink, shipped, *parts, *parts, window=Window(20, 30))
    wanted = [(str(row), f"n{row + 7}") for row in range(5, 23)] + [(str(row), f"n{row}") for row in range(30, 33)]
    wanted += [(str(row), None) for row in range(23, 30)]
    assert sorted(target.rows(SHOP), key=str) == sorted(wanted, key=str)


def test_a_lost_run_is_repeated_with_a_larger_window(target: Target, sink: Sink) -> None:
    create_item(sink)
    shipped = prepared(sink)
    load(sink, shipped, changes((True, ("1", "a")), (True, ("2", "b"))))
    write(sink.writer(), shipped, changes((True, ("1", "b")), (True, ("2", "a")), (True, ("3", "c"))))
    sink.close()
    again = target.sink()
    assert again.acquire(UPSTREAM).table(SHOP).applied_ts == 20
    load(again, prepared(again), changes((False, ("1", None)), (True, ("2", "c")), (False, ("3", None))))
    again.close()
    assert target.rows(SHOP) == [("2", "c")]


def test_several_tables_in_one_commit(target: Target, sink: Sink) -> None:
    create_item(sink)
    create_log(sink)
    item, log = prepared(sink), prepared(sink, LOG, LOG_COLUMNS)
    window = Window(10, 20)
    with sink.writer().session() as session:
        first = session.write(item, changes((True, ("1", "a"))))
        second = session.write_multiset(log, net((2, ("1", "a"))), window)
    done = ProgressChange(tables={SHOP: TableProgress(20), LOG: TableProgress(20)})
    sink.commit([outcome(item, [first], window), outcome(log, [second], window)], done)
    assert target.rows(SHOP) == [("1", "a")]
    assert target.rows(LOG) == [("1", "a"), ("1", "a")]


def test_several_outcomes_of_one_table_in_one_commit(target: Target, sink: Sink) -> None:
    """As where rows of a table have different columns that are known."""
    create_item(sink)
    load(sink, prepared(sink), changes((True, ("1", "a")), (True, ("2", "b"))), window=Window(2, 10))
    whole, keys = prepared(sink), prepared(sink, absent=("name",))
    window = Window(10, 20)
    found = [
        outcome(whole, write(sink.writer(), whole, changes((False, ("1", None)), (True, ("3", "c")))), window),
        outcome(keys, write(sink.writer(), keys, changes((True, ("2",)))), window),
    ]
    sink.commit(found, ProgressChange(tables={SHOP: TableProgress(20)}))
    assert target.rows(SHOP) == [("2", "b"), ("3", "c")]


def test_rows_without_a_key_are_counted(target: Target, sink: Sink) -> None:
    create_log(sink)
    shipped = prepared(sink, LOG, LOG_COLUMNS)
    assert shipped.key == ()
    receipt = load_net(sink, shipped, net((3, ("1", "a")), (1, (None, None)), (1, ("2", None))), Window(10, 20))
    assert (receipt.puts, receipt.deletes) == (5, 0)
    receipt = load_net(sink, shipped, net((-2, ("1", "a")), (-1, (None, None)), (2, ("2", None))), Window(20, 30))
    assert (receipt.puts, receipt.deletes) == (2, 3)
    assert target.rows(LOG) == [("1", "a"), ("2", None), ("2", None), ("2", None)]


def test_rows_without_a_key_take_effect_once(target: Target, sink: Sink) -> None:
    create_log(sink)
    shipped = prepared(sink, LOG, LOG_COLUMNS)
    for _ in range(2):
        load_net(sink, shipped, net((2, ("1", "a"))), Window(10, 20))
    assert target.rows(LOG) == [("1", "a"), ("1", "a")]


def test_a_missing_copy_stops_its_table_and_changes_nothing(target: Target, sink: Sink) -> None:
    create_log(sink)
    shipped = prepared(sink, LOG, LOG_COLUMNS)
    load_net(sink, shipped, net((1, ("1", "a")), (2, ("2", "b"))), Window(10, 20))
    with pytest.raises(CannotBeExact) as caught:
        load_net(sink, shipped, net((-1, ("2", "b")), (-2, ("1", "a")), (1, ("3", "c"))), Window(20, 30))
    assert caught.value.table == str(LOG)
    assert target.rows(LOG) == [("1", "a"), ("2", "b"), ("2", "b")]
    assert sink.progress().table(LOG) == TableProgress(20)


@pytest.mark.parametrize("acquires", [True, False])
def test_a_table_that_the_target_lacks(target: Target, acquires: bool) -> None:
    """It is older than the changefeed, or somebody dropped it: rows that it had would be missing from a new one."""
    sink = target.sink()
    if acquires:
        sink.acquire(UPSTREAM)
    (answer,) = sink.prepare([LoadRequest(TableLoad(SHOP), (ID, NAME))])
    assert isinstance(answer, TableMissing)
    assert "CREATE TABLE" in answer.hint
    sink.close()


CHANGES = [
    (Action.ADD_COLUMN, "ALTER TABLE `item` ADD COLUMN `name` VARCHAR(50)"),
    (Action.TRUNCATE_TABLE, "TRUNCATE TABLE `item`"),
    (Action.RENAME_TABLE, "RENAME TABLE `shop`.`gone` TO `shop`.`item`"),
]


@pytest.mark.parametrize(("action", "query"), CHANGES)
def test_a_statement_about_a_table_that_the_target_lacks(sink: Sink, action: Action, query: str) -> None:
    old = TableName("shop", "gone") if action is Action.RENAME_TABLE else None
    step = ddl(action, SHOP, 9, query, (ID, NAME), old_name=old)
    assert sink.preview_ddls([step])[0].error
    (outcome,) = sink.apply_ddls([step], {})
    assert isinstance(outcome.error, DdlRefused)
    (answer,) = sink.prepare([LoadRequest(TableLoad(SHOP), (ID, NAME))])
    assert isinstance(answer, TableMissing)


def test_requests_are_answered_in_order(sink: Sink) -> None:
    create_item(sink)
    create_log(sink)
    answers = sink.prepare([LoadRequest(TableLoad(LOG), LOG_COLUMNS), LoadRequest(TableLoad(SHOP), (ID, NAME))])
    assert [answer.table for answer in answers if isinstance(answer, LoadTarget)] == [LOG, SHOP]
    assert [answer.key for answer in answers if isinstance(answer, LoadTarget)] == [(), (0,)]


def test_hidden_columns_are_no_part_of_rows(sink: Sink) -> None:
    create_item(sink)
    hidden = Column("_V$_expression_index_0", "VAR_STRING")
    assert prepared(sink, SHOP, (ID, NAME, hidden)).names == ("id", "name")


VERSIONS = (
    Column("id", "INT", length=11, nullable=False, is_pk=True),
    Column("name", "VARCHAR", length=50),
    Column("_valid_to", "DATETIME", scale=6),
    Column("_is_current", "TINYINT", length=1),
    Column("_commit_ts", "BIGINT", unsigned=True, nullable=False, is_pk=True),
)
MS = 1 << 18
Version = tuple[bool, int, str | None, int | None, int]
"""Whether it is a put, the key, the value, and when it ended and began in milliseconds."""


def versions(*rows: Version) -> pa.Table:
    found = []
    for put, key, value, ended, began in rows:
        time = None if ended is None else f"1970-01-01 00:00:00.{ended:03}000"
        found.append((put, (str(key), value, time, str(int(ended is None)), str(began * MS))))
    return changes(*found)


def test_a_delete_ends_the_version_that_is_current(sink: Sink) -> None:
    """Again and again, in any order with the puts, and in two parts."""
    step = ddl(
        Action.CREATE_TABLE,
        SHOP,
        2,
        "CREATE TABLE `item` (`id` INT,`name` VARCHAR(50),`_valid_to` DATETIME(6),`_is_current` TINYINT(1),"
        "`_commit_ts` BIGINT UNSIGNED,PRIMARY KEY (`id`,`_commit_ts`))",
        VERSIONS,
    )
    apply(sink, ddl(Action.CREATE_SCHEMA, TableName("shop", ""), 1, "CREATE DATABASE `shop`"), step)
    target = prepared(sink, SHOP, VERSIONS)
    target = replace(target, load=replace(target.load, mode=TableMode(ModeKind.HISTORY)))
    first = versions(
        (True, 1, "a", None, 10), (True, 2, "b", None, 10), (True, 3, "c", 12, 10), (False, 3, None, 0, 10)
    )
    second = versions(
        (False, 1, None, 0, 20), (True, 1, "d", 25, 20), (True, 1, "e", None, 25), (False, 2, None, 0, 21),
        (False, 3, None, 0, 22),
    )  # fmt: skip
    load(sink, target, first)
    for number in range(2):
        load(sink, target, second, window=Window(20, 30 + number))
    sink.rest()
    comparer = sink.comparer(prepared(sink, SHOP, VERSIONS))
    rows = (row for number in range(comparer.ranges) for table in comparer.held(number) for row in table.to_pylist())
    names = ("id", "name", "_valid_to", "_is_current", "_commit_ts")
    found = sorted(tuple(row[f"c{target.names.index(name)}"] for name in names) for row in rows)
    wanted = [("1", "a", 20, 10), ("1", "d", 25, 20), ("1", "e", None, 25), ("2", "b", 21, 10), ("3", "c", 12, 10)]
    assert [(key, name, plain_ms(ended), current, int(ts)) for key, name, ended, current, ts in found] == [
        (key, name, ended, str(int(ended is None)), began * MS) for key, name, ended, began in wanted
    ]


def plain_ms(time: str | None) -> int | None:
    return None if time is None else int(time.rpartition(".")[2][:6].ljust(6, "0")) // 1000
