"""``python -m tests.e2e.readers_report [docs/readers.md]``: which readers read which targets, tried.

A storage with all types, odd names of columns, deleted and changed rows, a RENAME COLUMN and an ADD COLUMN with a
default is applied to each target. Each reader reads it in a virtual environment of its own (build/readers), and must
give what the reference gives: Spark for a lake, this release of DuckDB for a DuckDB file. With a path the page is
written; without one the exit code is 1 if the page in docs is another one.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import duckdb
import pyspark

from consumer import app
from consumer.config.load import load
from consumer.config.settings import Settings
from consumer.model.actions import Action
from consumer.model.columns import Column
from consumer.sink.lake.jars import ARTIFACTS
from consumer.spark.load import SparkLoader
from tests.support.build import ID, VALUE
from tests.support.canal_json import typed_line
from tests.support.inline_loader import InlineLoader
from tests.support.lakes import lake_loader, lake_tables
from tests.support.observers import Recorder
from tests.support.shown_rows import answer_of, duckdb_file, of_arrow
from tests.support.type_cases import FAMILIES
from tests.support.type_storage import DATABASE, TypeStorage

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "readers.md"
VENVS = ROOT / "build" / "readers"
SCRIPT = ROOT / "tests" / "support" / "shown_rows.py"
SHOP = "d.shop"
SPACED = "d.spaced"
TYPES = tuple(f"{DATABASE}.{family.replace(' ', '_')}" for family in FAMILIES)


@dataclass(frozen=True)
class Target:
    """`properties` are those of its tables in a lake. `spaced`: only the table that has a space in the name of a
    column, else all others."""

    name: str
    scheme: str
    properties: str = ""
    spaced: bool = False

    @property
    def tables(self) -> tuple[str, ...]:
        return (SPACED,) if self.spaced else (*TYPES, SHOP)

    def uri(self, folder: Path) -> str:
        return f"duckdb:///{folder}/r.duckdb" if self.scheme == "duckdb" else f"{self.scheme}://{folder}/lake"

    def place(self, table: str, folder: Path) -> str:
        return f"{folder}/r.duckdb#{table}" if self.scheme == "duckdb" else f"{folder}/lake/{table.replace('.', '/')}"


TARGETS = (
    Target("DuckDB file", "duckdb"),
    Target("Delta", "delta"),
    Target("Delta, a space in a column's name", "delta", spaced=True),
    Target("Delta, `delta.columnMapping.mode = name`", "delta", 'properties = {"delta.columnMapping.mode" = "name"}'),
    Target("Delta, `delta.enableDeletionVectors`", "delta", 'properties = {"delta.enableDeletionVectors" = "true"}'),
    Target("Iceberg", "iceberg"),
    Target("Iceberg, `copy-on-write`", "iceberg", "copy-on-write = true"),
)


@dataclass(frozen=True)
class Reader:
    """`reads` are the functions of shown_rows.py, by the scheme of a target; `pins` what its environment has."""

    name: str
    pins: tuple[str, ...]
    reads: Mapping[str, str]

    @cached_property
    def python(self) -> Path:
        """Returns the Python of its environment, which is made if it is missing."""
        folder = VENVS / "-".join(pin.replace("==", "-") for pin in self.pins[:1])
        if not (folder / "done").is_file():
            subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
            subprocess.run([str(folder / "bin" / "pip"), "install", "-q", *self.pins], check=True)
            (folder / "done").touch()
        return folder / "bin" / "python"

    def answer(self, scheme: str, places: Mapping[str, str]) -> dict[str, Any]:
        command = [str(self.python), str(SCRIPT), self.reads[scheme], json.dumps(places)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            lines = done.stderr.strip().splitlines() or [f"exit code {done.returncode}"]
            return {table: {"error": lines[-1][:300]} for table in places}
        answer: dict[str, Any] = json.loads(done.stdout)
        return answer


def of_duckdb(release: str, *extensions: str) -> Reader:
    pins = (f"duckdb=={release}", *(f"duckdb-extension-{name}=={release}" for name in extensions))
    reads = {"duckdb": "duckdb_file"} | {name: f"duckdb_{name}" for name in extensions if name != "avro"}
    return Reader(f"DuckDB {release}", (*pins, "pytz"), reads)


READERS = (
    of_duckdb("1.2.2", "delta"),
    of_duckdb("1.4.4", "delta", "avro", "iceberg"),
    of_duckdb("1.5.5", "delta", "avro", "iceberg"),
    of_duckdb("2.0.1"),
    Reader(
        "Polars 2.1.0",
        ("polars==2.1.0", "deltalake==1.6.6", "pyiceberg==0.12.0", "pyarrow"),
        {"delta": "polars_delta", "iceberg": "polars_iceberg"},
    ),
    Reader("deltalake 1.6.6, `to_pyarrow_table`", ("deltalake==1.6.6", "pyarrow"), {"delta": "deltalake_table"}),
    Reader("deltalake 1.6.6, `QueryBuilder`", ("deltalake==1.6.6", "pyarrow"), {"delta": "deltalake_query"}),
    Reader("PyIceberg 0.12.0", ("pyiceberg==0.12.0", "pyarrow"), {"iceberg": "pyiceberg"}),
)


class Upstream(TypeStorage):
    """The types, and two tables that go through statements."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, None)
        self.database("d", 5)
        self._columns = (ID, Column("größe", "VARCHAR", length=20), VALUE)
        self._create(SHOP, self._columns)
        self._create(SPACED, (ID, Column("a b", "INT")))
        rows = {number: {"id": str(number), "größe": f"größe {number}", "v": str(number)} for number in range(1, 7)}
        self.file(SHOP, 10, b"".join(self._line(SHOP, self._columns, 20, row) for row in rows.values()))
        spaced = (ID, Column("a b", "INT"))
        self.file(SPACED, 10, b"".join(self._line(SPACED, spaced, 20, {"id": n, "a b": n}) for n in ("1", "2")))

    def go_on(self) -> None:
        """Executes statements, and changes rows after them."""
        renamed = (*self._columns[:2], replace(VALUE, name="select"))
        more = (*renamed, Column("n", "INT"))
        self.statement(SHOP, 110, Action.MODIFY_COLUMN, "ALTER TABLE `shop` RENAME COLUMN `v` TO `select`", renamed)
        self.statement(SHOP, 120, Action.ADD_COLUMN, "ALTER TABLE `shop` ADD COLUMN `n` INT DEFAULT 7", more)
        old = {"id": "2", "größe": "größe 2", "select": "2", "n": "7"}
        changed = self._line(SHOP, more, 130, old | {"größe": "klein"}, "UPDATE", old=[old])
        gone = {"id": "3", "größe": "größe 3", "select": "3", "n": "7"}
        self.file(SHOP, 120, changed + self._line(SHOP, more, 130, gone, "DELETE"))
        self.checkpoint(200)

    def _create(self, table: str, columns: tuple[Column, ...]) -> None:
        types = {"INT": "INT", "VARCHAR": "VARCHAR(20)"}
        text = ",".join(f"`{column.name}` {types[column.type]}{' PRIMARY KEY' * column.is_pk}" for column in columns)
        query = f"CREATE TABLE `{table.partition('.')[2]}` ({text})"
        self.statement(table, 10, Action.CREATE_TABLE, query, columns)

    def _line(  # type: ignore[override]
        self, table: str, columns: tuple[Column, ...], ts: int, row: dict[str, Any], kind: str = "INSERT", **more: Any
    ) -> bytes:
        return typed_line(columns, ts, row, kind, table=table.partition(".")[2], **more)


def settings_of(upstream: Upstream, target: Target, folder: Path) -> Settings:
    config = folder / "rules.toml"
    rule = f'[[consumer.lake-tables]]\ntables = ["*.*"]\n{target.properties}\n' if target.properties else ""
    config.write_text(rule, encoding="utf-8")
    given = {
        "upstream_uri": f"file://{upstream.folder}?protocol=canal-json",
        "downstream_uri": target.uri(folder),
        "tables": target.tables,
        "tz": "UTC",
    }
    return load(given, {}, str(config)).settings


def reference(target: Target, folder: Path, loader: SparkLoader) -> dict[str, Any]:
    """What the reader of reference gives."""
    if target.scheme == "duckdb":
        return {table: answer_of(duckdb_file(target.place(table, folder))) for table in target.tables}
    tables = lake_tables(target.uri(folder), loader)
    return {str(name): answer_of(of_arrow(tables[name])) for name in sorted(tables)}


def cell(wanted: Mapping[str, Any], given: Mapping[str, Any]) -> tuple[str, list[str]]:
    """Returns what the table of the page says of one reader and one target, and the remarks about it."""
    remarks = []
    for table, right in wanted.items():
        answer = given[table]
        if "error" in answer:
            remarks.append(f"{table}: {answer['error']}")
        elif answer["columns"] != right["columns"]:
            remarks.append(f"{table}: its columns are {answer['columns']}")
        elif answer["rows"] != right["rows"]:
            pairs = zip(answer["rows"], right["rows"], strict=False)
            other = next(
                (
                    f"{name} is {mine}, and {its} for the reference"
                    for row, true in pairs
                    for name, mine, its in zip(right["columns"], row, true, strict=True)
                    if mine != its
                ),
                f"{len(answer['rows'])} rows in place of {len(right['rows'])}",
            )
            remarks.append(f"{table}: {other}")
    return ("yes" if not remarks else "no" if len(remarks) == len(wanted) else "in part"), remarks


def report(loader: SparkLoader) -> Iterator[tuple[Target, Reader, str, list[str]]]:
    with tempfile.TemporaryDirectory(prefix="readers-") as name:
        storage = Path(name) / "storage"
        folders = [Path(name) / str(number) for number in range(len(TARGETS))]
        upstream = Upstream(storage)
        for more in (False, True):
            if more:
                upstream.go_on()
            for target, folder in zip(TARGETS, folders, strict=True):
                folder.mkdir(exist_ok=True)
                of_file = target.scheme == "duckdb"
                result = app.once(
                    settings_of(upstream, target, folder), Recorder(), InlineLoader() if of_file else loader
                )
                assert result.exit_code == 0, (target, result)
        for target, folder in zip(TARGETS, folders, strict=True):
            wanted = reference(target, folder, loader)
            assert sorted(wanted) == sorted(target.tables)
            places = {table: target.place(table, folder) for table in wanted}
            for reader in READERS:
                if target.scheme in reader.reads:
                    yield target, reader, *cell(wanted, reader.answer(target.scheme, places))


def page(loader: SparkLoader) -> str:
    cells: dict[tuple[str, str], str] = {}
    notes: list[str] = []
    for target, reader, said, remarks in report(loader):
        print(f"{reader.name}: {target.name}: {said}", *remarks, sep="\n  ", flush=True)
        cells[target.name, reader.name] = said
        notes += [f"- {reader.name}, {target.name}: {remark}" for remark in remarks[:1]]
    jars = ", ".join(artifact.partition(":")[2] for name in ("delta", "iceberg") for artifact in ARTIFACTS[name])
    head = ["Target", *(reader.name for reader in READERS)]
    rows = [[target.name, *(cells.get((target.name, reader.name), "–") for reader in READERS)] for target in TARGETS]
    table = [f"| {' | '.join(row)} |" for row in (head, ["---"] * len(head), *rows)]
    return "\n".join(
        [
            "# Who reads the targets",
            "",
            "Generated by `python -m tests.e2e.readers_report docs/readers.md`. Each target has a table for each",
            "family of types, and one with odd names, changed and deleted rows, a RENAME COLUMN and an ADD COLUMN.",
            f"**yes**: the reader gives each value that the reference gives: Spark {pyspark.__version__} ({jars})",
            f"for a lake, DuckDB {duckdb.__version__} for a file. **in part**: some tables.",
            "**–**: the reader has no such format, or its extension could not be had for the try.",
            "",
            *table,
            "",
            "What was not read:",
            "",
            *(notes or ["- nothing"]),
            "",
        ]
    )


def main() -> int:
    loader = lake_loader()
    try:
        text = page(loader)
    finally:
        loader.close()
    if len(sys.argv) > 1:
        Path(sys.argv[1]).write_text(text, encoding="utf-8")
    elif PAGE.read_text(encoding="utf-8") != text:
        print(f"{PAGE} is another one than this run gives:\n{text}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
