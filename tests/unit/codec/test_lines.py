"""Byte ranges cut into whole lines, for every terminator."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import pytest

from consumer.codec import lines as lines_module
from consumer.codec.canal_json.file import JsonEnds
from consumer.codec.errors import FileCoordinates
from consumer.codec.lines import TAIL_BYTES, SliceLines
from consumer.errors import CorruptFile
from consumer.model.load import FileSlice
from consumer.ports import Stored
from tests.support.canal_json import MemoryReader, join, whole

PLACE = FileCoordinates("f", "d.t")
TERMINATORS = [b"\r\n", b"\n", b"|\n", b"\n|\n", b"$$", b"\r", b"", b"}"]


def slice_lines(
    content: bytes, terminator: bytes = b"\n", piece: FileSlice | None = None, block_bytes: int = 64
) -> SliceLines:
    return SliceLines(MemoryReader(content), piece or whole(content), JsonEnds(terminator), PLACE, block_bytes)


def text_of(found: SliceLines) -> bytes:
    return b"".join(block.text for block in found.blocks())


@dataclass(frozen=True)
class CountingReader(MemoryReader):
    reads: list[tuple[int, int]] = field(default_factory=list)

    def read(self, file: Stored, offset: int, length: int) -> bytes:
        self.reads.append((offset, length))
        return super().read(file, offset, length)


@pytest.mark.parametrize("terminator", TERMINATORS)
@pytest.mark.parametrize("block_bytes", [1, 7, 100, 1000])
def test_every_cut_gives_each_line_once(terminator: bytes, block_bytes: int) -> None:
    written = [b'{"id":%d,"x":"%s"}' % (number, b"y" * number) for number in range(5)]
    content, placed = join(written, terminator)
    for cut in range(len(content) + 1):
        pieces = [
            replace(whole(content), length=cut),
            replace(whole(content), offset=cut, length=len(content) - cut),
        ]
        found = [text_of(slice_lines(content, terminator, piece, block_bytes)).splitlines() for piece in pieces]
        assert found == [
            [line for offset, line in placed if offset < cut],
            [line for offset, line in placed if offset >= cut],
        ]


@pytest.mark.parametrize("terminator", [b"$$", b"ab", b"|\n", b""])
def test_a_terminator_inside_a_text_ends_nothing(terminator: bytes) -> None:
    inside = terminator.replace(b"\n", b"\\n")
    trap = b'{"id":0,"x":"}' + inside + b'{","y":"}' + inside + b'{"}'
    content, _ = join([trap, b'{"id":1}', trap], terminator)
    assert text_of(slice_lines(content, terminator)).splitlines() == [trap, b'{"id":1}', trap]


def test_a_line_much_longer_than_a_block() -> None:
    long = b'{"x":"' + b"y" * 100_000 + b'"}'
    content, _ = join([b'{"a":1}', long, b'{"b":1}'], b"\r\n")
    blocks = list(slice_lines(content, b"\r\n").blocks())
    assert b"".join(block.text for block in blocks) == content
    assert all(content[block.offset :].startswith(block.text) for block in blocks)


def test_a_slice_reads_little_more_than_itself() -> None:
    content, _ = join([b'{"x":"%s"}' % (b"y" * 1000)] * 1000, b"\n")
    reader = CountingReader(content)
    piece = replace(whole(content), offset=300_000, length=200_000)
    blocks = list(SliceLines(reader, piece, JsonEnds(b"\n"), PLACE, 8 << 20).blocks())
    assert sum(block.text.count(b"\n") for block in blocks) == len(
        [n for n in range(1000) if 300_000 <= n * 1009 < 500_000]
    )
    assert reader.reads == [(299_999, 200_001 + TAIL_BYTES)]


def test_no_bytes_no_lines() -> None:
    assert list(slice_lines(b"").blocks()) == []


def test_a_file_that_became_shorter() -> None:
    content = b'{"a":1}\n'
    piece = replace(whole(content), length=20, size=20)
    with pytest.raises(CorruptFile, match="ends at byte 8, but had 20 bytes"):
        text_of(slice_lines(content, piece=piece))


@pytest.mark.parametrize("terminator", [b"\r\n", b"$$"])
@pytest.mark.parametrize("last", [b'{"id":3', b'{"id":3}', b'{"id":3}\r', b'{"id":3}$'])
def test_a_last_line_that_is_cut_off(terminator: bytes, last: bytes) -> None:
    content = join([b'{"id":1}', b'{"id":2}'], terminator)[0] + last
    with pytest.raises(CorruptFile, match="cut off") as caught:
        text_of(slice_lines(content, terminator))
    assert (caught.value.path, caught.value.line, caught.value.table) == ("f", 3, "d.t")


def test_a_cut_off_line_counts_from_the_start_of_the_file() -> None:
    content = b'{"id":1}\n{"id":2}\n{"id":3'
    piece = replace(whole(content), offset=10, length=len(content) - 10)
    with pytest.raises(CorruptFile) as caught:
        text_of(slice_lines(content, piece=piece))
    assert caught.value.line == 3


def test_a_line_without_end_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines_module, "MAX_LINE_BYTES", 5000)
    content = b'{"a":1}\n{"x":"' + b"y" * 200_000 + b'"}\n'
    with pytest.raises(CorruptFile, match="longer than 5000 bytes") as caught:
        text_of(slice_lines(content))
    assert caught.value.line == 2
