"""The Java part of the formats: its releases stand here alone, and where it is looked for."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path

from consumer.errors import BadConfig
from consumer.sink.lake.settings import LakeSettings

ARTIFACTS = {"delta": ("io.delta:delta-spark_4.1_2.13:4.4.0",)}
"""By format, what Spark's releases of `pyspark` need; `fetch` brings them with what they need themselves."""
FOLDER = "STORAGE_CONSUMER_JARS"
"""The variable that names a folder of jars."""
_DELTA = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "spark.databricks.delta.snapshotPartitions": "2",
}


def every_artifact() -> list[str]:
    """Of all formats, as Maven names them."""
    return [artifact for artifacts in ARTIFACTS.values() for artifact in artifacts]


def jar_folder() -> Path:
    return Path(os.environ.get(FOLDER) or Path(sys.prefix) / "share" / "ticdc-storage-consumer" / "jars")


def properties(uri: str) -> Mapping[str, str]:
    """What Spark is started with for that lake. Raises BadConfig where the jars are not there."""
    settings = LakeSettings.from_uri(uri)
    wanted, folder = ARTIFACTS[settings.format], jar_folder()
    jars = sorted(map(str, folder.glob("*.jar")))
    _, name, release = wanted[0].split(":")
    if str(folder / f"{name}-{release}.jar") not in jars:
        raise BadConfig(
            f"the lake needs {', '.join(wanted)}, and {folder} does not have it",
            hint="fetch it by `python -m consumer.sink.lake.fetch`; or put it, with what it needs, into a folder, and"
            f" name that in {FOLDER}",
        )
    return {"spark.jars": ",".join(jars), **_DELTA}
