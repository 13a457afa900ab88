"""Older releases of DuckDB read the file that this one writes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import duckdb
import pytest

from consumer import app
from tests.e2e.corpus import read_cases
from tests.support.inline_loader import InlineLoader
from tests.support.observers import Recorder

ROOT = Path(__file__).parents[2]
FIXTURES = ROOT / "fixtures" / "cdc"
TABLES = "SELECT table_schema, table_name FROM information_schema.tables WHERE table_schema <> 'storage_consumer'"
READ = f"""
import duckdb, json, sys
connection = duckdb.connect(sys.argv[1], read_only=True)
tables = connection.execute({TABLES!r}).fetchall()
rows = {{f"{{s}}.{{t}}": connection.execute(f'SELECT * FROM "{{s}}"."{{t}}"').fetchall() for s, t in tables}}
moments = connection.execute("SELECT count(*) FROM storage_consumer.replica").fetchall()
print(json.dumps([rows, moments], default=str, sort_keys=True))
"""


@pytest.mark.parametrize("release", ["1.2.2", "1.4.4"])
@pytest.mark.parametrize("name", ["tiflow/b_types/cj_ext", "tiflow/c_ddl/cj_ext"])
def test_each_value_is_read(name: str, release: str, tmp_path: Path) -> None:
    library = ROOT / "build" / f"duckdb-{release}"
    if not library.is_dir():
        pytest.skip(f"DuckDB {release} is not here")
    case = next(case for case in read_cases(FIXTURES, tmp_path) if case.name == name)
    file = tmp_path / "r.duckdb"
    app.once(case.settings(case.folder / "storage", f"duckdb:///{file}"), Recorder(), InlineLoader())
    with duckdb.connect(file, read_only=True) as connection:
        assert connection.execute(TABLES).fetchall()
    own, theirs = (_read(file, {}), _read(file, {"PYTHONPATH": str(library)}))
    assert theirs == own


def _read(file: Path, environment: dict[str, str]) -> object:
    command = [sys.executable, "-c", READ, str(file)]
    done = subprocess.run(command, env=os.environ | environment, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)
