"""What ports.Sink promises of one writer: who may write, and who may no longer."""

from __future__ import annotations

import pickle

import pytest

from consumer.errors import ConsumerError, LeaseHeld
from consumer.model.actions import Action
from consumer.model.names import TableName
from consumer.model.progress import (
    ProgressChange,
)
from consumer.model.steps import Window
from consumer.target import Sink
from tests.contract.acts import (
    ID,
    NAME,
    SHOP,
    UPSTREAM,
    WINDOW,
    apply,
    changes,
    create_item,
    ddl,
    load,
    outcome,
    prepared,
    write,
)
from tests.contract.targets import Server, Target


@pytest.mark.usefixtures("sink")
def test_only_one_consumer_at_a_time(target: Target) -> None:
    with pytest.raises(LeaseHeld):
        target.sink().acquire(UPSTREAM)


def test_a_closed_sink_cannot_record(target: Target, sink: Sink) -> None:
    sink.close()
    with pytest.raises(ConsumerError):
        sink.record(ProgressChange(applied_ts=5))
    assert target.sink().progress().applied_ts == 0


def test_a_writer_crosses_processes(target: Target, sink: Sink) -> None:
    create_item(sink)
    writer, shipped = pickle.loads(pickle.dumps((sink.writer(), prepared(sink))))
    receipts = write(writer, shipped, changes((True, ("1", "a"))))
    sink.commit([outcome(shipped, receipts, Window(10, 20))], ProgressChange())
    assert target.rows(SHOP) == [("1", "a")]


def test_what_is_not_written_together_is_written_alone(target: Target, sink: Sink) -> None:
    create_item(sink)
    others = [TableName("shop", f"item{n}") for n in (1, 2)]
    apply(
        sink,
        *(
            ddl(
                Action.CREATE_TABLE,
                name,
                3,
                f"CREATE TABLE `{name.table}` (`id` INT PRIMARY KEY,`name` VARCHAR(50))",
                (ID, NAME),
            )
            for name in others
        ),
    )
    names = [SHOP, *others]
    parts = [(prepared(sink, name), changes((True, (str(n), f"row {n}")))) for n, name in enumerate(names)]
    with sink.writer().session() as session:
        receipts = [
            session.write(*part) if receipt is None else receipt
            for part, receipt in zip(parts, session.write_packed(parts), strict=True)
        ]
    done = [outcome(shipped, [receipt], WINDOW) for (shipped, _), receipt in zip(parts, receipts, strict=True)]
    sink.commit(done, ProgressChange())
    assert [target.rows(name) for name in names] == [[(str(n), f"row {n}")] for n in range(3)]


def test_a_locked_out_writer_cannot_publish(target: Target, sink: Sink) -> None:
    create_item(sink)
    shipped, writer = prepared(sink), sink.writer()
    sink.fence()
    with pytest.raises(LeaseHeld):
        sink.commit(
            [outcome(shipped, write(writer, shipped, changes((True, ("1", "late")))), Window(10, 20))],
            ProgressChange(),
        )
    assert target.rows(SHOP) == []
    load(sink, shipped, changes((True, ("1", "a"))))
    assert target.rows(SHOP) == [("1", "a")]


def test_what_was_staged_before_the_fence_is_not_published_by_itself(target: Target, sink: Sink) -> None:
    if isinstance(target, Server):
        pytest.skip("writers to a server stage nothing")
    create_item(sink)
    shipped = prepared(sink)
    receipts = write(sink.writer(), shipped, changes((True, ("1", "late"))))
    sink.fence()
    with pytest.raises(LeaseHeld):
        sink.commit([outcome(shipped, receipts, Window(10, 20))], ProgressChange())
    assert target.rows(SHOP) == []


def test_a_writer_of_an_earlier_holder_cannot_publish(target: Target, sink: Sink) -> None:
    create_item(sink)
    shipped, writer = prepared(sink), sink.writer()
    sink.close()
    heir = target.sink()
    heir.acquire(UPSTREAM)
    with pytest.raises(LeaseHeld):
        heir.commit(
            [outcome(shipped, write(writer, shipped, changes((True, ("1", "late")))), Window(10, 20))],
            ProgressChange(),
        )
    heir.close()
    assert target.rows(SHOP) == []


def test_an_ended_writer_comes_too_late_and_what_it_staged_counts(target: Target, sink: Sink) -> None:
    create_item(sink)
    shipped, writer, other = prepared(sink), sink.writer(), sink.writer()
    receipts = write(writer, shipped, changes((True, ("1", "a"))))
    sink.end(writer)
    with pytest.raises(LeaseHeld):
        write(writer, shipped, changes((True, ("1", "late"))))
    sink.commit([outcome(shipped, receipts, Window(10, 20))], ProgressChange())
    assert target.rows(SHOP) == [("1", "a")]
    receipts = write(other, shipped, changes((True, ("2", "b"))))
    sink.end(other)
    sink.commit([outcome(shipped, receipts, Window(20, 30))], ProgressChange())
    assert target.rows(SHOP) == [("1", "a"), ("2", "b")]


def test_a_writer_that_is_made_after_an_end_is_not_the_ended_one(target: Target, sink: Sink) -> None:
    create_item(sink)
    shipped = prepared(sink)
    for number in range(3):
        late = sink.writer()
        sink.end(late)
        writer = sink.writer()
        receipts = write(writer, shipped, changes((True, ("1", str(number)))))
        with pytest.raises(LeaseHeld):
            write(late, shipped, changes((True, ("1", "late"))))
        sink.end(writer)
        sink.commit([outcome(shipped, receipts, Window(10, 20))], ProgressChange())
        assert target.rows(SHOP) == [("1", str(number))]
