"""Who reads what the program writes: ``python -m tests.e2e.readers_report [--write]``.

Tables of every type, with statements behind their rows, and with odd names of columns are written to each target. Each
reader reads them by its own libraries. It is right where it gives what the format's own engine gives: Spark of a lake,
DuckDB 2 of a DuckDB file. The outcome is the table of docs/readers.md, which ``--write`` writes. Without it the exit
status is 1 where the document has another one.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from consumer import app
from consumer.config.load import load
from consumer.model.actions import Action
from consumer.model.columns import Column
from consumer.spark.load import SparkLoader
from tests.support.build import ID, VALUE
from tests.support.canal_json import typed_line
from tests.support.feed import Feed
from tests.support.lakes import lake_loader, lake_sink, lake_tables
from tests.support.observers import Recorder
from tests.support.shown_rows import Rows, row_texts
from tests.support.type_storage import DATABASE, TypeStorage

ROOT = Path(__file__).parents[2]
DOCUMENT = ROOT / "docs" / "readers.md"
BEGIN, END = "<!-- written by tests.e2e.readers_report -->\n", "<!-- end -->\n"
ASPECTS: Mapping[str, Callable[[str], bool]] = {
    "types": lambda table: table.startswith(f"{DATABASE}."),
    "statements": lambda table: table == "d.changed",
    "odd names": lambda table: table == "d.odd",
}
"""What a reader can stop at, and the tables that show it."""
_LAST, _SHOWN = 70, 3
"""Characters of an error, and tables, that are shown."""
_DUCKDB = """
import importlib, pathlib, duckdb
connection = duckdb.connect()
connection.execute("SET TimeZone = 'UTC'")
for name in ("avro", "iceberg", "delta"):
    try:
        module = importlib.import_module("duckdb_extension_" + name)
    except ImportError:
        continue
    (file,) = pathlib.Path(module.__path__[0]).rglob("*.duckdb_extension")
    connection.execute(f"LOAD '{file}'")
def rows_of(text):
    relation = connection.sql(text)
    return [dict(zip(relation.columns, row)) for row in relation.fetchall()]
"""
_FILE = f"""{_DUCKDB}
def read(place):
    file, _, table = place.partition("#")
    name = f"of_{{len(file)}}_{{sum(file.encode())}}"
    connection.execute(f"ATTACH IF NOT EXISTS '{{file}}' AS {{name}} (READ_ONLY)")
    return rows_of(f'SELECT * FROM {{name}}.{{table}}')
"""
_LAKES = {
    "delta": f"{_DUCKDB}\ndef read(place): return rows_of(f\"SELECT * FROM delta_scan('{{place}}')\")\n",
    "iceberg": f"""{_DUCKDB}
connection.execute("SET unsafe_enable_version_guessing = true")
def read(place): return rows_of(f"SELECT * FROM iceberg_scan('{{place}}', version = '?')")
""",
}
_POLARS = {
    "delta": "import polars\ndef read(place): return polars.read_delta(place).to_dicts()\n",
    "iceberg": """
import polars
from pyiceberg.table import StaticTable
def read(place): return polars.scan_iceberg(StaticTable.from_metadata(place)).collect().to_dicts()
""",
}
_DELTALAKE = """
from deltalake import DeltaTable
def read(place): return DeltaTable(place).to_pyarrow_table().to_pylist()
"""
_PYICEBERG = """
from pyiceberg.table import StaticTable
def read(place): return StaticTable.from_metadata(place).scan().to_arrow().to_pylist()
"""


@dataclass(frozen=True)
class Reader:
    """`libraries` are what pip installs for it, () where the project has them. `programs` define `read`, by the kind of
    the target."""

    name: str
    libraries: tuple[str, ...]
    programs: Mapping[str, str]

    @property
    def python(self) -> Path:
        folder = ROOT / "build" / "readers" / self.libraries[0].replace("==", "-") if self.libraries else None
        return Path(sys.executable) if folder is None else folder / "bin" / "python"

    def install(self) -> None:
        complete = self.python.with_name("complete")
        if self.libraries and not complete.exists():
            subprocess.run([sys.executable, "-m", "venv", self.python.parents[1]], check=True)
            subprocess.run([self.python, "-m", "pip", "install", "-q", *self.libraries], check=True)
            complete.touch()

    def read(self, kind: str, places: Mapping[str, str]) -> dict[str, Rows | str]:
        """The rows of each table, or why it cannot be read."""
        program = (
            f"import json, sys\nsys.path.append({str(ROOT)!r})\nfrom tests.support.shown_rows import read_all\n"
            f"{self.programs[kind]}\nprint(json.dumps(read_all(read, json.loads(sys.argv[1]))))"
        )
        command = [self.python, "-c", program, json.dumps(dict(places))]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            return dict.fromkeys(places, (done.stderr.strip().splitlines() or ["it was killed"])[-1])
        found: dict[str, Rows | str] = json.loads(done.stdout.splitlines()[-1])
        return found


def _duckdb(release: str) -> Reader:
    extensions = [f"duckdb-extension-{name}=={release}" for name in ("delta", "iceberg", "avro")]
    return Reader(f"DuckDB {release}", (f"duckdb=={release}", "pytz", *extensions), {"duckdb": _FILE, **_LAKES})


_OF_ARROW = ("polars==2.1.0", "deltalake==1.6.6", "pyiceberg==0.12.0", "pyarrow==26.0.1")
READERS = (
    Reader("DuckDB 1.2.2", ("duckdb==1.2.2", "pytz"), {"duckdb": _FILE}),
    _duckdb("1.4.4"),
    _duckdb("1.5.5"),
    Reader("DuckDB 2.0.0", (), {"duckdb": _FILE}),
    Reader("Polars 2.1.0", _OF_ARROW, _POLARS),
    Reader("deltalake 1.6.6", _OF_ARROW, {"delta": _DELTALAKE}),
    Reader("PyIceberg 0.12.0", _OF_ARROW, {"iceberg": _PYICEBERG}),
)


@dataclass(frozen=True)
class Target:
    """`properties` are what `[[consumer.lake-tables]]` gives its tables."""

    name: str
    kind: str
    properties: Mapping[str, str] = field(default_factory=dict)


TARGETS = (
    Target("DuckDB file", "duckdb"),
    Target("Delta", "delta"),
    Target("Delta with column mapping", "delta", {"delta.columnMapping.mode": "name"}),
    Target("Delta with deletion vectors", "delta", {"delta.enableDeletionVectors": "true"}),
    Target("Iceberg", "iceberg"),
    Target("Iceberg with copy-on-write", "iceberg", {"write.merge.mode": "copy-on-write"}),
)


def storages(folder: Path) -> list[tuple[Feed, tuple[int, ...]]]:
    """Each with the checkpoints of its rounds."""
    feed, u = Feed(folder / "cdc"), Column("u", "INT")
    feed.database("d", 1)
    feed.create("d.changed", 10)
    feed.puts("d.changed", 10, {11: (1, "1"), 12: (2, "2"), 13: (3, "3"), 14: (4, "4")})
    gone, changed = {"id": "1", "v": "1"}, {"id": "2", "v": "7"}
    lines = typed_line((ID, VALUE), 21, gone, "DELETE", table="changed")
    lines += typed_line((ID, VALUE), 22, changed, "UPDATE", old=[{"id": "2", "v": "2"}], table="changed")
    feed.file("d.changed", 10, lines)
    renamed = "ALTER TABLE `changed` CHANGE `v` `u` INT"
    feed.statement("d.changed", 31, Action.MODIFY_COLUMN, renamed, (ID, u))
    added = (ID, u, Column("w", "VARCHAR", length=9, default="new"))
    query = "ALTER TABLE `changed` ADD `w` VARCHAR(9) DEFAULT 'new'"
    feed.statement("d.changed", 32, Action.ADD_COLUMN, query, added)
    feed.file("d.changed", 32, typed_line(added, 33, {"id": "5", "u": "5", "w": "x"}, table="changed"))
    odd = (ID, *(Column(name, "INT") for name in ("größe", "select", "a.b", "a b")))
    declared = ",".join(f"`{column.name}` INT{' PRIMARY KEY' * column.is_pk}" for column in odd)
    feed.statement("d.odd", 15, Action.CREATE_TABLE, f"CREATE TABLE `odd` ({declared})", odd)
    feed.file("d.odd", 15, typed_line(odd, 16, {column.name: "1" for column in odd}, table="odd"))
    return [(feed, (20, 30, 40)), (TypeStorage(folder / "types", None), (40,))]


def written(target: Target, folder: Path, loader: SparkLoader) -> tuple[dict[str, str], dict[str, Rows]]:
    """Where each table of the target is, and the rows of those of a lake by Spark. Raises RuntimeError for one that is
    not complete."""
    places: dict[str, str] = {}
    rows: dict[str, Rows] = {}
    rules = [{"tables": ["*.*"], "properties": dict(target.properties)}] if target.properties else []
    for feed, checkpoints in storages(folder):
        root = folder / f"{feed.folder.name}-{target.kind}"
        uri = f"duckdb:///{root}.duckdb" if target.kind == "duckdb" else f"{target.kind}://{root}"
        flags = {"upstream_uri": f"file://{feed.folder}?protocol=canal-json", "downstream_uri": uri, "tz": "UTC"}
        for checkpoint in checkpoints:
            feed.checkpoint(checkpoint)
            result = app.once(load({**flags, "lake_tables": rules}, {}).settings, Recorder(), loader)
        if wrong := {name: table.error for name, table in result.tables.items() if table.error}:
            raise RuntimeError(f"{target.name}: {wrong}")
        if target.kind == "duckdb":
            places |= {str(name): f'{root}.duckdb#"{name.database}"."{name.table}"' for name in result.tables}
        else:
            of_lake = lake_sink(uri, loader)._progress.lake_tables.values()
            found = {str(table.replica.name): table.location for table in of_lake}
            in_folder = {
                name: place if "/" in place else f"{root}/{place.replace('.', '/')}" for name, place in found.items()
            }
            places |= in_folder
            rows |= {str(name): row_texts(table.to_pylist()) for name, table in lake_tables(uri, loader).items()}
    return places, rows


def cell(found: Mapping[str, Rows | str], right: Mapping[str, Rows | str]) -> str:
    """What a reader made of a target's tables: ``yes``, or what it lacks."""
    why = {name: _difference(found[name], rows) for name, rows in right.items()}
    wrong = {name: text for name, text in why.items() if text}
    if not wrong:
        return "yes"
    if len(wrong) == len(right) and len(set(wrong.values())) == 1:
        return f"no: {next(iter(wrong.values()))}"
    lacks = []
    for aspect, shows in ASPECTS.items():
        if names := sorted(name.partition(".")[2] for name in wrong if shows(name)):
            some = ", ".join(names[:_SHOWN]) + (f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else "")
            first = next(text for name, text in wrong.items() if shows(name))
            lacks.append(
                f"no {aspect}: {some if len(names) > 1 or aspect == 'types' else ''} ({first})".replace(":  (", " (")
            )
    return "; ".join(lacks)


def _difference(found: Rows | str, right: Rows | str) -> str:
    if not isinstance(found, str):
        return "" if found == right else "other values"
    text = found.replace("|", "/")
    return text if len(text) <= _LAST else f"{text[:_LAST]}.."


def table(lines: Sequence[Sequence[str]]) -> str:
    head = ("", *(reader.name for reader in READERS))
    return "".join(f"| {' | '.join(line)} |\n" for line in (head, ("---",) * len(head), *lines))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--write", action="store_true", help="write the table into docs/readers.md")
    args = parser.parse_args()
    for reader in READERS:
        reader.install()
    lines, loader = [], lake_loader(inline=True)
    for target in TARGETS:
        with tempfile.TemporaryDirectory(prefix="readers-") as folder:
            places, right = written(target, Path(folder), loader)
            found = {
                reader.name: reader.read(target.kind, places) for reader in READERS if target.kind in reader.programs
            }
        expected = right or found["DuckDB 2.0.0"]
        lines.append([target.name, *(cell(found[r.name], expected) if r.name in found else "" for r in READERS)])
        print(*lines[-1], sep=" | ", flush=True)
    text = DOCUMENT.read_text(encoding="utf-8")
    before, rest = text.split(BEGIN)
    after = rest.partition(END)[2]
    new = f"{before}{BEGIN}{table(lines)}{END}{after}"
    if args.write:
        DOCUMENT.write_text(new, encoding="utf-8")
    elif new != text:
        print(f"{DOCUMENT} has another table: run it with --write, and look at what has changed")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
