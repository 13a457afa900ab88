"""Files that TiCDC wrote, against a plain decoder and against values that are known."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from consumer.codec.decoder import SliceDecoder
from consumer.model.columns import Column
from consumer.model.load import LoadTarget
from consumer.model.names import TableName
from tests.support.canal_json import MemoryReader, as_rows, decode_slowly, dialect, join, target_of, whole

FOLDER = Path(__file__).parents[4] / "fixtures/canal_json"
NAMES = sorted(path.name.removesuffix(".schema.json") for path in FOLDER.glob("*.schema.json"))


def target_for(name: str) -> LoadTarget:
    """The table of a fixture; its key is the primary key, or the NOT NULL unique key of the ``unique_`` tables."""
    schema = json.loads((FOLDER / f"{name}.schema.json").read_text())
    columns = [Column(c["ColumnName"], c["ColumnType"].removesuffix(" UNSIGNED")) for c in schema["TableColumns"]]
    key = [n for n, column in enumerate(schema["TableColumns"]) if column.get("ColumnIsPk") == "true"]
    table = TableName(schema["Schema"], schema["Table"])
    return target_of(columns, [0] if name.startswith("unique_") else key, table)


def decoded(name: str, block_bytes: int = 8 << 20) -> list[Any]:
    content = (FOLDER / f"{name}.json").read_bytes()
    decoder = SliceDecoder(MemoryReader(content), whole(content), target_for(name), dialect(), block_bytes=block_bytes)
    return as_rows(list(decoder.batches()))


@pytest.mark.parametrize("block_bytes", [64, 8 << 20])
@pytest.mark.parametrize("name", NAMES)
def test_files_decode_to_their_lines(name: str, block_bytes: int) -> None:
    content = (FOLDER / f"{name}.json").read_bytes()
    lines = content.removesuffix(b"\r\n").split(b"\r\n")
    assert join(lines, b"\r\n")[0] == content
    decoder = SliceDecoder(MemoryReader(content), whole(content), target_for(name), dialect(), block_bytes=block_bytes)
    batches = list(decoder.batches())
    rows = as_rows(batches)
    assert (len(batches) > 1) is (block_bytes == 64 and len(lines) > 1)
    assert (rows, decoder.stat) == decode_slowly(join(lines, b"\r\n")[1], whole(content), target_for(name))
    assert len(rows) >= len(lines)


def test_every_variant_is_here() -> None:
    assert len(NAMES) == 23
    assert [name for name in NAMES if not target_for(name).key] == ["keyless_t", "keyless_uknull"]


def test_a_variant_without_commit_ts_has_the_same_changes() -> None:
    exact, coarse = decoded("nonclustered_cj_ext"), decoded("nonclustered_cj")
    assert [(row[1], *row[4:]) for row in coarse] == [(row[1], *row[4:]) for row in exact]
    assert {row[2:4] for row in exact} == {(0, 0)}
    assert [row[3] for row in coarse] == sorted({row[3] for row in coarse})


def test_deletes_that_only_have_the_key() -> None:
    whole_rows, keys = decoded("nonclustered_cj_ext"), decoded("nonclustered_cj_handlekey")
    assert [(row[1], row[4]) for row in keys] == [(row[1], row[4]) for row in whole_rows]
    assert {row[5] for row in keys if not row[1]} == {None}


def values_of(name: str) -> list[tuple[Any, ...]]:
    return [row[4:] for row in decoded(name)]


def test_known_values() -> None:
    """What the statements that made these files inserted."""
    first_bits = values_of("types_bits")[0]
    assert first_bits == ("1", "1", "129", "3855", "1", "18446744073709551615")
    assert ("7", "0", "0", "0") in values_of("enum_error_value")
    dates = {value for row in values_of("types_dts") for value in row[1:]}
    assert {"-838:59:59", "0000-00-00"} <= dates
    assert max(len(value) for row in values_of("types_fl") for value in row[1:] if value) > 300


def test_every_byte_of_a_binary_column() -> None:
    assert bytes(range(256)) in {value for row in values_of("types_bins") for value in row[1:]}
