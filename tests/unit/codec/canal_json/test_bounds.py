"""The two ends of a file, whatever its size, its lines and its terminator."""

from __future__ import annotations

import json
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from consumer.codec import lines
from consumer.codec.canal_json.bounds import read_json_bounds
from consumer.codec.lines import END_SIZE
from consumer.errors import CorruptFile
from consumer.model.files import Bounds, DataFile, Folder
from consumer.model.load import Dialect
from consumer.ports import Stored

TERMINATORS = [b"\r\n", b"\n", b"|", b",", b"}", b"~~", b"\x1e", b"{", b"},{", b"\r"]


@dataclass
class Bytes:
    content: bytes
    reads: list[tuple[int, int]] = field(default_factory=list)

    def read(self, file: Stored, offset: int, length: int) -> bytes:
        self.reads.append((offset, length))
        return self.content[offset : offset + length]


def _line(commit_ts: int | None, text: str = "x", es: int = 7) -> bytes:
    """A row as canal-JSON has it, with its values before its extension."""
    row: dict[str, object] = {"id": 0, "database": "db", "es": es, "old": None, "data": [{"c": text, "{": text}]}
    if commit_ts is not None:
        row["_tidb"] = {"commitTs": commit_ts}
    return json.dumps(row, separators=(",", ":"), ensure_ascii=False).encode()


def _bounds(content: bytes, terminator: bytes = b"\r\n") -> tuple[Bounds, Bytes]:
    reader = Bytes(content)
    file = DataFile(Folder("db/t", 5), 1, "db/t/5/CDC000001.json", len(content), "")
    return read_json_bounds(reader, file, Dialect(terminator=terminator)), reader


NASTY = st.text(st.sampled_from('{}|,~"\\[]\n\r\x1e:a1')) | st.sampled_from(['|{"es":1}|', '},{"es":1},{', "{}|{}"])


@given(st.lists(st.tuples(st.integers(1, 1 << 62), NASTY), min_size=1, max_size=5), st.sampled_from(TERMINATORS))
def test_any_terminator_works_with_any_text(rows: list[tuple[int, str]], terminator: bytes) -> None:
    content = b"".join(_line(commit_ts, text) + terminator for commit_ts, text in rows)
    assert _bounds(content, terminator)[0] == Bounds(rows[0][0], rows[-1][0], exact=True)


@pytest.mark.parametrize("terminator", TERMINATORS)
@pytest.mark.parametrize("length", [10, END_SIZE - 100, END_SIZE, 3 * END_SIZE, 20 * END_SIZE])
def test_lines_of_any_length_are_read(length: int, terminator: bytes) -> None:
    content = b"".join(_line(commit_ts, "y" * length) + terminator for commit_ts in (11, 12, 13))
    assert _bounds(content, terminator)[0] == Bounds(11, 13, exact=True)


def test_a_small_file_is_one_read_and_a_large_one_two_small_ones() -> None:
    line = _line(11) + b"\r\n"
    assert len(_bounds(line * 10)[1].reads) == 1
    large = line * 100_000
    assert _bounds(large)[1].reads == [(0, END_SIZE), (len(large) - END_SIZE, END_SIZE)]


def test_a_last_line_without_terminator_counts() -> None:
    assert _bounds(_line(11) + b"\r\n" + _line(12))[0] == Bounds(11, 12, exact=True)


def test_rows_with_only_milliseconds_are_coarse() -> None:
    assert _bounds(_line(None, es=5) + b"\r\n" + _line(None, es=6) + b"\r\n")[0] == Bounds(
        5 << 18, 6 << 18, exact=False
    )
    assert _bounds(_line(None, es=5) + b"\r\n" + _line(99, es=6) + b"\r\n")[0] == Bounds(5 << 18, 6 << 18, exact=False)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "empty"),
        (b'"I","t","db",1\r\n"I","t","db",2\r\n', "first line is not a JSON object"),
        (b"[1]\r\n", "first line"),
        (_line(1) + b"\r\n" + _line(2)[:-9], "last line is not a JSON object"),
        (_line(1) + b"\n" + _line(2) + b"\n", "first line"),
        (b"junk " * 100_000, "first line"),
        (_line(1) + b"\r\n" + b"junk " * 100_000, "last line"),
        (b'{"type":"INSERT"}\r\n', "neither _tidb.commitTs nor es"),
        (b'{"es":"7"}\r\n', "neither _tidb.commitTs nor es"),
    ],
)
def test_what_is_not_canal_json_is_refused(content: bytes, reason: str) -> None:
    with pytest.raises(CorruptFile, match=reason) as caught:
        _bounds(content)
    assert (caught.value.table, caught.value.path) == ("db/t", "db/t/5/CDC000001.json")


@pytest.mark.parametrize("content", [b"x" * 2_000_000, b"x" * 2_000_000 + b"}\r\n"])
def test_of_a_line_without_end_no_more_is_read_than_a_line_can_be(
    content: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lines, "MAX_LINE_BYTES", 1_000_000)
    reader = Bytes(content)
    file = DataFile(Folder("d/t", 1), 1, "f", len(content), "")
    with pytest.raises(CorruptFile, match="line is not a JSON object"):
        read_json_bounds(reader, file, Dialect("canal-json"))
    assert max(length for _, length in reader.reads) < 1_000_000
