"""Values that cannot be proven are told by table; a key of them stops its table."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from consumer.model.actions import Action
from consumer.model.columns import Column
from consumer.model.events import NoteKind
from consumer.model.names import TableName
from tests.support.build import ID
from tests.support.feed import Feed, MemoryReplica

T = TableName("d", "t")
AT = Column("at", "TIMESTAMP")
TEXT = Column("v", "VARCHAR")
TIMES = ("2026-10-25 01:59:59", "2026-10-25 02:00:00", "2026-10-25 02:59:59.999", "2026-10-25 03:00:00", None)


def replica(folder: Path, key: Column = ID) -> MemoryReplica:
    """d.t with one row a time of TIMES; two of their texts hold U+FFFD."""
    feed = Feed(folder)
    feed.database("d", 1)
    names = {"id": "int", "v": "varchar", "at": "timestamp"}
    columns = tuple(Column(c.name, c.type, nullable=c is not key, is_pk=c is key) for c in (ID, TEXT, AT))
    query = f"CREATE TABLE `t` (`id` INT,`v` VARCHAR(9),`at` TIMESTAMP(3),PRIMARY KEY (`{key.name}`))"
    feed.statement("d.t", 10, Action.CREATE_TABLE, query, columns)
    rows = []
    for number, time in enumerate(TIMES if key is ID else TIMES[:1]):
        row = json.loads(feed._line("d.t", 11 + number, number, "\ufffd?" if number % 2 else "\uff1f"))
        row["data"][0]["at"] = time
        row |= {"pkNames": [key.name], "mysqlType": names, "sqlType": dict.fromkeys(names, 4)}
        rows.append(json.dumps(row).encode() + b"\r\n")
    feed.file("d.t", 10, b"".join(rows))
    feed.checkpoint(50)
    return MemoryReplica(feed)


UTC = ("2026-10-24 23:59:59", "2026-10-25 00:00:00", "2026-10-25 00:59:59.999", "2026-10-25 02:00:00", None)


def test_they_are_counted_and_taken_for_the_first_of_two_moments(tmp_path: Path) -> None:
    found = replica(tmp_path)
    assert found.once(tz="Europe/Berlin").exit_code == 0
    assert [row["at"] for row in found.sink.rows(T)] == list(UTC)
    assert len(found.seen.notes) == 2
    assert any(note.startswith("d.t: 2 texts contain U+FFFD") for note in found.seen.notes)
    assert any(note.startswith("d.t: 2 TIMESTAMP values are in an hour") for note in found.seen.notes)
    about = {(note.kind, note.table, note.count) for note in found.seen.noted}
    assert about == {(NoteKind.LOST_TEXT, T, 2), (NoteKind.DOUBLED_TIME, T, 2)}


def test_a_clock_that_never_goes_back_leaves_no_doubt_of_times(tmp_path: Path) -> None:
    found = replica(tmp_path)
    found.once(tz="UTC")
    assert [note for note in found.seen.notes if "TIMESTAMP" in note] == []


@pytest.mark.parametrize(("zone", "code"), [("Europe/Berlin", 3), ("UTC", 0)])
def test_a_key_of_times_stops_its_table_unless_accepted(zone: str, code: int, tmp_path: Path) -> None:
    found = replica(tmp_path, AT)
    result = found.once(tz=zone)
    assert result.exit_code == code
    assert ("TIMESTAMP `at`" in result.tables[T].error) is (code == 3)
    assert ("set accept-timestamp-key = true in [consumer]" in result.tables[T].hint) is (code == 3)
    assert len(found.sink.rows(T)) == (0 if code else 1)
    assert found.once(tz=zone, accept_timestamp_key=True).exit_code == 0
    assert len(found.sink.rows(T)) == 1
