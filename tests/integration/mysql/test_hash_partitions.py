"""HASH of a NULL: partition 0 upstream, another one on a server that is not TiDB."""

from __future__ import annotations

from dataclasses import replace

import pytest

from consumer.errors import DdlRefused
from consumer.model.actions import Action
from consumer.model.steps import TableBefore
from consumer.model.table_definition import Partition, Partitioning, PartitionKind
from tests.integration.mysql.steps import acquired, ddl
from tests.servers import MariaDb


def of_hash(count: int) -> Partitioning:
    return Partitioning(PartitionKind.HASH, ("`a` + 1",), tuple(Partition(f"p{n}") for n in range(count)))


@pytest.mark.parametrize(("count", "value", "left"), [(3, "NULL", None), (3, "2", 1), (4, "NULL", 1)])
def test_rows_that_the_server_has_elsewhere_are_not_truncated(
    fresh_mariadb: MariaDb, count: int, value: str, left: int | None
) -> None:
    """`left`: the rows that stay of two in partitions 0 and 1 (a = -1 is in 0), None where it is refused."""
    fresh_mariadb.execute(
        "CREATE DATABASE d",
        f"CREATE TABLE d.t (a INT) PARTITION BY HASH (a + 1) PARTITIONS {count}",
        f"INSERT INTO d.t VALUES ({value}), (0)",
        "INSERT INTO d.t VALUES (-1)" if value != "NULL" else "DO 0",
    )
    sink = acquired(fresh_mariadb)
    try:
        step = ddl(Action.TRUNCATE_PARTITION, "d", "t", 10, "ALTER TABLE `t` TRUNCATE PARTITION `p0`")
        (outcome,) = sink.apply_ddls([replace(step, table_before=TableBefore(partitioning=of_hash(count)))], {})
    finally:
        sink.close()
    rows = fresh_mariadb.execute("SELECT COUNT(*) FROM d.t")[0][0]
    if left is None:
        assert isinstance(outcome.error, DdlRefused)
        assert "HASH is NULL" in outcome.error.message
        assert rows == 2
    else:
        assert outcome.error is None
        assert rows == left
