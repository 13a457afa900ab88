"""What a column's values become in a replica: what TiDB made of them, or the statement is refused."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from consumer.model.actions import Action
from consumer.model.columns import Column
from consumer.model.names import TableName
from tests.support.conversions import by_type, computed, pairs, same, shown
from tests.unit.sink.duckdb.replica import ID, Replica

TYPES = by_type(pair for pair in pairs() if not pair.refused)


@pytest.mark.parametrize("type_", TYPES)
def test_each_value_is_tidbs(type_: str, replica: Replica) -> None:
    """A column for each type behind, all by one statement."""
    told = {f"c{number}": (pair, computed(pair)) for number, pair in enumerate(TYPES[type_])}
    old, new = ([ID], [ID])
    for name, (pair, _) in told.items():
        old.append(replace(pair.old, name=name))
        new.append(replace(pair.new, name=name))
    most = max(len(values) for _, values in told.values())
    columns = [[measured.before for measured, _ in values] for _, values in told.values()]
    rows = zip(map(str, range(most)), *(values + [None] * (most - len(values)) for values in columns), strict=True)
    replica.put(old, list(rows))
    clauses = ", ".join(f"MODIFY COLUMN `{name}` {pair.behind}" for name, (pair, _) in told.items())
    assert replica.apply(Action.MULTI_SCHEMA_CHANGE, f"ALTER TABLE `t` {clauses}", tuple(new)) == ""
    found = replica.rows()
    assert len(found) == most
    for at, (pair, values) in enumerate(told.values(), 1):
        for row, (measured, _) in zip(found, values, strict=False):
            assert same(pair.new, shown(pair.new, row[at]), measured.behind), (str(pair), measured.text, row[at])
        assert all(row[at] is None for row in found[len(values) :])


def test_behind_a_refused_statement_others_convert_values(tmp_path: Path) -> None:
    """In the same connection, by a function of the same name."""
    replica = Replica(tmp_path)
    old, new = Column("c", "VARCHAR", length=9), Column("c", "INT")
    for at, text in enumerate(("x", "1e3")):
        table = TableName("d", f"t{at}")
        replica.put((ID, old), [("1", text)], table)
        outcome = replica.execute(Action.MODIFY_COLUMN, f"ALTER TABLE t{at} MODIFY c INT", (ID, new), table=table)
        assert (outcome.error is None) == bool(at)
    assert replica.rows(TableName("d", "t1")) == [(1, 1000)]
    replica.sink.close()
