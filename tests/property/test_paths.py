"""Whatever is rendered is parsed back, among the oddest names, and whatever is parsed renders as it was."""

from __future__ import annotations

import string

from hypothesis import example, given
from hypothesis import strategies as st

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

ODD_NAMES = [
    "order-items",
    "t-1.x",
    "my table",
    "a/b",
    "x/1/y",
    "数据库",
    "😀",
    "x\\y",
    "pct%20",
    'it\'s "q" & <t>',
    "two\nlines",
    "meta",
    "metadata",
    "CDC",
    "CDC000001.json",
    "CDC.index",
    "schema.json",
    "schema_1_0000000001",
    "schema_1_0000000001.json",
    "20240101",
    "2024",
    "2024-01",
    "2024-01-01",
    "470612145620385792",
    "12",
    ".hid",
    "a.tmp.b",
]
NAMES = st.sampled_from(ODD_NAMES) | st.text(string.ascii_letters + string.digits + "_-. é表", min_size=1).filter(
    lambda name: name.strip(".") != ""
)
TABLE_ROOTS = st.tuples(NAMES, NAMES).map("/".join)
ROOTS = TABLE_ROOTS | NAMES | st.integers(1, 10**6).map(str)
VERSIONS = st.integers(440_000_000_000_000_000, 480_000_000_000_000_000)
DATES = {
    "none": st.just(""),
    "year": st.integers(2000, 2199).map(str),
    "month": st.dates().map(lambda day: day.isoformat()[:7]),
    "day": st.dates().map(lambda day: day.isoformat()),
}
PARTITIONS = st.just("") | st.integers(1, (1 << 63) - 1).map(str) | st.integers(1990, 2210).map(str)
DISPATCHERS = st.just("") | st.text(string.digits, min_size=1, max_size=40)
SEPARATORS = st.sampled_from(sorted(DATES))
INDEXES = st.integers(1, (1 << 64) - 1) | st.integers(1, 99)
WIDTHS = st.integers(6, 20)


@st.composite
def folders(draw: st.DrawFn, separator: str) -> Folder:
    return Folder(draw(ROOTS), draw(VERSIONS), draw(PARTITIONS), draw(DATES[separator]), draw(DISPATCHERS))


@st.composite
def files(draw: st.DrawFn) -> tuple[str, StoragePath]:
    """A date separator, and an index or data file of a changefeed that has it."""
    separator = draw(SEPARATORS)
    folder = draw(folders(separator))
    if draw(st.booleans()):
        return separator, IndexPath(folder, old_form=draw(st.booleans()))
    return separator, DataPath(folder, draw(INDEXES), draw(st.sampled_from(["json", "csv"])))


@given(files(), WIDTHS)
def test_a_file_of_a_known_table_is_parsed_back(case: tuple[str, DataPath | IndexPath], width: int) -> None:
    separator, path = case
    parser = PathParser({path.folder.root: {path.folder.version}}, separator)
    assert parser.parse(render(path, width)) == path


@given(ROOTS, st.integers(0, (1 << 64) - 1), st.integers(0, (1 << 32) - 1) | st.none())
def test_a_schema_path_is_parsed_back_without_knowing_anything(root: str, version: int, checksum: int | None) -> None:
    path = SchemaPath(root, version, checksum)
    assert PathParser().parse(render(path)) == path


@given(files(), WIDTHS)
def test_a_temporary_beside_any_file_is_a_temporary(case: tuple[str, StoragePath], width: int) -> None:
    path = render(case[1], width) + ".tmp.0b3f5f6e-9c2b-4f43-8f8e-111122223333"
    assert PathParser().parse(path) == Temporary(path)


@given(st.dictionaries(TABLE_ROOTS, VERSIONS, min_size=2, max_size=8), st.data())
def test_tables_of_one_bucket_are_kept_apart(tables: dict[str, int], data: st.DataObject) -> None:
    """Layouts are mixed: folders with and without dates and partitions, under roots that are parts of one another."""
    known = known_versions(SchemaPath(root, version, 0) for root, version in tables.items())
    parser = PathParser(known, "day")
    for root, version in tables.items():
        folder = Folder(
            root,
            version,
            data.draw(st.just("") | st.integers(1, 10**6).map(str)),
            data.draw(DATES["none"] | DATES["day"] | DATES["month"]),
            data.draw(DISPATCHERS),
        )
        assert parser.parse(render(DataPath(folder, 1))) == DataPath(folder, 1)


LEVELS = st.lists(
    st.sampled_from([*ODD_NAMES, "CDC_12.index", "CDC_12_000003.csv", "CDC000000.json", "CDC1.json", "0", "007"])
    | st.text(min_size=1).filter(lambda level: "/" not in level),
    min_size=1,
    max_size=7,
)


@given(LEVELS.map("/".join), SEPARATORS | st.none())
@example("metadata", None)
@example("1/18446744073709551616/CDC000001.json", None)
@example("schema_99999999999999999999_0000000001.json", None)
def test_what_is_parsed_renders_as_it_was(path: str, separator: str | None) -> None:
    parsed = PathParser(date_separator=separator).parse(path)
    assert isinstance(parsed, SchemaPath | DataPath | IndexPath | Metadata | Temporary | Unknown)
    assert path in {render(parsed, width) for width in range(6, 21)}
