"""Recorded TiCDC storages with the upstream's own states: which there are, and how one is fed to the consumer."""

from __future__ import annotations

import json
import runpy
import shutil
import sys
import tarfile
import tempfile
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass, field
from functools import cache
from io import StringIO
from pathlib import Path
from typing import Any

import pytest

from consumer import app
from consumer.config.load import load
from consumer.config.settings import Settings
from consumer.model.names import TableName
from consumer.model.naming import Naming, naming_of, routes_of
from consumer.ports import Loader
from consumer.results import RunResult
from tests.support.observers import Recorder

COMPARE = Path(__file__).parents[2] / "fixtures" / "compare_mysql.py"


@dataclass(frozen=True)
class Case:
    """One recorded storage: the state it must end in, the states on its way, and what is special about it."""

    name: str
    folder: Path
    state: str
    steps: tuple[str, ...]
    note: str
    flags: Mapping[str, object] = field(default_factory=dict)
    """Settings for its runs, besides its own."""

    @property
    def protocol(self) -> str:
        return "csv" if 'protocol = "csv"' in (self.folder / "config.toml").read_text() else "canal-json"

    def expected(self, step: str | None = None) -> Path:
        return self.folder / "expected" / (f"checkpoint_{step}" if step else self.state)

    @contextmanager
    def wanted(self, step: str | None) -> Iterator[tuple[Path, Naming]]:
        """The folder of the state at `step`, with the names that the target's tables have by the case's routes."""
        source = self.expected(step)
        naming = naming_of(routes_of(self.routes))
        if not self.routes:
            yield source, naming
            return
        state = json.loads((source / "tables.json").read_text(encoding="utf-8"))
        named = {name for name, *_ in state["schemas"]} - {"test"}  # TiDB is born with that one: no file tells of it
        state["schemas"] = [[naming.target(TableName(name, "")).database] for name in named]
        for table in state["tables"]:
            table["schema"], table["table"] = naming.target(TableName(table["schema"], table["table"]))
        with tempfile.TemporaryDirectory() as folder:
            for file in source.iterdir():
                (Path(folder) / file.name).symlink_to(file)
            (Path(folder) / "tables.json").unlink()
            (Path(folder) / "tables.json").write_text(json.dumps(state), encoding="utf-8")
            yield Path(folder), naming

    @property
    def routes(self) -> Sequence[str]:
        found = self.flags.get("routes", ())
        assert isinstance(found, (list, tuple))
        return found

    def feed(self, storage: Path, step: str | None = None) -> None:
        """Copy into `storage` the files that existed at `step`, or all of them."""
        source = self.folder / "storage"
        if step is None:
            shutil.copytree(source, storage, dirs_exist_ok=True)
            return
        for line in (self.expected(step) / "files.txt").read_text(encoding="utf-8").splitlines():
            path = line.rsplit("\t", 1)[0]
            (storage / path).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source / path, storage / path)
        shutil.copyfile(self.expected(step) / "metadata", storage / "metadata")

    def settings(self, storage: Path, target: str, **more: object) -> Settings:
        flags: dict[str, object] = {
            "upstream_uri": f"file://{storage}?protocol={self.protocol}",
            "downstream_uri": target,
            "tz": "UTC",
            **self.flags,
            **more,
        }
        if "--checkpoint-ts max" in self.note:
            flags["checkpoint_ts"] = "max"
        return load(flags, {}, str(self.folder / "config.toml")).settings

    def stops_on(self, target: str) -> bool:
        """Whether the note says that a table stops, on every target or on this one. Notes call any server ``MariaDB``,
        a file ``DuckDB``."""
        others = {"MariaDB", "DuckDB"} - {target}
        return "stop" in self.note and not any(other in self.note for other in others)

    def statements(self) -> str:
        """Upstream's."""
        return (self.folder / "scenario.sql").read_text(encoding="utf-8")

    def prepare_statements(self) -> list[str]:
        """What the target must hold before: the statements above ``-- @start``, for tables older than the feed."""
        if "@start" not in self.note:
            return []
        head = self.statements().split("-- @start")[0]
        lines = [line for line in head.splitlines() if not line.startswith("--")]
        return [statement for statement in " ".join(lines).split(";") if statement.strip()]


def read_cases(corpus: Path, unpacked: Path) -> list[Case]:
    """The cases of ``cases.txt``; packed ones are unpacked below `unpacked`."""
    cases = []
    for line in (corpus / "cases.txt").read_text(encoding="utf-8").splitlines():
        head, _, note = line.partition("#")
        name, state, *rest = head.split()
        folder = corpus / name
        packed = folder.with_name(folder.name + ".tar.gz")
        if packed.exists() and not folder.exists():
            folder = unpacked / name
            if not folder.exists():
                with tarfile.open(packed) as archive:
                    archive.extractall(unpacked / Path(name).parent, filter="data")
        steps = tuple(rest[1].split(",")) if rest else ()
        cases.append(Case(name, folder, state, steps, note.strip()))
    return cases


def run_once(settings: Settings, loader: Loader) -> tuple[RunResult, Recorder]:
    observer = Recorder()
    return app.once(settings, observer, loader), observer


def compare(expected: Path, target: str, storage: Path, ignore: Collection[TableName] = ()) -> list[str]:
    """Differences of a MySQL-compatible target from `expected`, but for tables to `ignore`; empty: equal."""
    words = [str(COMPARE), str(expected), target, "--storage", str(storage)]
    words += [word for table in ignore for word in ("--ignore", str(table))]
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(StringIO()) as said:
        patch.setattr(sys, "argv", words)
        equal = _comparison()["main"]() == 0
    return [] if equal else said.getvalue().splitlines()


@cache
def _comparison() -> dict[str, Any]:
    return runpy.run_path(str(COMPARE))
