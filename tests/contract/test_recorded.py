"""What a call of a target's ports has recorded, it tells: nothing less, and nothing more."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from consumer.errors import TableMissing
from consumer.model.actions import Action
from consumer.model.names import TableName
from consumer.model.progress import AuditRow, DdlId, ProgressChange, State, TableProgress
from consumer.model.steps import Window
from consumer.target import Sink
from tests.contract.acts import (
    ID,
    LOG,
    LOG_COLUMNS,
    NAME,
    SHOP,
    changes,
    create_item,
    create_log,
    ddl,
    net,
    outcome,
    prepared,
    write,
)
from tests.contract.targets import Server, Target

WINDOW = Window(10, 20)
LATER = ProgressChange(tables={SHOP: TableProgress(20)}, audit=(AuditRow("load", SHOP, 10, 20, puts=1),))


def _commit(sink: Sink) -> ProgressChange:
    item = prepared(sink)
    return sink.commit([outcome(item, write(sink.writer(), item, changes((True, ("1", "a")))), WINDOW)], LATER)


def _record(sink: Sink) -> ProgressChange:
    return sink.record(ProgressChange(applied_ts=9, tables={SHOP: TableProgress(30, State.STOPPED, "why", "do")}))


def _empty(sink: Sink) -> ProgressChange:
    gone = ProgressChange(tables={SHOP: TableProgress(0)}, forget_ddls=(DdlId("shop", "item", 2, 7),), rewind=True)
    return sink.empty_table(SHOP, gone)


def _execute(sink: Sink) -> ProgressChange:
    (done,) = sink.apply_ddls([ddl(Action.TRUNCATE_TABLE, SHOP, 25, "TRUNCATE TABLE `item`", (ID, NAME))], {})
    return done.recorded


@pytest.mark.parametrize("act", [_commit, _record, _empty, _execute])
def test_what_was_recorded_is_told(act: Callable[[Sink], ProgressChange], sink: Sink) -> None:
    create_item(sink)
    before = sink.progress()
    recorded = act(sink)
    assert sink.progress() == before.after(recorded)
    assert sink.progress() != before


def test_who_takes_the_target_or_begins_anew_is_told_its_progress(target: Target, sink: Sink) -> None:
    create_item(sink)
    _commit(sink)
    assert sink.fence() == sink.progress()
    sink.close()
    heir = target.sink()
    assert heir.acquire("s3://bucket/prefix") == heir.progress()
    assert heir.progress().table(SHOP).applied_ts == 20
    heir.close()


def test_a_commit_can_be_made_again_without_the_table_that_it_failed_for(target: Target, sink: Sink) -> None:
    if isinstance(target, Server):
        pytest.skip("writers to a server stage nothing, so a commit has nothing to find wrong with a table")
    create_item(sink)
    create_log(sink)
    item, log = prepared(sink), prepared(sink, LOG, LOG_COLUMNS)
    with sink.writer().session() as session:
        first = session.write(item, changes((True, ("1", "a"))))
        second = session.write_multiset(log, net((2, ("1", "a"))), WINDOW)
    _drop(sink, LOG)
    before, both = sink.progress(), ProgressChange(tables={SHOP: TableProgress(20), LOG: TableProgress(20)})
    with pytest.raises(TableMissing) as caught:
        sink.commit([outcome(item, [first], WINDOW), outcome(log, [second], WINDOW)], both)
    assert caught.value.table == str(LOG)
    assert (sink.progress(), target.rows(SHOP)) == (before, [])
    sink.commit([outcome(item, [first], WINDOW)], LATER)
    assert (sink.progress(), target.rows(SHOP)) == (before.after(LATER), [("1", "a")])


def _drop(sink: Sink, table: TableName) -> None:
    sink.empty_table(table, ProgressChange())


def test_a_target_rests_between_two_calls(target: Target, sink: Sink) -> None:
    create_item(sink)
    _commit(sink)
    sink.rest()
    sink.rest()
    assert target.rows(SHOP) == [("1", "a")]
    _record(sink)
    assert sink.progress().table(SHOP).applied_ts == 30
