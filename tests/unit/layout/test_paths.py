"""Each written form of TiCDC's paths, and each ambiguity with the knowledge that resolves it."""

from __future__ import annotations

import pytest

from consumer.layout.paths import (
    DataPath,
    IndexPath,
    Metadata,
    PathParser,
    SchemaPath,
    StoragePath,
    Temporary,
    Unknown,
    known_versions,
    render,
)
from consumer.model.files import Folder

V = 470612145620385792
DISPATCHER = "1623393148129378050013628354878095115923"

FORMS: list[tuple[str, StoragePath]] = [
    ("metadata", Metadata()),
    ("schema1/meta/schema_100_3233644819.json", SchemaPath("schema1", 100, 3233644819)),
    ("test/t/meta/schema_100_0092708364.json", SchemaPath("test/t", 100, 92708364)),
    ("101/meta/schema_100_0092708364.json", SchemaPath("101", 100, 92708364)),
    (f"test/t/{V}/schema.json", SchemaPath("test/t", V, None)),
    (f"test/t/{V}/CDC000001.json", DataPath(Folder("test/t", V), 1)),
    (f"test/t/{V}/CDC000001.csv", DataPath(Folder("test/t", V), 1, "csv")),
    (f"test/t/{V}/CDC00000000000000000012.json", DataPath(Folder("test/t", V), 12)),
    (f"test/t/{V}/2026-11-21/CDC000001.json", DataPath(Folder("test/t", V, date="2026-11-21"), 1)),
    (f"test/t/{V}/2026-11/CDC000001.json", DataPath(Folder("test/t", V, date="2026-11"), 1)),
    (f"test/t/{V}/105/CDC000001.json", DataPath(Folder("test/t", V, "105"), 1)),
    (f"test/t/{V}/105/2026-11-21/CDC000001.json", DataPath(Folder("test/t", V, "105", "2026-11-21"), 1)),
    (f"101/{V}/2026-11-21/CDC000001.json", DataPath(Folder("101", V, date="2026-11-21"), 1)),
    (f"101/{V}/CDC000001.json", DataPath(Folder("101", V), 1)),
    (f"{V}/2026-11-21/CDC000001.json", DataPath(Folder("", V, date="2026-11-21"), 1)),
    (f"test/t/{V}/CDC_{DISPATCHER}_000007.json", DataPath(Folder("test/t", V, dispatcher=DISPATCHER), 7)),
    (f"test/t/{V}/meta/CDC.index", IndexPath(Folder("test/t", V))),
    (f"test/t/{V}/105/2026-11-21/meta/CDC.index", IndexPath(Folder("test/t", V, "105", "2026-11-21"))),
    (f"test/t/{V}/meta/CDC_{DISPATCHER}.index", IndexPath(Folder("test/t", V, dispatcher=DISPATCHER))),
    (f"test/t/{V}/2026-11-21/CDC.index", IndexPath(Folder("test/t", V, date="2026-11-21"), old_form=True)),
    (f"q/CDC000001.json/{V}/CDC000002.json", DataPath(Folder("q/CDC000001.json", V), 2)),
    (f"q/meta/{V}/meta/CDC.index", IndexPath(Folder("q/meta", V))),
    (f"2024/2024-01-01/{V}/2026-11-21/CDC000001.json", DataPath(Folder("2024/2024-01-01", V, date="2026-11-21"), 1)),
    (f"q/20240101/{V}/CDC000001.json", DataPath(Folder("q/20240101", V), 1)),
    ("meta/meta/schema_5_0000000001.json", SchemaPath("meta", 5, 1)),
    ("meta/meta/meta/schema_5_0000000001.json", SchemaPath("meta/meta", 5, 1)),
]


@pytest.mark.parametrize(("path", "meaning"), FORMS)
def test_forms_that_need_no_knowledge(path: str, meaning: StoragePath) -> None:
    assert PathParser().parse(path) == meaning


@pytest.mark.parametrize(("path", "meaning"), FORMS)
def test_forms_are_rendered_as_written(path: str, meaning: StoragePath) -> None:
    width = 20 if "CDC00000000000000" in path else 6
    assert render(meaning, width) == path


@pytest.mark.parametrize(
    "path",
    [
        "",
        "README.md",
        "db/metadata",
        "metadata/",
        "CDC000001.json",
        "db/t/CDC000001.json",
        f"db/t/{V}/CDC00001.json",
        f"db/t/{V}/CDC000001.parquet",
        f"db/t/{V}/xCDC000001.json",
        f"db/t/0{V}/CDC000001.json",
        "db/t/18446744073709551616/CDC000001.json",
        f"db/t/{V}/105/106/x/CDC000001.json",
        "db/t/schema_5_0000000001.json",
        "db/t/meta/schema_5_1.json",
        "db/t/meta/schema_05_0000000001.json",
        "db/t/meta/CDC.index",
        "db/t/schema.json",
    ],
)
def test_everything_else_is_unknown(path: str) -> None:
    assert PathParser().parse(path) == Unknown(path)


def test_temporaries_are_told_by_the_file_name_alone() -> None:
    unfinished = f"db/t/{V}/CDC000001.json.tmp.5b2d"
    assert PathParser().parse(unfinished) == Temporary(unfinished)
    assert isinstance(PathParser().parse(f"db/a.tmp.b/{V}/CDC000001.json"), DataPath)


def test_a_year_is_taken_for_a_date_only_where_years_are_configured() -> None:
    path = f"db/t/{V}/2024/CDC000001.json"
    partition, year = Folder("db/t", V, "2024"), Folder("db/t", V, date="2024")
    meanings = {
        separator: PathParser({"db/t": {V}}, separator).parse(path) for separator in (None, "none", "day", "year")
    }
    assert meanings == {
        None: DataPath(partition, 1),
        "none": DataPath(partition, 1),
        "day": DataPath(partition, 1),
        "year": DataPath(year, 1),
    }


def test_partition_ids_that_are_no_plausible_years_stay_partitions() -> None:
    assert PathParser({"db/t": {V}}, "year").parse(f"db/t/{V}/1040/CDC000001.json") == DataPath(
        Folder("db/t", V, "1040"), 1
    )


def test_a_table_called_like_a_version_is_known_by_its_schema_file() -> None:
    path = "db/100/200/CDC000001.json"
    as_table = PathParser(known_versions([SchemaPath("db/100", 200, 1)])).parse(path)
    as_partition = PathParser(known_versions([SchemaPath("db", 100, None)])).parse(path)
    assert as_table == DataPath(Folder("db/100", 200), 1)
    assert as_partition == DataPath(Folder("db", 100, "200"), 1)


def test_a_known_root_without_this_version_is_better_than_an_unknown_root() -> None:
    parsed = PathParser({"db/100": {7}}).parse("db/100/5/900/CDC000001.json")
    assert parsed == DataPath(Folder("db/100", 5, "900"), 1)


def test_one_bucket_holds_every_layout() -> None:
    parser = PathParser({"db/t": {1, 2}}, "day")
    folders = [
        parsed.folder
        for path in (
            "db/t/1/CDC000001.json",
            "db/t/1/9/CDC000001.json",
            "db/t/2/2026-11-21/CDC_5_00000000000000000001.json",
        )
        if isinstance(parsed := parser.parse(path), DataPath)
    ]
    assert folders == [Folder("db/t", 1), Folder("db/t", 1, "9"), Folder("db/t", 2, date="2026-11-21", dispatcher="5")]
