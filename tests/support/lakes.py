"""A lake for tests: the one Spark of a module, and its tables as anybody reads them."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import urlencode
from uuid import uuid4

import pyarrow as pa
import pytest

from consumer.model.names import TableName
from consumer.sink import sink_for, spark_properties
from consumer.sink.lake.jars import ARTIFACTS, jar_folder, jar_of
from consumer.sink.lake.sink import LakeSink
from consumer.spark.load import SparkLoader
from consumer.spark.settings import SparkSettings
from consumer.spark.shared import SharedSpark
from consumer.target import TargetOptions
from tests.cloud_servers import GlueServer
from tests.s3_server import BUCKET, WRITER, S3Server

FORMATS = ("delta", "iceberg")


JDBC = "jdbc"
"""Iceberg tables whose catalog is a database: one of SQLite, by its driver."""


ON_S3 = "iceberg://prod?type=jdbc&uri=jdbc:sqlite:/tmp/c.db&warehouse=s3://bucket/lake&staging=/tmp"


def lake_uri(lake: str, folder: Path, name: str = "lake") -> str:
    """Of a lake in `folder`. Skips the test where the driver of its catalog is not there."""
    if lake != JDBC:
        return f"{lake}://{folder}/{name}"
    if not list(jar_folder().glob("sqlite-jdbc-*.jar")):
        pytest.skip("no driver of SQLite: python -m consumer.sink.lake.fetch org.xerial:sqlite-jdbc:3.54.1.0")
    return f"iceberg://prod?type=jdbc&uri=jdbc:sqlite:{folder}/{name}.db&warehouse={folder}/{name}"


def s3_lake(
    catalog: str, server: S3Server, folder: Path, login: tuple[str, str] = WRITER, glue: GlueServer | None = None
) -> str:
    """Of Iceberg tables on S3, whose `catalog` is a database of SQLite (jdbc), the S3 server's own (rest), or `glue`
    (glue)."""
    given = {
        "type": catalog,
        "staging": str(folder),
        "s3.endpoint": server.endpoint,
        "s3.path-style-access": "true",
        "s3.access-key-id": login[0],
        "s3.secret-access-key": login[1],
        "client.region": "us-east-1",
    }
    if catalog == "jdbc":
        given |= {"uri": f"jdbc:sqlite:{folder}/c.db", "warehouse": f"s3://{BUCKET}/{uuid4()}"}
    elif glue is not None:
        glue.clear()
        given |= {"glue.endpoint": glue.endpoint, "warehouse": f"s3://{BUCKET}/{uuid4()}"}
    else:
        given |= {"uri": server.catalog, "warehouse": server.table_bucket(), "credential": ":".join(login)}
        given |= {"oauth2-server-uri": f"{server.catalog}/v1/oauth/tokens"}
    return f"iceberg://prod?{urlencode(given)}"


def elsewhere(uri: str, folder: Path) -> str:
    """The same lake for a command that does not see the locks of others, as on another machine."""
    staging = folder / "elsewhere"
    staging.mkdir(exist_ok=True)
    left = re.sub(r"([?&])staging=[^&]*&?", r"\1", uri).rstrip("?&")
    return f"{left}{'&' if '?' in left else '?'}staging={staging}"


def lake_loader(inline: bool = False) -> SparkLoader:
    """Spark with what lakes need, whatever their format and place, which several commands share. `inline`: it loads no
    rows, but this process does."""
    found: dict[str, str] = {}
    jars: set[str] = set()
    for uri in [f"{name}:///tmp/lake" for name in FORMATS] + [ON_S3] * has_s3():
        found |= spark_properties(uri)
        jars |= set(found["spark.jars"].split(","))
    conf = {**found, "spark.jars": ",".join(sorted(jars))}
    return SparkLoader(SparkSettings("local[2]", tuple(conf.items()), in_process_bytes=1 << 40 if inline else 0))


def has_s3() -> bool:
    return (jar_folder() / jar_of(*ARTIFACTS["s3"])).is_file()


def lake_sink(uri: str, loader: SparkLoader, name: str = "default", zone: str = "UTC") -> LakeSink:
    sink = sink_for(uri, TargetOptions(name, zone, spark=SharedSpark(SparkSettings(), loader)))
    assert isinstance(sink, LakeSink)
    return sink


def lake_tables(uri: str, loader: SparkLoader) -> dict[TableName, pa.Table]:
    """All tables of the lake, read by Spark from where the progress says that they are."""
    sink = lake_sink(uri, loader)
    session = loader.session().newSession()
    sink._tables.prepare(session)
    session.conf.set("spark.sql.session.timeZone", "UTC")
    known = sink._progress.lake_tables.values()
    return {table.replica.name: session.table(sink._tables.sql(table.location)).toArrow() for table in known}
