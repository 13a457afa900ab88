"""Cheap starts of a cluster's JVMs: flags for short lives, and an archive of the classes that they load."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

FLAGS = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Xshare:auto -Xlog:disable"
_BUILD = Path(__file__).parents[2] / "build"
_MASTERS = ("local[1]", "local-cluster[1,1,1024]")
"""What a JVM has been that knows the classes of drivers and of executors."""


def cheap_flags() -> str:
    """For every JVM of a cluster. Java leaves an archive alone that is not of its version and class path."""
    archive, making = _BUILD / "spark-classes.jsa", _BUILD / "spark-classes.jsa.new"
    _BUILD.mkdir(exist_ok=True)
    with (_BUILD / "spark-classes.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not archive.exists():
            making.unlink(missing_ok=True)
            own = {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
            command = [sys.executable, "-m", __name__, str(making)]
            subprocess.run(command, check=True, capture_output=True, env={**os.environ, **own})
            making.rename(archive)
    return f"{FLAGS} -XX:SharedArchiveFile={archive}"


def _make(archive: Path) -> None:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    options = f"{FLAGS} -XX:ArchiveClassesAtExit={archive}"
    for master in _MASTERS:
        builder = SparkSession.builder.master(master).config("spark.driver.extraJavaOptions", options)
        spark = builder.config("spark.ui.enabled", "false").getOrCreate()
        _use(spark)
        spark.stop()
    process = SparkContext._gateway.proc
    process.stdin.close()
    process.wait()


def _use(spark: SparkSession) -> None:
    """The shapes of jobs that loads have."""

    def through(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from batches

    spark.range(0, 1, 1, 1).mapInArrow(through, "id long").collect()
    shuffled = spark.range(0, 2, 1, 2).mapInArrow(through, "id long").repartition(2, "id")
    shuffled.sortWithinPartitions("id").mapInArrow(through, "id long").collect()


if __name__ == "__main__":
    _make(Path(sys.argv[1]))
