"""What texts and tables of an odd shape cost: no more than their size."""

from __future__ import annotations

import time

import numpy as np

from consumer.codec.canal_json.changes import ChangeBuilder
from consumer.codec.canal_json.errors import RowLines
from consumer.codec.canal_json.rows import RowParser
from consumer.codec.change_table import Origin, change_schema
from consumer.codec.errors import FileCoordinates
from consumer.codec.lines import Block
from consumer.model.columns import Column
from consumer.model.load import Dialect
from tests.support.canal_json import row_line, target_of
from tests.support.decoding import ID, KEYED, V


def test_a_text_full_of_what_could_be_a_null_behind_an_object() -> None:
    """Each line is looked at once for it: a megabyte took a minute when it was looked at once a place."""
    lines = row_line("INSERT", {"id": "1", "v": "}null," * (1 << 18)}, commit_ts=1) + b"\n"
    started = time.process_time()
    assert RowParser(KEYED).parse(lines * 2).count == 2
    assert time.process_time() - started < 20


class _CountedLines(RowLines):
    looked_at = 0

    def row(self, row: int) -> dict[str, object]:
        self.looked_at += 1
        return super().row(row)


def test_a_row_is_looked_at_once_however_many_of_its_columns_are_always_null() -> None:
    columns = [ID, *(Column(f"c{n}", "INT") for n in range(200))]
    line = row_line("INSERT", {"id": "1", **{f"c{n}": None for n in range(200)}}, commit_ts=1)
    target = target_of(columns)
    block, place = Block((line + b"\n") * 10, 0), FileCoordinates("p", "d.t")
    lines = _CountedLines(block, lambda _: 1, place)
    rows = RowParser(target).parse(block.text)
    origin = Origin(np.zeros(10, np.int64), np.arange(10))
    changes = ChangeBuilder(target, place, Dialect().clock, ()).changes(rows, np.ones(10, np.bool_), origin, lines)
    assert changes.num_rows == 10
    assert lines.looked_at == 1


def test_values_may_take_more_than_two_gigabytes_of_one_column() -> None:
    """Small types of Arrow end there, when values are brought together; the large ones do not."""
    schema = change_schema(target_of([ID, V, Column("b", "BLOB")]))
    assert [str(schema.field(f"c{n}").type) for n in range(3)] == ["large_string", "large_string", "large_binary"]
