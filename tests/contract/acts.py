"""What a pipeline does with a sink, in short: statements, change tables, writes and commits."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from consumer.model.actions import Action
from consumer.model.columns import Column
from consumer.model.files import SchemaFile
from consumer.model.load import Dialect, LoadOutcome, LoadTarget, LoadTask, Receipt, TableLoad
from consumer.model.names import TableName
from consumer.model.progress import ProgressChange, State, TableProgress
from consumer.model.steps import ApplyDdl, Window
from consumer.target import LoadRequest, Sink, Writer

UPSTREAM = "s3://bucket/prefix"
ID = Column("id", "INT", length=11, nullable=False, is_pk=True)
NAME = Column("name", "VARCHAR", length=50)
SHOP = TableName("shop", "item")
LOG = TableName("shop", "log")
WINDOW = Window(10, 20)
Change = tuple[bool, tuple[str | None, ...]]


def ddl(
    action: int,
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


def prepared(
    sink: Sink, table: TableName = SHOP, columns: Sequence[Column] = (ID, NAME), absent: tuple[str, ...] = ()
) -> LoadTarget:
    told = frozenset([frozenset(["name"])])
    (answer,) = sink.prepare([LoadRequest(TableLoad(table, absent=absent), tuple(columns), known_unique=told)])
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
    sink.commit([outcome(target, receipts, window)], ProgressChange(tables={target.table: TableProgress(window.end)}))


def load_net(sink: Sink, target: LoadTarget, table: pa.Table, window: Window) -> Receipt:
    with sink.writer().session() as session:
        receipt = session.write_multiset(target, table, window)
    sink.commit([outcome(target, [receipt], window)], ProgressChange(tables={LOG: TableProgress(window.end)}))
    return receipt
