"""Every type and value of the type cases, from the files to each target. docs/types.md is made of the same cases."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import duckdb
import pytest

from consumer import app
from consumer.codec.csv.options import CsvFormat
from consumer.config.load import load
from consumer.config.settings import Settings
from tests.servers import MariaDb
from tests.support.inline_loader import InlineLoader
from tests.support.observers import Recorder
from tests.support.type_cases import ZONE, Value
from tests.support.type_storage import DATABASE, CaseTable, TypeStorage

FORMATS = {
    "canal-json": None,
    "csv": CsvFormat(include_commit_ts=True),
    "csv-escaped": CsvFormat(delimiter="[*]", quote="", include_commit_ts=True, binary_encoding_method="hex"),
}
Rows = Sequence[Sequence[Any]]


@pytest.fixture(params=FORMATS)
def storage(request: pytest.FixtureRequest, tmp_path: Path) -> TypeStorage:
    return TypeStorage(tmp_path / "storage", FORMATS[request.param])


@pytest.fixture(params=["load data", "statements"])
def server(request: pytest.FixtureRequest, fresh_mariadb: MariaDb) -> Iterator[MariaDb]:
    """A server that takes rows in this way."""
    fresh_mariadb.learn_zone(ZONE)
    fresh_mariadb.execute(f"SET GLOBAL local_infile = {int(request.param == 'load data')}")
    yield fresh_mariadb
    fresh_mariadb.execute("SET GLOBAL local_infile = 1")


def test_mariadb_holds_every_value(storage: TypeStorage, server: MariaDb) -> None:
    apply(storage, server.url())
    connection = server.connect(init_command="SET time_zone = '+00:00'")
    with connection, connection.cursor() as cursor:

        def rows(table: CaseTable) -> Rows:
            columns = ", ".join(case.read.format(f"`{case.column.name}`") for case in table.cases)
            cursor.execute(f"SELECT {columns} FROM `{DATABASE}`.`{table.name}`")
            return cursor.fetchall()

        assert differences(storage, rows, lambda value: value.mariadb) == []


def test_duckdb_holds_every_value(storage: TypeStorage, tmp_path: Path) -> None:
    file = tmp_path / "replica.duckdb"
    apply(storage, f"duckdb:///{file}")
    with duckdb.connect(str(file)) as connection:

        def rows(table: CaseTable) -> Rows:
            relation = connection.table(f'{DATABASE}."{table.name}"')
            assert list(map(str, relation.types)) == [case.duckdb_type for case in table.cases]
            return relation.fetchall()

        assert differences(storage, rows, lambda value: value.duckdb) == []


def apply(storage: TypeStorage, target: str) -> Settings:
    """Apply the storage; nothing may be stopped. The settings of the run."""
    flags: dict[str, object] = {"downstream_uri": target, "tz": ZONE}
    protocol = "canal-json"
    if csv := storage.csv:
        protocol = "csv"
        flags |= {"csv_delimiter": csv.delimiter, "csv_quote": csv.quote or "none", "csv_include_commit_ts": True}
        flags |= {"csv_binary_encoding_method": csv.binary_encoding_method, "csv_null": csv.null}
    flags["upstream_uri"] = f"file://{storage.folder}?protocol={protocol}"
    observer = Recorder()
    settings = load(flags, {}).settings
    app.once(settings, observer, InlineLoader())
    assert {str(table): str(error) for table, error in observer.stopped.items()} == {}
    return settings


def differences(
    storage: TypeStorage, rows: Callable[[CaseTable], Rows], side: Callable[[Value], object]
) -> list[tuple[str, str, str]]:
    """(column, expected, found) for each value that is not there as it must be. `repr` tells -0.0 from 0.0."""
    wrong = []
    for table in storage.tables:
        expected = sorted([[repr(value and side(value)) for value in row] for row in table.final])
        found = sorted([list(map(repr, row)) for row in rows(table)])
        assert len(found) == len(expected), table.name
        names = [f"{table.name}.{case.column.name}" for case in table.cases]
        for wanted, held in zip(expected, found, strict=True):
            wrong += [cell for cell in zip(names, wanted, held, strict=True) if cell[1] != cell[2]]
    return wrong
