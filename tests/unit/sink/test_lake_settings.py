"""The URIs of lakes, and what is said where one cannot be."""

from __future__ import annotations

import json
from pathlib import Path
from typing import cast

import pytest

from consumer.errors import BadConfig
from consumer.model.layout import Layout, Layouts, PartitionTransform
from consumer.model.names import TableName
from consumer.sink import sink_for, spark_properties
from consumer.sink.lake.formats import Commit
from consumer.sink.lake.jars import FOLDER, every_artifact
from consumer.sink.lake.settings import LakeSettings
from consumer.sink.staging import begin_staging
from consumer.target import SparkSource, TargetOptions


def test_the_path_is_absolute_and_staging_lies_beside_it(tmp_path: Path) -> None:
    settings = LakeSettings.from_uri(f"delta://{tmp_path}/my%20lake")
    assert (settings.root, settings.staging) == (f"{tmp_path}/my lake", f"{tmp_path}/my lake.staging")


def test_a_folder_of_iceberg_tables_is_a_catalog(tmp_path: Path) -> None:
    settings = LakeSettings.from_uri(f"iceberg://{tmp_path}/lake")
    assert (settings.root, settings.staging) == (f"{tmp_path}/lake", f"{tmp_path}/lake.staging")
    assert (settings.catalog_name, settings.catalog) == ("lake", {"type": "hadoop", "warehouse": f"{tmp_path}/lake"})


def test_a_catalog_has_all_parameters_but_the_staging_folder(tmp_path: Path) -> None:
    given = f"type=jdbc&warehouse={tmp_path}/lake&uri=jdbc%3Asqlite%3A/tmp/c.db&jdbc.user=u"
    settings = LakeSettings.from_uri(f"iceberg://prod?{given}&staging={tmp_path}")
    assert settings.catalog_name == "prod"
    assert settings.catalog == {
        "type": "jdbc",
        "warehouse": f"{tmp_path}/lake",
        "uri": "jdbc:sqlite:/tmp/c.db",
        "jdbc.user": "u",
    }
    assert settings.staging.startswith(f"{tmp_path}/lake.")


@pytest.mark.parametrize(
    "wrong",
    [
        "delta:///",
        "delta://host/lake",
        "delta:///tmp/lake?copy=x",
        "delta:///no/such/lake",
        "iceberg:///",
        "iceberg:///tmp/lake?type=jdbc",
        "iceberg:///no/such/lake",
        "iceberg://c?type=hadoop",
        "iceberg://c?type=hive&warehouse=/tmp/lake",
        "iceberg://c?warehouse=/tmp/lake",
        "iceberg://c?type=rest&warehouse=/tmp/lake",
        "iceberg://c?type=jdbc&warehouse=/tmp/lake",
        "iceberg://c?type=jdbc&uri=jdbc:sqlite:/tmp/c.db&warehouse=gs://bucket/lake&staging=/tmp",
        "iceberg://c/lake?type=hadoop&warehouse=/tmp/lake",
        "iceberg://c?type=hadoop&warehouse=/no/such/lake",
        "iceberg://c?type=hadoop&warehouse=hdfs://host/lake",
    ],
)
def test_another_form_is_refused(wrong: str) -> None:
    with pytest.raises(BadConfig):
        LakeSettings.from_uri(wrong)


@pytest.mark.parametrize(
    ("given", "root"),
    [
        ("type=jdbc&uri=jdbc:sqlite:/tmp/c.db&warehouse=s3://bucket/lake/", "s3://bucket/lake"),
        ("type=rest&uri=http://localhost:8181", "http://localhost:8181"),
        ("type=rest&uri=http://localhost:8181&warehouse=prod", "prod"),
    ],
)
def test_a_lake_on_s3_needs_a_folder_for_rows_on_their_way(given: str, root: str, tmp_path: Path) -> None:
    with pytest.raises(BadConfig, match="need a folder") as refused:
        LakeSettings.from_uri(f"iceberg://prod?{given}")
    assert "staging=/folder" in refused.value.hint
    settings = LakeSettings.from_uri(f"iceberg://prod?{given}&staging={tmp_path}")
    other = LakeSettings.from_uri(f"iceberg://prod?{given.replace('uri=', 'uri=x')}&staging={tmp_path}")
    assert (settings.root, Path(settings.staging).parent) == (root, tmp_path)
    assert settings.staging != other.staging


@pytest.mark.parametrize(
    ("uri", "told"),
    [
        ("iceberg://prod?type=hadoop&warehouse=s3://bucket/lake&staging=/tmp", "would let two writers"),
        ("delta://bucket/lake", "a lake on S3 has Iceberg tables"),
        ("delta+s3://bucket/lake", "a lake on S3 has Iceberg tables"),
    ],
)
def test_a_lake_on_s3_that_could_not_refuse_a_late_writer(uri: str, told: str) -> None:
    with pytest.raises(BadConfig) as refused:
        sink_for(uri, TargetOptions("c"))
    assert told in f"{refused.value} {refused.value.hint}"


ON_S3 = "iceberg://c?type=rest&uri=http://h&staging=/tmp"


@pytest.mark.parametrize(
    ("uri", "artifact", "fetched"),
    [
        ("delta:///tmp/lake", "delta-spark", "fetch`"),
        ("iceberg:///tmp/lake", "iceberg-spark-runtime", "fetch`"),
        (ON_S3, "iceberg-aws-bundle", "fetch s3`"),
    ],
)
def test_without_its_jars_one_sentence_says_what_to_install(
    uri: str, artifact: str, fetched: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(FOLDER, str(tmp_path))
    with pytest.raises(BadConfig, match=artifact) as refused:
        spark_properties(uri)
    assert f"consumer.sink.lake.{fetched}" in refused.value.hint


def test_spark_gets_the_jars_of_that_format_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(FOLDER, str(tmp_path))
    for artifact in [*every_artifact(), "x:driver-of-a-catalog:1"]:
        _, name, release = artifact.split(":")
        (tmp_path / f"{name}-{release}.jar").touch()
    own = ["driver-of-a-catalog", "iceberg-spark-runtime-4.1_2.13"]
    for uri, names in {"iceberg:///tmp/lake": own, ON_S3: [*own, "iceberg-aws-bundle"]}.items():
        found = spark_properties(uri)["spark.jars"].split(",")
        assert sorted(Path(jar).name.rpartition("-")[0] for jar in found) == sorted(names)


def test_tables_are_not_published_together() -> None:
    with pytest.raises(BadConfig, match="no consistency level but `row`"):
        sink_for("delta:///tmp/lake", TargetOptions("c", staged=True))


@pytest.mark.parametrize(
    ("uri", "layout", "why"),
    [
        ("delta:///tmp/lake", Layout((PartitionTransform("at", "day"),)), "the day of at, and Delta has no transforms"),
        ("delta:///tmp/lake", Layout((PartitionTransform("a"),), ("b",)), "a Delta table can have one of them"),
        ("delta:///tmp/lake", Layout((), (), (("delta.columnMapping.maxColumnId", "9"),)), "maxColumnId, on"),
        ("delta:///tmp/lake", Layout((), (), (("DELTA.appendonly", "true"),)), "DELTA.appendonly, on"),
        ("iceberg:///tmp/lake", Layout((), (), (("write.wap.enabled", "false"),)), "write.wap.enabled, on"),
        ("iceberg:///tmp/lake", Layout((), (), (("storage_consumer.table", "x"),)), "storage_consumer.table, on"),
        ("duckdb:///tmp/r.duckdb", Layout((PartitionTransform("a"),)), "is for lakes, and the target is a duckdb://"),
    ],
)
def test_what_no_table_of_the_target_can_be_is_refused(uri: str, layout: Layout, why: str) -> None:
    layouts = Layouts([(lambda _: True, layout)])
    with pytest.raises(BadConfig) as refused:
        sink_for(uri, TargetOptions("c", spark=cast(SparkSource, object()), layouts=layouts))
    assert why in refused.value.message


def test_what_a_commit_says_is_read_again() -> None:
    commit = Commit(3, "c", 2, {TableName("d", "t'数"): 7}, load="x")
    assert Commit.of(commit.text()) == commit
    older = json.loads(commit.text())
    del older["storage_consumer"]["from_ts"], older["storage_consumer"]["commit_ts"]
    assert Commit.of(json.dumps(older)) == commit, "of an earlier build"
    assert Commit.of('{"another": 1}') is Commit.of(None) is Commit.of("[]") is None
    assert commit.following(statement="s") == Commit(4, "c", 2, commit.applied, statement="s")


def test_rows_are_staged_beside_what_else_is_in_the_folder(tmp_path: Path) -> None:
    """Each start removes what others have left in the staging folder."""
    lakes = [f"delta://{tmp_path}/{lake}?staging={tmp_path}" for lake in ("a/lake", "b/lake")]
    for lake in ("a", "b"):
        (tmp_path / lake).mkdir()
    folders = {LakeSettings.from_uri(uri).staging for uri in lakes}
    assert len(folders) == 2
    for folder in map(Path, folders):
        assert folder.parent == tmp_path
        folder.mkdir()
        begin_staging(str(folder), 1)
    assert {path.name for path in tmp_path.iterdir()} == {"a", "b", *(Path(folder).name for folder in folders)}
