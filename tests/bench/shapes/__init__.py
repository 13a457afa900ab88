"""The shapes by name."""

from __future__ import annotations

from tests.bench.shapes.base import Shape
from tests.bench.shapes.bulk import (
    CsvInserts,
    HotUpdates,
    Inserts,
    InsertsAsProcess,
    LargeValues,
    Mixed,
    OneTransaction,
    SnapshotAtOnce,
    TableAtOnce,
    WideRows,
)
from tests.bench.shapes.decode import DecodeCsv, DecodeJson
from tests.bench.shapes.elsewhere import InsertsIntoDuckDb, OnCluster, UpdatesIntoDuckDb
from tests.bench.shapes.lakes import (
    DeltaInserts,
    DeltaTables,
    DeltaUpdates,
    IcebergInserts,
    IcebergTables,
    IcebergUpdates,
    StateOfUpdates,
)
from tests.bench.shapes.start import Cold, NothingNew, NothingNew5, NothingNewOnS3
from tests.bench.shapes.tables import ManyTables, SmallFiles, Tables1, Tables5, Tables20
from tests.bench.shapes.verified import Verified

SHAPES: dict[str, type[Shape]] = {
    shape.name: shape
    for shape in (
        Inserts, CsvInserts, HotUpdates, ManyTables, Mixed, WideRows, LargeValues, InsertsIntoDuckDb,
        UpdatesIntoDuckDb, Cold, NothingNew, SmallFiles, DecodeJson, DecodeCsv,
    )
}  # fmt: skip
MORE: dict[str, type[Shape]] = {
    shape.name: shape
    for shape in (
        Tables1, Tables5, Tables20, NothingNew5, NothingNewOnS3, OneTransaction, OnCluster, Verified, TableAtOnce,
        SnapshotAtOnce, InsertsAsProcess, DeltaInserts, DeltaUpdates, DeltaTables, IcebergInserts, IcebergUpdates,
        IcebergTables, StateOfUpdates,
    )
}  # fmt: skip
"""These take long, so they are measured when they are named."""

__all__ = ["MORE", "SHAPES", "Shape"]
