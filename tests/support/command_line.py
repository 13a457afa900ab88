"""The command line in this process, with the rows on a loader that needs no Spark, on copies of a small changefeed."""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import pytest

import consumer.app.parts
from consumer.cli.main import main
from tests.support.inline_loader import InlineLoader

DEMO = Path(__file__).parents[2] / "fixtures" / "cdc" / "demo"
DEMO_TABLES = {
    "n": [(2, 2)],
    "s": [(100, 1, "z")],
    "t": [(1, 10, 1, 2), (2, 22, 22, 1), (4, 4, 5, 1), (6, 66, 6, 1), (7, 7, 7, 7), (8, 8, 9, 8), (20, 3, 3, 1)],
}
"""What upstream's own tables in database du held at the end of the changefeed."""
T_CREATED, T_WIDENED = 470611618363867136, 470611620450271234
S_CREATED, S_TRUNCATED = 470611618366488576, 470611623654981632
N_CREATED = 470611622298910720


class _Inline(InlineLoader):
    """Takes SparkLoader's place."""

    def __init__(self, _settings: object) -> None:
        super().__init__()


@dataclass(frozen=True)
class Left:
    """What a command left behind."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> dict[str, Any]:
        """The last line of stdout, which must be all of it that a program has to read."""
        body: dict[str, Any] = json.loads(self.out.splitlines()[-1])
        return body

    @property
    def states(self) -> dict[str, str]:
        return {name: table["state"] for name, table in self.json["tables"].items()}


@dataclass(frozen=True)
class CommandLine:
    """`storage` is a copy of the demo changefeed that a test may damage."""

    storage: Path
    target: str
    capsys: pytest.CaptureFixture[str]

    def run(self, command: str, *more: str) -> Left:
        """Run a command on the storage and the target; later flags win over these."""
        flags = ["--upstream-uri", f"file://{self.storage}?protocol=canal-json", "--downstream-uri", self.target]
        return self.raw(command, *flags, "--tz", "UTC", "--log-level", "error", *more)

    def raw(self, *arguments: str) -> Left:
        self.capsys.readouterr()
        with pytest.raises(SystemExit) as left:
            main(arguments)
        shown = self.capsys.readouterr()
        assert "Traceback" not in shown.out + shown.err
        assert "this is a bug" not in shown.err
        return Left(int(left.value.code or 0), shown.out, shown.err)

    def data_file(self, table: str, version: int, number: int) -> Path:
        return self.storage / "du" / table / str(version) / "2026-11-21" / f"CDC{number:020d}.json"

    def schema_file(self, table: str, version: int) -> Path:
        return next((self.storage / "du" / table / "meta").glob(f"schema_{version}_*.json"))

    def mend(self) -> None:
        """Put back every file of the changefeed as TiCDC wrote it."""
        shutil.copytree(DEMO, self.storage, dirs_exist_ok=True)


def command_line(folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> CommandLine:
    """A copy of the demo changefeed in `folder`, and a DuckDB file beside it as the target."""
    monkeypatch.setattr(consumer.app.parts, "SparkLoader", _Inline)
    monkeypatch.chdir(folder)
    shutil.copytree(DEMO, folder / "storage")
    return CommandLine(folder / "storage", f"duckdb:///{folder}/replica.duckdb", capsys)


def duckdb_tables(target: str) -> dict[str, list[tuple[Any, ...]]]:
    """The demo's tables as they are in a DuckDB target."""
    with duckdb.connect(target.removeprefix("duckdb:///"), read_only=True) as connection:
        return {table: connection.execute(f'SELECT * FROM du."{table}" ORDER BY 1').fetchall() for table in DEMO_TABLES}
