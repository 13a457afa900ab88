"""The DAGs of examples/ in a real Airflow, which has an environment of its own."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.support.feed import Feed, with_two_rows

ROOT = Path(__file__).parents[2]
AIRFLOW = ROOT / "build" / "airflow" / "bin"
RUNS = """
import os, sys
import airflow_dag
for dag, upstream, target in zip(*[iter(sys.argv[1:])] * 3):
    os.environ["STORAGE_CONSUMER_UPSTREAM_URI"] = upstream
    os.environ["STORAGE_CONSUMER_DOWNSTREAM_URI"] = target
    print("the state is", getattr(airflow_dag, dag)().test().state, flush=True)
"""
"""For each DAG, storage and target: how Airflow ends the run."""

pytestmark = pytest.mark.skipif(not (AIRFLOW / "airflow").exists(), reason="there is no Airflow")


def states(folder: Path, *runs: tuple[str, Feed]) -> list[str]:
    environment = os.environ | {
        "AIRFLOW_HOME": str(folder / "airflow"),
        "AIRFLOW__CORE__DAGS_FOLDER": str(ROOT / "examples"),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "PYTHONPATH": f"{ROOT}:{ROOT / 'examples'}",
        "PYTHONDONTWRITEBYTECODE": "1",
        "STORAGE_CONSUMER_IN_PROCESS_BYTES": "16MiB",
        "STORAGE_CONSUMER_ON_BAD_ROW": "quarantine",
        "STORAGE_CONSUMER_DEAD_LETTERS": f"file://{folder}/letters",
    }
    words: list[str] = []
    for dag, feed in runs:
        words += [dag, f"file://{feed.folder}?protocol=canal-json", f"duckdb:///{feed.folder}.duckdb"]
    for command in (["airflow", "db", "migrate"], ["python", "-c", RUNS, *words]):
        ran = subprocess.run(
            [str(AIRFLOW / command[0]), *command[1:]], env=environment, capture_output=True, text=True, check=False
        )
        assert ran.returncode == 0, ran.stderr[-3000:]
    return [line.split()[-1] for line in ran.stdout.splitlines() if line.startswith("the state is")]


def test_a_run_is_green_only_where_once_ends_with_0(tmp_path: Path) -> None:
    good, bad, gap = (with_two_rows(tmp_path / name) for name in ("good", "bad", "gap"))
    bad.file("d.t", 10, b'{"no": "row"}\r\n')  # quarantined: no table stops, and one lacks a row
    gap.puts("d.t", 10, {25: (3, "3")}, number=5)
    for feed in (good, bad, gap):
        feed.checkpoint(30)
    runs = [("ticdc_replica", good), ("ticdc_replica_verified", good), ("ticdc_replica", bad), ("ticdc_replica", gap)]
    assert states(tmp_path, *runs) == ["success", "success", "failed", "failed"]
