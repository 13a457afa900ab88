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
ticdc = spark.read.format("ticdc").option("tz", "UTC").option("partition-bytes", "1KB")
changes = ticdc.option("table", "du.t").load(uri)
assert changes.count() == 24
last = ticdc.option("table", "du.t").option("mode", "state").load(uri)
assert {{row.id for row in last.collect()}} == {{20, 2, 4, 6, 7, 10, 8}} or last.count() == 7
try:
    ticdc.option("table", "du.x").load(uri).count()
except Exception as error:
    assert "did you mean du.t?" in str(error), error
else:
    raise AssertionError("du.x is not there")
types = os.getcwd() + "/fixtures/cdc/tiflow/b_types/cj_ext/storage"
for table in spark.read.format("ticdc").option("tables", "*.*").option("mode", "state").load(
    "file://" + types + "?protocol=canal-json"
).select("_table").distinct().collect():
    named = spark.read.format("ticdc").option("table", table[0]).option("mode", "state").option("tz", "UTC")
    assert named.load("file://" + types + "?protocol=canal-json").collect()
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
    run(remote=True, master="")
