"""What every protocol keeps: a file of three rows is the same to all that ask it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from consumer.codec import PROTOCOLS, protocols_of_file
from consumer.codec.csv.options import CsvFormat
from consumer.codec.decoder import SliceDecoder, decode_pack
from consumer.ddl.declared import Definition
from consumer.errors import CorruptFile
from consumer.model.bad_rows import Quarantine
from consumer.model.columns import Column
from consumer.model.files import Bounds, DataFile, Folder
from consumer.model.load import Dialect, LoadTask
from consumer.model.steps import Window
from tests.support.build import schema_file
from tests.support.canal_json import MemoryReader, as_rows, row_line, target_of, whole, with_load
from tests.support.csv_rows import record

COLUMNS = (Column("id", "INT", nullable=False, is_pk=True), Column("v", "VARCHAR"))
TARGET = target_of(COLUMNS)
TIMES = tuple(470611625733521409 + (n << 20) for n in range(3))
CSV = CsvFormat(include_commit_ts=True)


@dataclass
class Written:
    """One protocol's rows, in a dialect that its own files prove."""

    dialect: Dialect
    row: Callable[..., bytes]
    """Of a time, a key and a value; of a DELETE too."""
    content: bytes = field(init=False)

    def __post_init__(self) -> None:
        rows = (self.row(ts, number, "ab"[number % 2]) for number, ts in enumerate(TIMES))
        self.content = b"".join(row + self.dialect.terminator for row in rows)

    def decoder(self, dialect: Dialect | None = None) -> SliceDecoder:
        return SliceDecoder(MemoryReader(self.content), whole(self.content), TARGET, dialect or self.dialect, COLUMNS)


WRITTEN = {
    "canal-json": Written(
        Dialect("canal-json", b"\r\n"),
        lambda ts, key, v, gone=False: row_line("DELETE" if gone else "INSERT", {"id": str(key), "v": v}, commit_ts=ts),
    ),
    "csv": Written(
        Dialect("csv", b"\r\n", CSV),
        lambda ts, key, v, gone=False: record("D" if gone else "I", [str(key), v], COLUMNS, CSV, commit_ts=ts),
    ),
}


@pytest.fixture(params=sorted(PROTOCOLS))
def name(request: pytest.FixtureRequest) -> Any:
    return request.param


def test_a_protocol_is_found_by_its_name_and_by_that_of_its_files(name: str) -> None:
    protocol = PROTOCOLS[name]
    assert protocol.name == name
    assert protocol in protocols_of_file(f"d/t/1/CDC1.{protocol.extension}")


def test_rows_and_bounds_tell_the_same_times(name: str) -> None:
    written, protocol = WRITTEN[name], PROTOCOLS[name]
    reader = MemoryReader(written.content)
    file = DataFile(Folder("d/t", 1), 1, f"d/t/1/CDC1.{protocol.extension}", len(written.content), "s")
    rows = as_rows(list(written.decoder().batches()))
    assert [(row[0], *row[-2:]) for row in rows] == [(ts, str(n), "ab"[n % 2]) for n, ts in enumerate(TIMES)]
    assert protocol.bounds(reader, file, written.dialect) == Bounds(TIMES[0], TIMES[-1], exact=True)
    assert protocol.first_ts(reader, file, written.dialect) == TIMES[0]


def test_only_rows_of_the_window_are_changes(name: str) -> None:
    written = WRITTEN[name]
    window = Window(TIMES[0], TIMES[1])
    piece = replace(whole(written.content), exact=window, coarse=window)
    decoder = SliceDecoder(MemoryReader(written.content), piece, TARGET, written.dialect, COLUMNS)
    assert [row[0] for row in as_rows(list(decoder.batches()))] == [TIMES[1]]
    stat = decoder.stat
    assert (stat.rows, stat.dropped, stat.next_ts, stat.first_ts, stat.last_ts) == (3, 1, TIMES[2], *TIMES[:2])


def test_files_that_join_are_what_they_are_one_by_one(name: str) -> None:
    written, protocol = WRITTEN[name], PROTOCOLS[name]
    assert protocol.joinable(written.dialect)
    pieces = [replace(whole(written.content), path=f"f{number}", series=number) for number in range(2)]
    task = LoadTask(0, TARGET, Window(0, 1), tuple(pieces), written.dialect, (COLUMNS,))
    found = decode_pack(MemoryReader(written.content), pieces, task)
    assert found is not None
    alone = as_rows(list(written.decoder().batches()))
    assert as_rows([found[0]]) == alone * 2
    assert [stat.rows for stat in found[1]] == [3, 3]


def test_a_null_in_a_column_that_the_rows_schema_file_calls_not_null(name: str) -> None:
    """What the target or a later statement says of the column is no matter; nor what a deleted row was, but where its
    values are written."""
    written, (key, value) = WRITTEN[name], COLUMNS
    strict = (key, replace(value, nullable=False))
    lines = [written.row(TIMES[0], 1, "a"), written.row(TIMES[1], 2, None), written.row(TIMES[2], 3, None, gone=True)]
    content = b"".join(line + written.dialect.terminator for line in lines)

    def decoded(layout: Sequence[Column], columns: Sequence[Column], **load: Any) -> SliceDecoder:
        target = with_load(target_of(columns), **load)
        return SliceDecoder(MemoryReader(content), whole(content), target, written.dialect, tuple(layout))

    assert [row[-1] for row in as_rows(list(decoded(COLUMNS, strict).batches()))] == ["a", None, None]
    for columns in (strict, COLUMNS):
        with pytest.raises(CorruptFile, match="the row is NULL in column v, which its schema file calls NOT NULL") as e:
            list(decoded(strict, columns).batches())
        assert (e.value.line, bool(e.value.hint)) == (2, True)
        decoder = decoded(strict, columns, quarantine=Quarantine(1))
        assert [row[-2] for row in as_rows(list(decoder.batches()))] == ["1", "3"]
        assert [row.line for row in decoder.stat.quarantined] == [2]
    deleted = written.row(TIMES[2], 3, None, gone=True) + written.dialect.terminator
    target = replace(target_of(COLUMNS), events=True)
    decoder = SliceDecoder(MemoryReader(deleted), whole(deleted), target, written.dialect, strict)
    with pytest.raises(CorruptFile, match="the row is NULL in column v"):
        list(decoder.batches())


def test_a_file_shows_the_dialect_that_reads_it(name: str) -> None:
    written, protocol = WRITTEN[name], PROTOCOLS[name]
    schema = schema_file("d.t", 1, columns=COLUMNS)
    declared = {column.name: Definition() for column in COLUMNS}
    sniffed = protocol.sniff(written.content, True, schema, lambda _: declared)
    assert sniffed is not None
    shown = protocol.agreed([sniffed, sniffed])
    assert (shown.dialect.protocol, shown.commit_ts, shown.consistent) == (name, True, True)
    assert as_rows(list(written.decoder(shown.dialect).batches())) == as_rows(list(written.decoder().batches()))
    assert protocol.sniff(b"\x00" * 100, True, schema, lambda _: declared) is None


def test_options_are_what_their_keys_say(name: str) -> None:
    written, protocol = WRITTEN[name], PROTOCOLS[name]
    table = protocol.table(written.dialect)
    assert set(table) == {option.key for option in protocol.own_options} >= set(protocol.left_open)
    assert protocol.options(table) == written.dialect.options
    protocol.check(written.dialect, ())
