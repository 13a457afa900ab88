"""What ports.Sink promises, asked of every implementation as the pipeline would ask."""

from __future__ import annotations

import itertools
import pickle
import random
from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pytest

from consumer.errors import CannotBeExact, ConsumerError, LeaseHeld, TableMissing, WrongUpstream
from consumer.model.actions import Action
from consumer.model.columns import Column
from consumer.model.files import Folder, SchemaFile
from consumer.model.load import Dialect, LoadOutcome, LoadTarget, LoadTask, Receipt
from consumer.model.names import TableName
from consumer.model.progress import (
    AuditRow,
    DdlId,
    DdlRecord,
    DdlState,
    FolderProgress,
    OpenFile,
    Progress,
    ProgressChange,
    State,
    TableProgress,
)
from consumer.model.steps import ApplyDdl, Window
from consumer.ports import LoadRequest, Sink, Writer
from tests.contract.targets import DuckDb, Memory, Server, Target

UPSTREAM = "s3://bucket/prefix"
ID = Column("id", "INT", length=11, nullable=False, is_pk=True)
NAME = Column("name", "VARCHAR", length=50)
SHOP = TableName("shop", "item")
LOG = TableName("shop", "log")
WINDOW = Window(10, 20)
Change = tuple[bool, tuple[str | None, ...]]

_labels = itertools.count()


@pytest.fixture(params=["memory", "duckdb", "mariadb"])
def target(request: pytest.FixtureRequest, tmp_path: Path) -> Target:
    match request.param:
        case "memory":
            return Memory(f"contract{next(_labels)}")
        case "duckdb":
            return DuckDb(tmp_path / "replica.duckdb")
        case _:
            return Server(request.getfixturevalue("fresh_mariadb"))


@pytest.fixture
def sink(target: Target) -> Iterator[Sink]:
    sink = target.sink()
    sink.acquire(UPSTREAM)
    yield sink
    sink.close()


def ddl(
    action: Action,
    table: TableName,
    version: int,
    query: str,
    columns: Sequence[Column] = (),
    old_name: TableName | None = None,
) -> ApplyDdl:
    root = f"{table.database}/{table.table}" if table.table else table.database
    path = f"{root}/meta/schema_{version}_0000000007.json"
    file = SchemaFile(path, root, table.database, table.table, version, 7, query, action, tuple(columns))
    gone = {old_name: TableProgress(version, State.DROPPED)} if old_name else {}
    dropped = action == Action.DROP_TABLE
    own = {table: TableProgress(version, State.DROPPED if dropped else State.OK)} if table.table else {}
    touches = tuple(filter(None, (table if table.table else None, old_name)))
    before = ProgressChange(tables={name: TableProgress(version) for name in touches})
    return ApplyDdl(file, touches, before, ProgressChange(tables={**own, **gone}), old_name)


def apply(sink: Sink, *steps: ApplyDdl) -> None:
    for step in steps:
        (outcome,) = sink.apply_ddls([step], {})
        assert outcome.error is None, outcome.error


def create_item(sink: Sink) -> None:
    apply(
        sink,
        ddl(Action.CREATE_SCHEMA, TableName("shop", ""), 1, "CREATE DATABASE `shop`"),
        ddl(
            Action.CREATE_TABLE,
            SHOP,
            2,
            "CREATE TABLE `item` (`id` INT PRIMARY KEY,`name` VARCHAR(50),UNIQUE KEY `u`(`name`))",
            (ID, NAME),
        ),
    )


def create_log(sink: Sink) -> None:
    apply(
        sink,
        ddl(Action.CREATE_SCHEMA, TableName("shop", ""), 1, "CREATE DATABASE `shop`"),
        ddl(Action.CREATE_TABLE, LOG, 3, "CREATE TABLE `log` (`a` INT,`b` VARCHAR(50))", LOG_COLUMNS),
    )


LOG_COLUMNS = (Column("a", "INT", length=11), Column("b", "VARCHAR", length=50))


def prepared(sink: Sink, table: TableName = SHOP, columns: Sequence[Column] = (ID, NAME)) -> LoadTarget:
    (answer,) = sink.prepare([LoadRequest(table, tuple(columns))])
    assert isinstance(answer, LoadTarget), answer
    return answer


def changes(*rows: Change) -> pa.Table:
    width = len(rows[0][1])
    columns = {f"c{at}": pa.array([values[at] for _, values in rows], pa.string()) for at in range(width)}
    count = len(rows)
    return pa.table(
        {
            "ts": pa.array([5] * count, pa.int64()),
            "put": pa.array([put for put, _ in rows], pa.bool_()),
            "series": pa.array([0] * count, pa.int32()),
            "rank": pa.array(range(count), pa.int64()),
            **columns,
        }
    )


def net(*rows: tuple[int, tuple[str | None, ...]]) -> pa.Table:
    columns = {f"c{at}": pa.array([values[at] for _, values in rows], pa.string()) for at in range(len(rows[0][1]))}
    return pa.table({"n": pa.array([count for count, _ in rows], pa.int64()), **columns})


def write(writer: Writer, target: LoadTarget, *tables: pa.Table) -> tuple[Receipt, ...]:
    with writer.session() as session:
        return tuple(session.write(target, table) for table in tables)


def outcome(target: LoadTarget, receipts: Sequence[Receipt], window: Window) -> LoadOutcome:
    return LoadOutcome(LoadTask(0, target, window, (), Dialect()), (), tuple(receipts))


def load(sink: Sink, target: LoadTarget, *tables: pa.Table, window: Window = WINDOW) -> None:
    receipts = write(sink.writer(), target, *tables)
    sink.commit([outcome(target, receipts, window)], ProgressChange(tables={target.table: TableProgress(window.upto)}))


def load_net(sink: Sink, target: LoadTarget, table: pa.Table, window: Window) -> Receipt:
    with sink.writer().session() as session:
        receipt = session.write_multiset(target, table, window)
    sink.commit([outcome(target, [receipt], window)], ProgressChange(tables={LOG: TableProgress(window.upto)}))
    return receipt


FOLDER = Folder("shop/item", 2, "7", "2026-11-21", "12345")
CHANGE = ProgressChange(
    applied_ts=470611625733521409,
    tables={
        SHOP: TableProgress(1 << 62, State.STOPPED, "it's \\ broken\nhere", "resync `x` — 数据"),
        LOG: TableProgress(7, State.EXCLUDED),
        TableName("shop", "Gone"): TableProgress(9, State.DROPPED),
    },
    folders={
        FOLDER: FolderProgress(12, 5_000_000_000, '"etag"', (OpenFile(14, 470611625733521410, 3, "s"),)),
        Folder("shop/log", 2): FolderProgress(),
    },
    ddls=(
        DdlRecord(DdlId("shop", "item", 2, 4_294_967_295), DdlState.SKIPPED, "before", "done by hand"),
        DdlRecord(DdlId("shop", "", 1, 0), DdlState.INTENT, "{}"),
        DdlRecord(DdlId("shop", "", 1, 0), DdlState.DONE),
    ),
    audit=(AuditRow("load", SHOP, 1, 2, 3, 4, 5, 6, "text"),),
)


def test_progress_is_empty_before_the_first_run(target: Target) -> None:
    assert target.sink().progress() == Progress()


def test_every_field_of_progress_survives(target: Target, sink: Sink) -> None:
    sink.record(CHANGE)
    wanted = Progress(upstream=UPSTREAM).after(CHANGE)
    assert sink.progress() == wanted
    sink.close()
    again = target.sink()
    assert again.progress() == wanted
    assert again.acquire(UPSTREAM) == wanted
    again.close()


def test_later_progress_replaces_and_removes(sink: Sink) -> None:
    sink.record(CHANGE)
    second = ProgressChange(
        tables={SHOP: None, LOG: TableProgress(8)},
        folders={FOLDER: None, Folder("shop/log", 2): FolderProgress(1, 2, "x")},
        ddls=(DdlRecord(DdlId("shop", "item", 2, 1), DdlState.DONE),),
        forget_ddls=(DdlId("shop", "", 1, 0),),
    )
    sink.record(second)
    assert sink.progress() == Progress(upstream=UPSTREAM).after(CHANGE).after(second)


def test_consumer_names_keep_progress_apart(target: Target, sink: Sink) -> None:
    sink.record(ProgressChange(applied_ts=5))
    sink.close()
    other = target.sink("other")
    assert other.acquire("file:///elsewhere") == Progress(upstream="file:///elsewhere")
    other.close()


def test_another_upstream_is_refused(target: Target, sink: Sink) -> None:
    sink.close()
    other = target.sink()
    with pytest.raises(WrongUpstream):
        other.acquire("s3://bucket/another")
    other.close()
    assert target.sink().acquire(UPSTREAM).upstream == UPSTREAM


@pytest.mark.usefixtures("sink")
def test_only_one_consumer_at_a_time(target: Target) -> None:
    with pytest.raises(LeaseHeld):
        target.sink().acquire(UPSTREAM)


def test_a_closed_sink_cannot_record(target: Target, sink: Sink) -> None:
    sink.close()
    with pytest.raises(ConsumerError):
        sink.record(ProgressChange(applied_ts=5))
    assert target.sink().progress().applied_ts == 0


def test_rows_and_progress_arrive_together(target: Target, sink: Sink) -> None:
    create_item(sink)
    load(sink, prepared(sink), changes((True, ("1", "a")), (True, ("2", None))))
    assert target.rows(SHOP) == [("1", "a"), ("2", None)]
    assert sink.progress().table(SHOP) == TableProgress(20)
    assert sink.has_rows([SHOP, LOG]) == [SHOP]


def test_receipts_count_puts_and_deletes(sink: Sink) -> None:
    create_item(sink)
    (receipt,) = write(sink.writer(), prepared(sink), changes((True, ("1", "a")), (False, ("2", None))))
    assert (receipt.puts, receipt.deletes) == (1, 1)


def test_a_failed_outcome_is_not_published(target: Target, sink: Sink) -> None:
    create_item(sink)
    failed = LoadOutcome(LoadTask(0, prepared(sink), Window(10, 20), (), Dialect()), (), (), TableMissing("gone"))
    sink.commit([failed], ProgressChange())
    assert target.rows(SHOP) == []


def test_a_writer_crosses_processes(target: Target, sink: Sink) -> None:
    create_item(sink)
    writer, shipped = pickle.loads(pickle.dumps((sink.writer(), prepared(sink))))
    receipts = write(writer, shipped, changes((True, ("1", "a"))))
    sink.commit([outcome(shipped, receipts, Window(10, 20))], ProgressChange())
    assert target.rows(SHOP) == [("1", "a")]


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


def test_statements_between_rows(target: Target, sink: Sink) -> None:
    create_item(sink)
    load(sink, prepared(sink), changes((True, ("1", "a"))))
    added = (ID, NAME, Column("n", "INT", length=11, default="7", nullable=False))
    apply(sink, ddl(Action.ADD_COLUMN, SHOP, 21, "ALTER TABLE `item` ADD COLUMN `n` INT NOT NULL DEFAULT 7", added))
    load(sink, prepared(sink, SHOP, added), changes((True, ("2", "b", "9"))), window=Window(21, 30))
    assert target.rows(SHOP) == [("1", "a", "7"), ("2", "b", "9")]

    renamed = TableName("shop", "goods")
    query = "RENAME TABLE `shop`.`item` TO `shop`.`goods`"
    apply(sink, ddl(Action.RENAME_TABLE, renamed, 31, query, added, old_name=SHOP))
    assert target.rows(renamed) == [("1", "a", "7"), ("2", "b", "9")]
    assert sink.progress().tables[SHOP] == TableProgress(31, State.DROPPED)

    apply(sink, ddl(Action.TRUNCATE_TABLE, renamed, 32, "TRUNCATE TABLE `goods`", added))
    assert target.rows(renamed) == []
    load(sink, prepared(sink, renamed, added), changes((True, ("2", "b", "1"))), window=Window(32, 40))
    assert target.rows(renamed) == [("2", "b", "1")]

    columns = (ID, Column("n", "INT", length=11, default="7", nullable=False), Column("title", "VARCHAR", length=50))
    moved = "ALTER TABLE `goods` CHANGE COLUMN `name` `title` VARCHAR(50) AFTER `n`"
    apply(sink, ddl(Action.MODIFY_COLUMN, renamed, 41, moved, columns))
    assert target.rows(renamed) == [("2", "1", "b")]
    apply(sink, ddl(Action.DROP_COLUMN, renamed, 42, "ALTER TABLE `goods` DROP COLUMN `n`", (ID, columns[2])))
    assert target.rows(renamed) == [("2", "b")]

    apply(sink, ddl(Action.DROP_TABLE, renamed, 50, "DROP TABLE `shop`.`goods`", (ID, columns[2])))
    assert sink.has_rows([renamed]) == []
    apply(sink, ddl(Action.DROP_SCHEMA, TableName("shop", ""), 51, "DROP DATABASE `shop`"))
    assert sink.progress().ddls[DdlId("shop", "", 51, 7)].state is DdlState.DONE


def test_a_statement_is_recorded_with_its_progress(sink: Sink) -> None:
    create_item(sink)
    found = sink.progress()
    assert found.ddls[DdlId("shop", "item", 2, 7)].state is DdlState.DONE
    assert found.table(SHOP) == TableProgress(2)


def test_a_refused_statement_is_not_recorded(target: Target, sink: Sink) -> None:
    create_item(sink)
    load(sink, prepared(sink), changes((True, ("1", "a"))))
    again = ddl(Action.CREATE_TABLE, SHOP, 25, "CREATE TABLE `item` (`id` INT PRIMARY KEY)", (ID,))
    (refused,) = sink.apply_ddls([again], {})
    assert refused.error is not None
    assert refused.error.exit_code == 5
    assert refused.error.table == str(SHOP)
    record = sink.progress().ddls.get(again.id)
    assert record is None or record.state is not DdlState.DONE
    assert target.rows(SHOP) == [("1", "a")]


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


def test_a_table_that_the_target_lacks(target: Target, sink: Sink) -> None:
    (answer,) = sink.prepare([LoadRequest(SHOP, (ID, NAME))])
    if not target.creates_tables:
        assert isinstance(answer, TableMissing)
        return
    assert isinstance(answer, LoadTarget)
    load(sink, answer, changes((True, ("1", "a"))))
    assert target.rows(SHOP) == [("1", "a")]


def test_requests_are_answered_in_order(sink: Sink) -> None:
    create_item(sink)
    create_log(sink)
    answers = sink.prepare([LoadRequest(LOG, LOG_COLUMNS), LoadRequest(SHOP, (ID, NAME))])
    assert [answer.table for answer in answers if isinstance(answer, LoadTarget)] == [LOG, SHOP]
    assert [answer.key for answer in answers if isinstance(answer, LoadTarget)] == [(), (0,)]


def test_hidden_columns_are_no_part_of_rows(sink: Sink) -> None:
    create_item(sink)
    hidden = Column("_V$_expression_index_0", "VAR_STRING")
    assert prepared(sink, SHOP, (ID, NAME, hidden)).names == ("id", "name")


def test_an_emptied_table_starts_again(target: Target, sink: Sink) -> None:
    create_item(sink)
    load(sink, prepared(sink), changes((True, ("1", "a"))))
    record = DdlId("shop", "item", 2, 7)
    sink.empty_table(SHOP, ProgressChange(tables={SHOP: TableProgress(0)}, forget_ddls=(record,)))
    assert sink.has_rows([SHOP]) == []
    assert record not in sink.progress().ddls
    create_item(sink)
    load(sink, prepared(sink), changes((True, ("2", "b"))))
    assert target.rows(SHOP) == [("2", "b")]
