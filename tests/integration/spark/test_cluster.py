"""The same program on a standalone master with two workers."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.e2e.corpus import compare, read_cases
from tests.servers import MariaDb
from tests.spark_cluster import SparkCluster

FIXTURES = Path(__file__).parents[3] / "fixtures" / "cdc"


def test_once_on_a_standalone_cluster_ends_equal(fresh_mariadb: MariaDb, tmp_path: Path) -> None:
    case = next(case for case in read_cases(FIXTURES, tmp_path) if case.name == "ticdc/l_volume/cj_none")
    storage = case.folder / "storage"
    with SparkCluster(workers=2) as cluster:
        command = [
            str(Path(sys.executable).with_name("storage-consumer")), "once",
            "--upstream-uri", f"file://{storage}?protocol=canal-json", "--downstream-uri", fresh_mariadb.url(),
            "--config", str(case.folder / "config.toml"), "--tz", "UTC", "--master", cluster.url,
            "--spark-conf", "spark.executor.memory=600m", "--spark-conf", "spark.driver.host=127.0.0.1",
        ]  # fmt: skip
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert compare(case.expected(), fresh_mariadb.url(), storage) == []
