"""What the log and the result hold of a run's notes."""

from __future__ import annotations

from pathlib import Path

import pytest

from consumer.model.events import Note, NoteKind
from consumer.model.names import TableName
from consumer.observe.logs import Log, LogSettings
from consumer.observe.notes import Notes

SHOP = TableName("d", "shop")


class Written:
    def __init__(self, file: Path) -> None:
        self._file = file
        self.log = Log(LogSettings(file=str(file)))

    @property
    def text(self) -> str:
        return self._file.read_text(encoding="utf-8")


@pytest.fixture
def written(tmp_path: Path) -> Written:
    return Written(tmp_path / "log")


def _lost(count: int) -> Note:
    return Note(NoteKind.LOST_TEXT, f"d.shop: {count} values", SHOP, count)


def test_counts_of_a_table_add_up_to_one_note(written: Written) -> None:
    notes = Notes(written.log)
    for count in (3, 1, 1, 1, 2, 9):
        notes.tell(_lost(count))
    assert notes.texts == ["d.shop: 9 values; 17 such values in this run so far"]
    lines = [line.partition(" warning ")[2] for line in written.text.splitlines()]
    so_far = [line.partition("; ")[2] for line in lines]
    assert so_far == ["", "6 such values in this run so far", "17 such values in this run so far"], "as it has doubled"


def test_each_table_has_its_own(written: Written) -> None:
    notes = Notes(written.log)
    notes.tell(_lost(3))
    notes.tell(Note(NoteKind.LOST_TEXT, "d.other: 2 values", TableName("d", "other"), 2))
    assert notes.texts == ["d.shop: 3 values", "d.other: 2 values"]


def test_a_note_that_is_told_every_round_is_one_line(written: Written) -> None:
    notes = Notes(written.log, most=3)
    for number in range(10):
        notes.tell(Note(NoteKind.UNKNOWN_PATHS, "some paths"))
        notes.tell(Note(NoteKind.STATEMENT, f"statement {number}"))
    assert written.text.count("some paths") == 1
    assert written.text.count("statement ") == 10
    assert notes.texts == ["statement 8", "some paths", "statement 9"], "the last ones"
