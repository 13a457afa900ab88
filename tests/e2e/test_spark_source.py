"""A data source where its driver, its workers and who asks are processes of their own: a cluster, and Spark Connect."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.spark_cluster import SparkCluster

ROOT = Path(__file__).parents[2]
READ = """
import os
from pyspark.sql import SparkSession
builder = SparkSession.builder.config("spark.sql.shuffle.partitions", "2")
spark = builder.remote("local[2]").getOrCreate() if {remote} else builder.getOrCreate()
uri = "file://" + os.getcwd() + "/fixtures/cdc/demo?protocol=canal-json"

def ticdc(uri, **options):
    return spark.read.format("ticdc").options(tz="UTC", **options).load(uri)

assert ticdc(uri, table="du.t", partition_bytes="1KB").count() == 24
assert ticdc(uri, table="du.t", mode="state").count() == 7
try:
    ticdc(uri, table="du.x").count()
except Exception as error:
    assert "did you mean du.t?" in str(error), error
else:
    raise AssertionError("du.x is not there")
types = "file://" + os.getcwd() + "/fixtures/cdc/tiflow/b_types/cj_ext/storage?protocol=canal-json"
tables = {{row._table for row in ticdc(types, tables="*.*", mode="state").select("_table").collect()}}
assert len(tables) > 5, tables
for table in tables:
    assert ticdc(types, table=table, mode="state").collect(), table
print("done")
"""


def run(remote: bool, master: str) -> None:
    environment = {
        **os.environ,
        "PYSPARK_PYTHON": sys.executable,
        "PYTHONPATH": str(ROOT),
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
    if not remote:
        environment["PYSPARK_SUBMIT_ARGS"] = f"--master {master} --conf spark.ui.enabled=false pyspark-shell"
    done = subprocess.run(
        [sys.executable, "-c", READ.format(remote=remote)],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=500,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]


def test_workers_of_a_cluster_read_it() -> None:
    with SparkCluster(workers=2) as cluster:
        run(remote=False, master=cluster.url)


def test_a_client_of_spark_connect_reads_it() -> None:
    pytest.importorskip("grpc")
    pytest.importorskip("zstandard")
    run(remote=True, master="")
