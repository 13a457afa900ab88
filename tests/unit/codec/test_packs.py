"""Small files in packs: the same as one by one, and as a slow reading of their lines."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import pytest

from consumer.changes.folding import decoded, decoder_for
from consumer.codec.csv.options import CsvFormat
from consumer.codec.decoder import PACK_BYTES, SMALL_BYTES, decode_pack, packs
from consumer.errors import CorruptFile
from consumer.model.columns import Column
from consumer.model.load import Dialect, FileSlice, FileStat, LoadTask
from consumer.model.steps import Window
from consumer.ports import Stored
from tests.support.canal_json import ALL, as_rows, decode_slowly, join, row_line, target_of

TARGET = target_of([Column("id", "INT", nullable=False, is_pk=True), Column("v", "VARCHAR"), Column("b", "BLOB")])
CR_LF = b"\r\n"


@dataclass
class Files:
    """A RangeReader of several files."""

    contents: dict[str, bytes] = field(default_factory=dict)

    def read(self, file: Stored, offset: int, length: int) -> bytes:
        return self.contents[file.path][offset : offset + length]


def task_of(pieces: Sequence[FileSlice], dialect: Dialect | None = None) -> LoadTask:
    return LoadTask(0, TARGET, Window(0, 1), tuple(pieces), dialect or Dialect())


def piece_of(name: str, size: int, number: int = 0, exact: Window = ALL, coarse: Window = ALL) -> FileSlice:
    return FileSlice(name, 0, size, size, number % 3, number << 40, exact, coarse)


def line_of(draw: random.Random) -> bytes:
    data = {"id": str(draw.randrange(5)), "v": draw.choice([None, "a", "}\x00\u2028"]), "b": "\u00ff\u0000"}
    kind = draw.choice(["INSERT", "UPDATE", "DELETE"])
    old = [{"id": str(draw.randrange(5))}] if kind == "UPDATE" else None
    ts = draw.randrange(1, 30)
    exact = draw.random() < 0.7
    return row_line(kind, data, commit_ts=ts if exact else None, es=ts if not exact else 0, old=old)


@pytest.mark.parametrize("seed", range(20))
def test_a_pack_is_what_its_lines_say_file_by_file(seed: int) -> None:
    draw = random.Random(seed)
    files, pieces, rows, stats = Files(), [], [], []
    for number in range(draw.randrange(2, 9)):
        content, lines = join([line_of(draw) for _ in range(draw.randrange(1, 6))], CR_LF)
        low = draw.randrange(0, 20)
        exact, coarse = Window(low, low + 8), Window(low << 18, (low + 9) << 18)
        seen = draw.choice(((), (0, low // 2, low, 1 << 40)))
        piece = replace(piece_of(f"f{number}", len(content), number, exact, coarse), seen=seen)
        files.contents[piece.path] = content
        pieces.append(piece)
        expected, stat = decode_slowly(lines, piece, TARGET)
        rows += expected
        stats.append(stat)
    found = decode_pack(files, pieces, task_of(pieces))
    assert found is not None
    assert (as_rows([found[0]]), found[1]) == (rows, stats)


def test_what_is_wrong_with_one_file_of_a_pack_is_told_of_that_file() -> None:
    good = row_line("INSERT", {"id": "1", "v": "a", "b": None}, commit_ts=1) + CR_LF
    files = Files({"f0": good, "f1": good + b"{broken" + CR_LF, "f2": good})
    pieces = [piece_of(name, len(content)) for name, content in files.contents.items()]
    assert decode_pack(files, pieces, task_of(pieces)) is None
    with pytest.raises(CorruptFile, match="not JSON") as caught:
        list(decoded(files, pieces, task_of(pieces), []))
    assert (caught.value.path, caught.value.line) == ("f1", 2)


def test_a_file_without_its_last_terminator_does_not_run_into_the_next() -> None:
    good = row_line("INSERT", {"id": "1", "v": "a", "b": None}, commit_ts=1) + CR_LF
    files = Files({"f0": good.removesuffix(CR_LF), "f1": good})
    pieces = [piece_of(name, len(content)) for name, content in files.contents.items()]
    assert decode_pack(files, pieces, task_of(pieces)) is None
    with pytest.raises(CorruptFile, match="cut off") as caught:
        list(decoded(files, pieces, task_of(pieces), []))
    assert caught.value.path == "f0"


def test_blank_lines_are_left_to_the_reader_of_one_file() -> None:
    good = row_line("INSERT", {"id": "1", "v": "a", "b": None}, commit_ts=1) + CR_LF
    files = Files({"f0": good + CR_LF, "f1": good})
    pieces = [piece_of(name, len(content)) for name, content in files.contents.items()]
    stats: list[FileStat] = []
    assert len(as_rows(list(decoded(files, pieces, task_of(pieces), stats)))) == 2
    assert [stat.rows for stat in stats] == [1, 1]


@pytest.mark.parametrize("blank", [b"\r\n", b" \r\n\r\n"])
def test_a_file_without_a_row_is_told_among_others(blank: bytes) -> None:
    good = row_line("INSERT", {"id": "1", "v": "a", "b": None}, commit_ts=1) + CR_LF
    files = Files({"f0": good, "f1": blank, "f2": good})
    pieces = [piece_of(name, len(content)) for name, content in files.contents.items()]
    with pytest.raises(CorruptFile, match="the file has no row") as caught:
        list(decoded(files, pieces, task_of(pieces), []))
    assert caught.value.path == "f1"


def test_only_whole_small_files_of_a_dialect_with_lines_are_packed() -> None:
    large, part = piece_of("large", SMALL_BYTES + 1), FileSlice("part", 9, 1, 10, 0, 0, ALL, ALL)
    small = [piece_of(f"f{n}", SMALL_BYTES) for n in range(PACK_BYTES // SMALL_BYTES + 1)]
    pieces = [small[0], large, part, *small]
    assert list(packs(pieces, task_of(pieces))) == [[small[0]], [large], [part], small[:-1], small[-1:]]
    alone = [[piece] for piece in pieces]
    assert list(packs(pieces, task_of(pieces, Dialect(terminator=b"|")))) == alone
    headed = Dialect("csv", options=CsvFormat(output_field_header=True))
    assert list(packs(pieces, task_of(pieces, headed))) == alone


def csv_line(draw: random.Random) -> bytes:
    text = draw.choice(["\\N", '"a"', '"\r\n""I"",""t"",\r\n"', '""'])
    operation = draw.choice("IUD")
    ts = f"{draw.randrange(1, 30)},"
    return f'"{operation}","t","d",{ts}{draw.randrange(5)},{text},"/wD+"\r\n'.encode()


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("timeless", [False, True])
def test_csv_files_in_a_pack_are_what_they_are_one_by_one(seed: int, timeless: bool) -> None:
    draw = random.Random(seed)
    dialect = Dialect("csv", options=CsvFormat(include_commit_ts=not timeless))
    files, pieces = Files(), []
    for number in range(draw.randrange(2, 9)):
        lines = [csv_line(draw) for _ in range(draw.randrange(1, 6))]
        content = b"".join(re.sub(rb'"d",\d+,', b'"d",', line) if timeless else line for line in lines)
        low = draw.randrange(0, 20)
        piece = piece_of(f"f{number}", len(content), number, Window(low, low + 8))
        files.contents[piece.path] = content
        pieces.append(piece)
    task = replace(task_of(pieces, dialect), layouts=(TARGET.columns,))
    decoders = [decoder_for(files, piece, task) for piece in pieces]
    rows = [row for decoder in decoders for row in as_rows(list(decoder.batches()))]
    found = decode_pack(files, pieces, task)
    assert found is not None
    assert (as_rows([found[0]]), found[1]) == (rows, [decoder.stat for decoder in decoders])
    assert sum(stat.rows for stat in found[1]) >= len(rows)


def test_a_quoted_cell_does_not_run_into_the_next_file() -> None:
    half = b'"I","t","d",1,1,"a\r\n'
    rest = b'b","/wD+"\r\n"I","t","d",2,2,"c","/wD+"\r\n'
    files = Files({"f0": half, "f1": rest})
    pieces = [piece_of(name, len(content)) for name, content in files.contents.items()]
    task = replace(
        task_of(pieces, Dialect("csv", options=CsvFormat(include_commit_ts=True))), layouts=(TARGET.columns,)
    )
    assert decode_pack(files, pieces, task) is None
    with pytest.raises(CorruptFile) as caught:
        list(decoded(files, pieces, task, []))
    assert caught.value.path == "f0"
