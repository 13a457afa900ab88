"""The Java part of the formats: its releases, which are listed only here, and the folder of the jars."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path

from consumer.errors import BadConfig
from consumer.sink.lake.settings import LakeSettings

SPARK = "4.1"
"""The releases of Spark for which the jars are."""
ARTIFACTS = {
    "delta": (f"io.delta:delta-spark_{SPARK}_2.13:4.4.0",),
    "iceberg": (f"org.apache.iceberg:iceberg-spark-runtime-{SPARK}_2.13:1.12.0",),
    "s3": ("org.apache.iceberg:iceberg-aws-bundle:1.12.0",),
}
"""By format, what the releases of `pyspark` need, and what Iceberg needs for S3. `fetch` downloads these with their own
dependencies."""
FORMATS = ("delta", "iceberg")
FOLDER = "STORAGE_CONSUMER_JARS"
"""The environment variable that names a folder of jars."""
_PROPERTIES = {
    "delta": {
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.databricks.delta.snapshotPartitions": "1",
    },
    "iceberg": {},
}
"""The properties with which Spark is started. A session of a lake has others."""


def every_artifact() -> list[str]:
    """Returns all artifacts in Maven's notation."""
    return [artifact for artifacts in ARTIFACTS.values() for artifact in artifacts]


def jar_of(artifact: str) -> str:
    """Returns the file name of an artifact."""
    _, name, release = artifact.split(":")
    return f"{name}-{release}.jar"


def jar_folder() -> Path:
    return Path(os.environ.get(FOLDER) or Path(sys.prefix) / "share" / "ticdc-storage-consumer" / "jars")


def properties(uri: str) -> Mapping[str, str]:
    """Returns the properties with which Spark is started for that lake. Raises BadConfig if the jars are missing, or
    are for another release of Spark."""
    import pyspark

    if not pyspark.__version__.startswith(f"{SPARK}."):
        raise BadConfig(
            f"a lake as the target needs PySpark {SPARK}, whose jars of Delta and Iceberg are tested; this is"
            f" {pyspark.__version__}",
            hint=f"`pip install 'pyspark=={SPARK}.*'`, or read the storage by spark.read.format(\"ticdc\") and write"
            " the table by Spark's own means; docs/platforms.md",
        )
    settings = LakeSettings.from_uri(uri)
    wanted, folder = [*ARTIFACTS[settings.format], *(() if settings.is_folder else ARTIFACTS["s3"])], jar_folder()
    jars = sorted(folder.glob("*.jar"))
    if lacking := [artifact for artifact in wanted if folder / jar_of(artifact) not in jars]:
        s3 = " s3" if set(lacking) & set(ARTIFACTS["s3"]) else ""
        raise BadConfig(
            f"the lake needs {', '.join(lacking)}, and {folder} does not have it",
            hint=f"fetch it by `python -m consumer.sink.lake.fetch{s3}`; or put it, with what it needs, into a folder,"
            f" and name that in {FOLDER}",
        )
    others = tuple(artifact.split(":")[1] for artifact in every_artifact() if artifact not in wanted)
    needed = [str(jar) for jar in jars if not jar.name.startswith(others)]
    return {"spark.jars": ",".join(needed), **_PROPERTIES[settings.format]}
