"""The Java part of the formats: its releases stand here alone, and where it is looked for."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path

from consumer.errors import BadConfig
from consumer.sink.lake.settings import LakeSettings

SPARK = "4.1"
"""The releases of Spark that they are for."""
ARTIFACTS = {
    "delta": (f"io.delta:delta-spark_{SPARK}_2.13:4.4.0",),
    "iceberg": (f"org.apache.iceberg:iceberg-spark-runtime-{SPARK}_2.13:1.12.0",),
    "s3": ("org.apache.iceberg:iceberg-aws-bundle:1.12.0",),
}
"""By format, what Spark's releases of `pyspark` need, and what Iceberg needs for S3; `fetch` brings them with what they
need themselves."""
FORMATS = ("delta", "iceberg")
FOLDER = "STORAGE_CONSUMER_JARS"
"""The variable that names a folder of jars."""
_PROPERTIES = {
    "delta": {
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.databricks.delta.snapshotPartitions": "1",
    },
    "iceberg": {},
}
"""With which Spark is started; a session of a lake has others."""


def every_artifact() -> list[str]:
    """As Maven names them."""
    return [artifact for artifacts in ARTIFACTS.values() for artifact in artifacts]


def jar_of(artifact: str) -> str:
    """The name of its file."""
    _, name, release = artifact.split(":")
    return f"{name}-{release}.jar"


def jar_folder() -> Path:
    return Path(os.environ.get(FOLDER) or Path(sys.prefix) / "share" / "ticdc-storage-consumer" / "jars")


def properties(uri: str) -> Mapping[str, str]:
    """What Spark is started with for that lake. Raises BadConfig where the jars are not there, or are for another
    release of Spark."""
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
    own = [str(jar) for jar in jars if not jar.name.startswith(others)]
    return {"spark.jars": ",".join(own), **_PROPERTIES[settings.format]}
