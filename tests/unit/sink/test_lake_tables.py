"""How rows fit the tables of a lake."""

from __future__ import annotations

import pytest

from consumer.errors import SchemaDrift
from consumer.model.columns import Column
from consumer.model.load import LoadTarget, TableLoad
from consumer.model.names import TableName
from consumer.sink.columnar.table import ReplicaTable, Upstream, duckdb_type
from consumer.sink.lake.progress import LakeTable
from consumer.sink.lake.tables import load_target
from consumer.target import LoadRequest

NAME = TableName("d", "t")
KEY = Column("id", "INT", nullable=False, is_pk=True)


def enum(*labels: str) -> Column:
    return Column("e", "ENUM", elements=labels)


def asked(*labels: str) -> LoadTarget | Exception:
    """Of a table that was made with the labels a and b, for rows whose schema file has `labels`."""
    columns = (KEY, enum("a", "b"))
    replica = ReplicaTable(NAME, {column.name: duckdb_type(column) for column in columns}, Upstream(columns))
    request = LoadRequest(TableLoad(NAME), (KEY, enum(*labels)), labels={"e": labels})
    return load_target(request, {NAME: LakeTable(replica, "place")})


def test_labels_that_came_behind_the_others_are_known() -> None:
    target = asked("a", "b", "c")
    assert isinstance(target, LoadTarget)
    assert target.columns[1].elements == ("a", "b", "c")


@pytest.mark.parametrize("labels", [("b", "a"), ("c", "a", "b")])
def test_labels_in_another_order_stop_the_table(labels: tuple[str, ...]) -> None:
    error = asked(*labels)
    assert isinstance(error, SchemaDrift)
    assert "load-export" in error.hint
