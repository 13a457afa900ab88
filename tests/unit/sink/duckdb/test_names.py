"""Names of columns that DuckDB, or the statements that merge rows, know as something else."""

from __future__ import annotations

import pyarrow as pa
import pytest

from consumer.model.columns import Column
from consumer.model.load import Dialect, LoadOutcome, LoadTask
from consumer.model.progress import ProgressChange
from consumer.model.steps import Window
from tests.unit.sink.duckdb.replica import ID, TABLE, Replica

V = Column("v", "INT")
TAKEN = ("rowid", "ROWID", "n", "put", "net", "t", "s", "v0", "v1", "k0", "h0", "there", "stays", "found", "completed")
"""DuckDB's own name for a row's place, and what the merge calls its parts."""


def write_net(replica: Replica, columns: tuple[Column, ...], *rows: tuple[int, str | None, str | None]) -> None:
    """Rows of a table with no key: how many copies more or fewer, then the values of both columns."""
    target = replica.target(columns)
    n, first, second = zip(*rows, strict=True)
    changes = pa.table({"n": pa.array(n), "c0": pa.array(first, pa.string()), "c1": pa.array(second, pa.string())})
    with replica.sink.writer().session() as session:
        receipt = session.write_multiset(target, changes, Window(1, 2))
    task = LoadTask(0, target, Window(1, 2), (), Dialect())
    replica.sink.commit([LoadOutcome(task, (), (receipt,))], ProgressChange())


@pytest.mark.parametrize("name", TAKEN)
def test_a_table_with_no_key_loses_the_asked_copies_whatever_a_column_is_called(replica: Replica, name: str) -> None:
    columns = (Column(name, "INT"), V)
    write_net(replica, columns, (3, "1", "1"), (1, "1", "2"), (1, None, "3"), (2, "1", None))
    write_net(replica, columns, (-2, "1", "1"), (-1, None, "3"), (-1, "1", None), (1, "7", "7"))
    assert replica.rows() == [(1, 1), (1, 2), (1, None), (7, 7)]


@pytest.mark.parametrize("name", TAKEN)
def test_a_row_keeps_a_column_of_the_replica_whatever_the_others_are_called(replica: Replica, name: str) -> None:
    columns = (ID, Column(name, "INT"), V)
    replica.put(columns, [("1", None, "1"), ("2", "2", "2")])
    replica.query(f'ALTER TABLE {TABLE} ADD COLUMN "mine" INT DEFAULT 0')
    replica.query(f'UPDATE {TABLE} SET "mine" = 7')
    replica.put(columns, [("1", None, "9"), ("3", None, "3")])
    assert replica.rows() == [(1, None, 9, 7), (2, 2, 2, 7), (3, None, 3, 0)]


@pytest.mark.parametrize("name", TAKEN)
def test_the_replicas_own_column_may_be_called_so_too(replica: Replica, name: str) -> None:
    columns = (ID, Column("w", "INT"))
    replica.put(columns, [("1", "1")])
    replica.query(f'ALTER TABLE {TABLE} ADD COLUMN "{name}" INT DEFAULT 0')
    replica.query(f'UPDATE {TABLE} SET "{name}" = 7')
    replica.put(columns, [("1", "9"), ("3", "3")])
    assert replica.rows() == [(1, 9, 7), (3, 3, 0)]
