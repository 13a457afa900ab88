"""Bytes to Arrow, and nothing else: by the program's decoders, and by Arrow's parsers alone."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pyarrow.json

from consumer.changes.folding import decoded
from consumer.codec.csv.options import CsvFormat
from consumer.model.load import Dialect, FileSlice, FileStat, LoadTarget, LoadTask, TableLoad
from consumer.model.names import TableName
from consumer.model.steps import Window
from consumer.model.times import MAX_TSO
from consumer.storage import open_files
from consumer.storage.settings import StorageSettings
from tests.bench import generate
from tests.bench.rows import SYSBENCH


def decode_alone(storage: Path) -> int:
    """Decode every data file of `storage` in this thread; the rows."""
    csv = next(storage.rglob("CDC*.csv"), None) is not None
    target = LoadTarget(
        TableLoad(TableName(generate.DATABASE, "t")),
        SYSBENCH.columns,
        tuple(column.name for column in SYSBENCH.columns),
        (0,),
    )
    dialect = Dialect("csv", options=CsvFormat(include_commit_ts=True)) if csv else Dialect()
    all_time = Window(0, MAX_TSO - 1)
    slices = tuple(_slices(storage, all_time))
    task = LoadTask(0, target, all_time, slices, dialect, (SYSBENCH.columns,))
    reader = open_files(StorageSettings.from_uri(f"file://{storage}"))
    stats: list[FileStat] = []
    for _ in decoded(reader, slices, task, stats):
        pass
    return sum(stat.rows for stat in stats)


def _slices(storage: Path, window: Window) -> Iterator[FileSlice]:
    for number, path in enumerate(sorted([*storage.rglob("CDC*.json"), *storage.rglob("CDC*.csv")])):
        size = path.stat().st_size
        yield FileSlice(str(path.relative_to(storage)), 0, size, size, 0, number << 40, window, window)


def parse_alone(storage: Path, use_threads: bool = False) -> None:
    """Read every data file of `storage` with pyarrow, as text columns."""
    row = pa.struct([(column.name, pa.string()) for column in SYSBENCH.columns])
    schema = pa.schema([("type", pa.string()), ("old", pa.list_(row)), ("data", pa.list_(row))])
    schema = schema.append(pa.field("_tidb", pa.struct([("commitTs", pa.int64())])))
    parse = pyarrow.json.ParseOptions(explicit_schema=schema, unexpected_field_behavior="ignore")
    for path in sorted(storage.rglob("CDC*.json")):
        read = pyarrow.json.ReadOptions(use_threads=use_threads, block_size=8 << 20)
        pyarrow.json.read_json(path, read_options=read, parse_options=parse)
    names = [f"f{number}" for number in range(4 + len(SYSBENCH.columns))]
    convert = pyarrow.csv.ConvertOptions(column_types=dict.fromkeys(names, pa.string()))
    for path in sorted(storage.rglob("CDC*.csv")):
        options = pyarrow.csv.ReadOptions(use_threads=use_threads, block_size=8 << 20, column_names=names)
        pyarrow.csv.read_csv(path, read_options=options, convert_options=convert)
