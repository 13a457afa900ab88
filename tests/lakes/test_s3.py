"""Iceberg tables on S3, on a real server, by each kind of catalog: what holds of a folder holds there."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pytest

from consumer import app
from consumer.errors import TargetUnavailable
from consumer.model.actions import Action
from consumer.model.names import TableName
from consumer.spark.load import SparkLoader
from tests.cloud_servers import GlueServer
from tests.lakes.test_deaths import WANTED, dies_behind_a_commit, rows_of, settings_of, storage
from tests.lakes.test_late_writer import KINDS, a_late_commit, a_late_record
from tests.s3_server import WRITER, S3Server
from tests.support.feed import Feed, Replica
from tests.support.lakes import has_s3, lake_sink, s3_lake
from tests.support.observers import Recorder

pytestmark = pytest.mark.skipif(not has_s3(), reason="no jars for S3: python -m consumer.sink.lake.fetch s3")


@pytest.fixture(scope="module")
def glue(lake_spark: SparkLoader) -> Iterator[GlueServer]:
    """With a login where the clients of AWS look for one first, within a JVM."""
    if not GlueServer.is_there:
        pytest.skip("no Moto in build/moto: make proof GROUP=lakes installs it")
    system = lake_spark.session()._jvm.System
    for name, value in zip(("aws.accessKeyId", "aws.secretAccessKey"), WRITER, strict=True):
        system.setProperty(name, value)
    server = GlueServer()
    try:
        yield server.start()
    finally:
        server.stop()


@pytest.fixture(params=["jdbc", "rest", "glue"])
def lake(request: pytest.FixtureRequest, s3_server: S3Server, tmp_path: Path) -> str:
    glue = request.getfixturevalue("glue") if request.param == "glue" else None
    return s3_lake(request.param, s3_server, tmp_path, glue=glue)


def test_rounds_that_verify_maintain_and_another_reader_agree_on(
    lake: str, lake_spark: SparkLoader, tmp_path: Path
) -> None:
    feed = storage(tmp_path / "storage")
    settings = settings_of(feed, lake)
    for checkpoint in (20, 29, 40):
        feed.checkpoint(checkpoint)
        assert app.once(settings, Recorder(), lake_spark).exit_code == 0
    assert rows_of(lake, lake_spark) == by_pyiceberg(lake, lake_spark) == WANTED
    for check in app.verify(settings, Recorder(), loader=lake_spark).tables:
        assert (check.error, list(check.counted.shown)) == (None, [])
    kept = {row.table: row for row in app.maintain(settings, Recorder(), timedelta(0), lake_spark).tables}
    assert {name: row.left for name, row in kept.items()} == {"d.k": "", "d.n": ""}
    assert kept["d.k"].files_before > kept["d.k"].files_after == 1
    assert rows_of(lake, lake_spark) == by_pyiceberg(lake, lake_spark) == WANTED
    again = app.once(settings, Recorder(), lake_spark)
    assert sum(table.rows + table.ddl for table in again.tables.values()) == 0


def by_pyiceberg(uri: str, loader: SparkLoader) -> dict[Any, list[tuple[Any, ...]]]:
    """By the name of the table in a server's catalog, else by its newest metadata."""
    catalogs, tables = pytest.importorskip("pyiceberg.catalog"), pytest.importorskip("pyiceberg.table")
    known, given, found = lake_sink(uri, loader), dict(parse_qsl(urlsplit(uri).query)), {}
    for name, there in known._progress.lake_tables.items():
        if given["type"] == "rest":
            table = catalogs.load_catalog("prod", **given).load_table(there.location)
        else:
            table = tables.StaticTable.from_metadata(known._tables.version(there.location), given)
        found[name] = sorted(tuple(row.values()) for row in table.scan().to_arrow().to_pylist())
    return found


def test_a_death_between_a_commit_and_the_progress(
    lake: str, lake_spark: SparkLoader, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = settings_of(storage(tmp_path / "storage"), lake)
    dies_behind_a_commit(monkeypatch, lambda: app.once(settings, Recorder(), lake_spark), 2)
    assert app.once(settings, Recorder(), lake_spark).exit_code == 0
    assert rows_of(lake, lake_spark) == WANTED


@pytest.mark.parametrize("moment", ["has looked", "has written"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_late_commit_changes_nothing(
    kind: str, moment: str, lake: str, lake_spark: SparkLoader, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    a_late_commit(kind, moment, lake, tmp_path, lake_spark, monkeypatch)


def test_a_late_record_is_not_there(lake: str, lake_spark: SparkLoader) -> None:
    a_late_record(lake, lake_spark)


def test_a_wrong_key_is_told_and_not_shown(s3_server: S3Server, lake_spark: SparkLoader, tmp_path: Path) -> None:
    uri = s3_lake("jdbc", s3_server, tmp_path, login=(WRITER[0], "not/the+secret"))
    settings = Replica(storage(tmp_path / "storage"), uri).settings(max_wait="1s")
    with pytest.raises(TargetUnavailable, match="the lake cannot be reached") as refused:
        app.once(settings, Recorder(), lake_spark)
    assert "the+secret" not in f"{refused.value} {refused.value.hint}"


def test_names_that_glue_does_not_have(
    glue: GlueServer, s3_server: S3Server, lake_spark: SparkLoader, tmp_path: Path
) -> None:
    """Two of them are the same where what Glue does not have is left out."""
    feed, uri = Feed(tmp_path / "storage"), s3_lake("glue", s3_server, tmp_path, glue=glue)
    names = [TableName("Shop 2", name) for name in ("Bestellungen-ä", "Bestellungen-ö", "ORDERS")]
    feed.database("Shop 2", 1)
    for number, name in enumerate(names):
        feed.create(str(name), 10)
        feed.puts(str(name), 10, {11: (number, "5")})
    feed.statement("Shop 2.items", 20, Action.RENAME_TABLE, "RENAME TABLE `Shop 2`.`ORDERS` TO `Shop 2`.`items`")
    feed.checkpoint(30)
    assert app.once(settings_of(feed, uri), Recorder(), lake_spark).exit_code == 0
    wanted = [*names[:2], TableName("Shop 2", "items")]
    assert rows_of(uri, lake_spark) == {name: [(number, 5)] for number, name in enumerate(wanted)}
