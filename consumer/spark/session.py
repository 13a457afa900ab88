"""Starting Spark: late, once, quietly."""

from __future__ import annotations

import importlib.util
import logging
import os
import sys
import tempfile
from typing import IO, TYPE_CHECKING

from consumer.errors import BadConfig, TargetUnavailable
from consumer.spark.jvm import own_handlers, start_jvm
from consumer.spark.settings import SparkSettings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_SHORT_JOBS = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Xshare:auto"
"""JVM flags for a driver that lives for seconds on few cores: nearly half the CPU of the defaults."""


def start_session(settings: SparkSettings) -> SparkSession:
    """A SparkSession for `settings`. Raises BadConfig when Spark refuses to start, TargetUnavailable when the master
    does not answer."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    if settings.local:
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    from py4j.protocol import Py4JError
    from pyspark import SparkConf, SparkContext
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

    _quieten_py4j()
    conf = SparkConf(loadDefaults=False).setMaster(settings.master).setAppName("storage-consumer")
    conf.setAll([*{**_defaults(settings), **dict(settings.conf)}.items()])
    with tempfile.TemporaryFile() as noise:
        try:
            if SparkContext._gateway is None:
                start_jvm(conf, noise)
            with own_handlers():
                session = SparkSession.builder.config(conf=conf).getOrCreate()
        except PySparkException as error:
            raise BadConfig(
                f"Spark does not start: {_telling_line(noise) or error}",
                hint="check that Java 17 is installed (make setup installs it), and the Spark properties",
            ) from error
        except Py4JError as error:
            reason = _telling_line(noise) or "it gives no reason"
            raise TargetUnavailable(
                f"Spark does not start on {settings.master}: {reason}",
                hint="check --master and that it can be reached, then try again",
            ) from error
    session.sparkContext.setLogLevel("OFF")
    return session


def _quieten_py4j() -> None:
    """What breaks a call is raised and told by us; py4j also logs its trace, some of it as the root logger."""
    logging.getLogger("py4j").setLevel(logging.ERROR)
    logging.getLogger().addFilter(_not_of_py4j)


def _not_of_py4j(record: logging.LogRecord) -> bool:
    return "py4j" not in record.pathname


def _telling_line(noise: IO[bytes]) -> str:
    """The first line that speaks of an error, else the last one, "" when nothing was said."""
    noise.seek(0)
    lines = [line.strip() for line in noise.read().decode(errors="replace").splitlines() if line.strip()]
    telling = [line for line in lines if "error" in line.lower() or "exception" in line.lower()]
    return (telling or lines or [""])[0 if telling else -1][:500]


def _defaults(settings: SparkSettings) -> dict[str, str]:
    conf = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.adaptive.enabled": "false",
        "spark.sql.execution.arrow.maxRecordsPerBatch": "100000",
        "spark.scheduler.mode": "FAIR",
        "spark.shuffle.compress": "false",
        "spark.shuffle.spill.compress": "false",
    }
    if importlib.util.find_spec("pyspark") is not None:
        conf["spark.python.daemon.module"] = "consumer.spark.daemon"
    if settings.local:
        conf |= {
            "spark.driver.memory": "1g",
            "spark.driver.extraJavaOptions": _SHORT_JOBS,
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
        }
    return conf
