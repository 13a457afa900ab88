"""Columns of the target that the rows do not have: what every implementation of ports.Sink does with their values."""

from __future__ import annotations

import random

import pytest

from consumer.errors import SchemaDrift
from consumer.model.columns import Column
from consumer.model.load import TableLoad
from consumer.model.progress import TableProgress
from consumer.model.steps import Window
from consumer.target import LoadRequest, Sink
from tests.contract.acts import (
    ID,
    LOG,
    LOG_COLUMNS,
    NAME,
    SHOP,
    UPSTREAM,
    Change,
    changes,
    create_item,
    create_log,
    load,
    prepared,
    write,
)
from tests.contract.targets import Cells, Target

NOTE = Column("note", "VARCHAR", length=20)


def filled(target: Target, sink: Sink, *rows: tuple[str, str | None], default: str | None = None) -> None:
    """`rows` in the item table, each with a note of its own: ``n`` and its id."""
    create_item(sink)
    load(sink, prepared(sink), changes(*((True, row) for row in rows)), window=Window(2, 5))
    sink.rest()  # between rounds: others cannot change the file of an embedded target before
    target.add_note(SHOP, default)
    whole = prepared(sink, columns=(ID, NAME, NOTE))
    load(sink, whole, changes(*((True, (*row, f"n{row[0]}")) for row in rows)), window=Window(5, 10))


def test_rows_keep_what_they_do_not_carry(target: Target, sink: Sink) -> None:
    filled(target, sink, ("1", "a"), ("2", "b"), ("3", "c"), default="none")
    shipped = prepared(sink)
    assert (shipped.names, shipped.extra_columns) == (("id", "name"), ("note",))
    load(sink, shipped, changes((True, ("1", "x")), (True, ("2", None)), (False, ("3", None)), (True, ("4", "d"))))
    assert target.rows(SHOP) == [("1", "x", "n1"), ("2", None, "n2"), ("4", "d", "none")]


def test_a_column_that_the_schema_file_lists_and_the_rows_lack(target: Target, sink: Sink) -> None:
    filled(target, sink, ("1", "a"))
    shipped = prepared(sink, columns=(ID, NAME, NOTE), absent=("note",))
    assert (shipped.names, shipped.extra_columns, shipped.load.absent) == (("id", "name"), ("note",), ("note",))
    load(sink, shipped, changes((True, ("1", "x")), (True, ("2", "b"))))
    assert target.rows(SHOP) == [("1", "x", "n1"), ("2", "b", None)]


def permuted(rnd: random.Random) -> tuple[list[Change], list[Cells]]:
    """Changes that move the unique names of 30 rows, drop some rows and add some; what must be there then."""
    names = [f"u{row}" for row in range(30)]
    rnd.shuffle(names)
    gone = set(rnd.sample(range(30), 5))
    rows = {row: name for row, name in enumerate(names) if row not in gone and rnd.random() < 0.9}
    untouched = {f"u{row}" for row in range(30) if row not in gone and row not in rows}
    rows = {row: None if name in untouched else name for row, name in rows.items()}
    rows |= {30: "new", 31: None}
    found: list[Change] = [(True, (str(row), name)) for row, name in rows.items()]
    found += [(False, (str(row), None)) for row in gone]
    rnd.shuffle(found)
    rows |= {row: f"u{row}" for row in range(30) if f"u{row}" in untouched}
    return found, [(str(row), name, f"n{row}" if row < 30 else None) for row, name in rows.items()]


@pytest.mark.parametrize("seed", range(4))
def test_unique_values_move_between_rows_that_keep_theirs(target: Target, sink: Sink, seed: int) -> None:
    rnd = random.Random(seed)
    filled(target, sink, *((str(row), f"u{row}") for row in range(30)))
    moved, wanted = permuted(rnd)
    shipped = prepared(sink)
    size = len(moved) if shipped.in_one_call else 7
    parts = [changes(*moved[start : start + size]) for start in range(0, len(moved), size)]
    write(sink.writer(), shipped, *parts[:1])
    sink.close()
    again = target.sink()
    again.acquire(UPSTREAM)
    load(again, prepared(again), *parts, *parts)
    again.close()
    assert sorted(target.rows(SHOP), key=str) == sorted(wanted, key=str)


def test_a_new_row_needs_a_value_for_every_column(target: Target, sink: Sink) -> None:
    create_item(sink)
    load(sink, prepared(sink), changes((True, ("1", "a"))), window=Window(2, 10))
    sink.rest()
    target.add_note(SHOP, required=True)
    load(sink, prepared(sink), changes((True, ("1", "b"))))
    with pytest.raises(SchemaDrift, match="note") as caught:
        load(sink, prepared(sink), changes((True, ("1", "c")), (True, ("2", "d"))), window=Window(20, 30))
    assert caught.value.table == str(SHOP)
    assert target.rows(SHOP) == [("1", "b", "")]
    assert sink.progress().table(SHOP) == TableProgress(20)


def test_rows_without_a_key_cannot_keep_anything(target: Target, sink: Sink) -> None:
    create_log(sink)
    sink.rest()
    target.add_note(LOG)
    (answer,) = sink.prepare([LoadRequest(TableLoad(LOG), LOG_COLUMNS)])
    assert isinstance(answer, SchemaDrift)
    assert answer.table == str(LOG)
