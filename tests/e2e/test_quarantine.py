"""Lines that cannot be decoded are quarantined: each is told once, and the rest is as if they were not there."""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import accumulate
from pathlib import Path
from typing import Any

import duckdb
import pytest

from consumer.errors import BadConfig, CorruptFile, TooManyBadRows
from tests.support.inline_loader import InlineLoader
from tests.support.lettered import FORMS, KEYLESS, TABLE, Row, Storage, recorded

Reads = Callable[[str], list[tuple[Any, ...]]]
Damage = Callable[[bytes], bytes]


@pytest.fixture(params=FORMS)
def storage(tmp_path: Path, request: pytest.FixtureRequest) -> Storage:
    return Storage(tmp_path, request.param)


@pytest.fixture
def target(tmp_path: Path) -> str:
    return f"duckdb:///{tmp_path}/replica.duckdb"


def rows_of(target: str) -> list[tuple[Any, ...]]:
    with duckdb.connect(target.removeprefix("duckdb:///"), read_only=True) as connection:
        return connection.execute("SELECT id, v, s FROM d.t ORDER BY ALL").fetchall()


def good(first: int, count: int) -> list[Row]:
    return [(first + n, str(first + n), str(n), "é,\"{'"[: n % 6]) for n in range(count)]


def as_rows(*rows: Row) -> list[tuple[Any, ...]]:
    return sorted((int(key), None if v is None else int(v), s) for _, key, v, s in rows)


DAMAGES: dict[str, Damage] = {
    "cut off": lambda line: line[: len(line) // 2],
    "cut off within its time": lambda line: re.sub(rb'("commitTs":|d"?,)([0-9]).*', rb"\1\2", line),
    "bytes that are no UTF-8": lambda line: line.replace(b"xyz", b"\xff\xfe"),
    "another table": lambda line: line.replace(b'"t"', b'"u"').replace(b"I,t,", b"I,u,"),
    "another operation": lambda line: (
        line.replace(b'"INSERT"', b'"MERGE"').replace(b'"I"', b'"X"').replace(b"I,t", b"X,t")
    ),
    "nothing like it": lambda line: b"\x00" * 40,
    "empty": lambda line: b"{}",
}


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("place", ["first", "middle", "last", "two", "all"])
def test_a_bad_line(storage: Storage, target: str, damage: str, place: str) -> None:
    rows = [(10 + n, str(n), str(n), "xyz") for n in range(9)]
    places = {"first": {0}, "middle": {4}, "last": {8}, "two": {3, 4}, "all": set(range(9))}[place]
    lines = [storage.line(row) for row in rows]
    path = storage.file(*(DAMAGES[damage](line) if n in places else line for n, line in enumerate(lines)))
    storage.file(storage.line((30, "100", "1", "a")))
    result = storage.once(target, 100)
    assert storage.stopped() is None
    assert result.exit_code == 3
    assert result.tables[TABLE].quarantined == len(places)
    assert rows_of(target) == as_rows(*(row for n, row in enumerate(rows) if n not in places), (30, "100", "1", "a"))
    letters = storage.written()
    assert [(letter["file"], letter["line"]) for letter in letters] == [(path, n + 1 + storage.above) for n in places]
    content = (storage.feed.folder / path).read_bytes()
    for n, letter in zip(sorted(places), letters, strict=True):
        assert content[letter["offset"] :].startswith(DAMAGES[damage](lines[n]))
        assert letter["table"] == "d.t"
        assert letter["version"] == 2
        assert letter["reason"]
    assert {row.id for row in recorded(target)[TABLE].values()} == {letter["id"] for letter in letters}
    again = storage.once(target, 200)
    assert (again.exit_code, again.tables[TABLE].quarantined) == (3, len(places))
    assert storage.written() == letters


def test_values_that_are_none(storage: Storage, target: str) -> None:
    """A row that is read has its time, so it is quarantined with the window that it is in."""
    first, second = storage.line((10, "1", "1", "a")), storage.line((20, "2", "xyz", "b"))
    bad = second.replace(b'"s":"b"', b'"s":5')
    storage.file(first, bad, storage.line((30, "3", "3", "c")))
    storage.once(target, 15)
    assert storage.written() == []
    storage.once(target, 25)
    (letter,) = storage.written()
    assert letter["commit_ts"] == 20
    storage.once(target, 35)
    assert storage.written() == [letter]
    assert rows_of(target) == [(1, 1, "a"), (3, 3, "c")]


def test_it_stops_the_table_unless_it_is_told_otherwise(storage: Storage, target: str) -> None:
    storage.file(storage.line((10, "1", "1", "a"))[:-7], storage.line((11, "2", "1", "a")))
    for flags in ({"on_bad_row": "stop"}, {"on_bad_row": ["quarantine", "d.*=stop"]}):
        storage.once(target, 100, **flags)
        assert isinstance(storage.stopped(), CorruptFile)
    assert storage.written() == []
    assert storage.once(target, 100, on_bad_row=["stop", "d.*=quarantine"]).exit_code == 3
    assert len(storage.written()) == 1
    assert rows_of(target) == [(2, 1, "a")]


def test_a_folder_for_the_rows_must_be_named(storage: Storage, target: str) -> None:
    storage.file(storage.line((10, "1", "1", "a")))
    with pytest.raises(BadConfig) as caught:
        storage.once(target, 100, dead_letters=None)
    assert "--dead-letters file:///" in caught.value.hint
    assert storage.once(target, 100, dead_letters=f"file://{storage.letters}").exit_code == 0


def test_more_than_may_be_stop_the_table(storage: Storage, target: str) -> None:
    bad = [storage.line((10 + 20 * n, str(n), "1", "a"))[:-7] for n in range(5)]
    storage.file(*bad[:2], storage.line((31, "20", "1", "a")))
    assert storage.once(target, 40, max_bad_rows=4).exit_code == 3
    storage.file(*bad[2:], storage.line((95, "60", "1", "a")))
    storage.once(target, 100, max_bad_rows=4)
    error = storage.stopped()
    assert isinstance(error, TooManyBadRows)
    assert "max-bad-rows" in error.message
    assert rows_of(target) == [(20, 1, "a")]
    assert len(recorded(target)[TABLE]) == 2
    assert storage.once(target, 100, max_bad_rows=5).tables[TABLE].quarantined == 5
    assert rows_of(target) == [(20, 1, "a"), (60, 1, "a")]


def test_the_same_lines_sent_again(storage: Storage, target: str) -> None:
    """A restarted changefeed writes lines again, in another file and under other numbers."""
    lines = [storage.line(row) for row in good(10, 6)]
    lines[3] = lines[3][: len(lines[3]) // 2]
    storage.file(*lines)
    storage.once(target, 20)
    letters = storage.written()
    storage.file(*lines[2:], storage.line((30, "30", "1", "a")))
    result = storage.once(target, 40)
    assert storage.written() == letters
    assert result.tables[TABLE].quarantined == 1


def test_a_later_change_of_the_row_lands(storage: Storage, target: str) -> None:
    storage.file(storage.line((10, "1", "1", "a")))
    storage.once(target, 15)
    bad = storage.line((20, "1", "2", "b"))
    storage.file(bad[: len(bad) // 2], storage.line((30, "2", "1", "a")))
    storage.once(target, 40)
    assert rows_of(target) == [(1, 1, "a"), (2, 1, "a")]
    storage.file(storage.line((50, "1", "3", "c")))
    storage.once(target, 60)
    assert rows_of(target) == [(1, 3, "c"), (2, 1, "a")]


def test_large_files_in_slices(storage: Storage, target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("consumer.pipeline.version_consumer.SLICE_BYTES", 700)
    rows = good(10, 60)
    bad = {0, 7, 8, 31, 59}
    lines = [storage.line(row) for row in rows]
    lines = [line[: len(line) // 2] if n in bad else line for n, line in enumerate(lines)]
    path = storage.file(*lines)
    storage.once(target, 100, InlineLoader(keyed=3))
    assert rows_of(target) == as_rows(*(row for n, row in enumerate(rows) if n not in bad))
    content = (storage.feed.folder / path).read_bytes()
    begin = content.index(lines[0])
    offsets = list(accumulate((len(line) + 2 for line in lines), initial=begin))
    assert {letter["offset"] for letter in storage.written()} == {offsets[n] for n in bad}


@pytest.mark.parametrize("form", ["canal-json", "csv"])
def test_a_table_with_no_key(form: str, tmp_path: Path, target: str) -> None:
    storage = Storage(tmp_path, form, KEYLESS)
    row = storage.line((10, "1", "1", "a"))
    storage.file(row, row, row[: len(row) // 2], storage.line((11, "2", "2", "b")))
    assert storage.once(target, 20).tables[TABLE].quarantined == 1
    assert rows_of(target) == [(1, 1, "a"), (1, 1, "a"), (2, 2, "b")]
