"""CSV files that TiCDC wrote, against the canal-JSON files of the same history."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from consumer.codec.csv.options import CsvFormat
from consumer.codec.decoder import SliceDecoder
from consumer.errors import CannotBeExact
from consumer.model.columns import Column
from consumer.model.load import Dialect, LoadTarget
from consumer.model.names import TableName
from tests.support.canal_json import MemoryReader, as_rows, target_of, whole

FIXTURES = Path(__file__).parents[4] / "fixtures"
FOLDER = FIXTURES / "csv"
FORMATS = {
    "ts": CsvFormat(include_commit_ts=True),
    "old": CsvFormat(include_commit_ts=True, output_old_value=True),
    "header": CsvFormat(include_commit_ts=True, output_old_value=True, output_field_header=True),
}
LABELS = {"e": ("a", "b", "c,d", "e'f", "日"), "s": ("x", "y", "z", "w w"), "e2": ("1", "2", "3")}
FILES = sorted(path.name.removesuffix(".csv") for path in FOLDER.glob("types_*.csv"))


def described(schema: Path) -> tuple[list[Column], list[int], TableName]:
    """Columns of a schema file, ENUM and SET with their labels, the places of the primary key, and whose they are."""
    content = json.loads(schema.read_text())
    listed: list[dict[str, Any]] = content["TableColumns"]
    columns = [Column(c["ColumnName"], c["ColumnType"].removesuffix(" UNSIGNED")) for c in listed]
    labelled = [replace(c, elements=LABELS[c.name]) if c.type in ("ENUM", "SET") else c for c in columns]
    key = [n for n, column in enumerate(listed) if column.get("ColumnIsPk") == "true"]
    return labelled, key, TableName(content["Schema"], content["Table"])


def decoded(name: str, target: LoadTarget, layout: Sequence[Column] | None = None, block_bytes: int = 8 << 20) -> Any:
    content = (FOLDER / f"{name}.csv").read_bytes()
    dialect = Dialect("csv", options=FORMATS[name.rpartition(".")[2]])
    columns = target.columns if layout is None else tuple(layout)
    decoder = SliceDecoder(MemoryReader(content), whole(content), target, dialect, columns, block_bytes=block_bytes)
    return as_rows(list(decoder.batches()))


def canal(name: str, target: LoadTarget) -> Any:
    content = (FIXTURES / f"canal_json/{name}.json").read_bytes()
    return as_rows(list(SliceDecoder(MemoryReader(content), whole(content), target, Dialect()).batches()))


def puts(rows: Any) -> Counter[Any]:
    return Counter((row[0], *row[2:]) for row in rows if row[1])


@pytest.mark.parametrize("block_bytes", [64, 8 << 20])
@pytest.mark.parametrize("name", FILES)
def test_rows_are_those_of_canal_json(name: str, block_bytes: int) -> None:
    table, _, variant = name.rpartition(".")
    target = target_of(*described(FIXTURES / f"canal_json/{table}.schema.json"))
    rows, expected = decoded(name, target, block_bytes=block_bytes), canal(table, target)
    assert puts(rows) == puts(expected)
    deleted = {(row[0], *(row[4 + n] for n in target.key)) for row in rows if not row[1]}
    wanted = {(row[0], *(row[4 + n] for n in target.key)) for row in expected if not row[1]}
    assert deleted == wanted if variant == "ts" else deleted > wanted


def test_all_variants_and_types_are_here() -> None:
    assert len(FILES) == 17
    assert {name.rpartition(".")[2] for name in FILES} == set(FORMATS)


def test_every_byte_of_a_binary_column() -> None:
    target = target_of(*described(FIXTURES / "canal_json/types_bins.schema.json"))
    assert bytes(range(256)) in {value for row in decoded("types_bins.ts", target) for value in row[4:]}


def test_virtual_and_hidden_columns_are_not_in_the_rows() -> None:
    columns, key, table = described(FOLDER / "gen.schema.json")
    stored = [column for column in columns if column.name not in ("v", "vs")]
    rows = decoded("gen.ts", target_of(stored, key, table), stored)
    assert rows[0] == (470611812319232001, True, 0, 0, "1", "2", "3", "6", '{"n": "nm"}', "nm")
    assert rows[-1] == (470611812319494149, False, 0, 0, "2", "-1", "5", "-5", None, None)


def test_a_table_with_no_key_is_a_delete_and_a_put_an_update() -> None:
    target = target_of(*described(FIXTURES / "canal_json/keyless_t.schema.json"))
    assert not target.key
    assert Counter(decoded("keyless_t.old", target)) == Counter(canal("keyless_t", target))


def test_a_table_with_no_key_stops_where_updates_have_no_old_row() -> None:
    target = target_of(*described(FIXTURES / "canal_json/keyless_t.schema.json"))
    with pytest.raises(CannotBeExact) as caught:
        decoded("keyless_t.ts", target)
    assert "output-old-value=true" in caught.value.hint
