"""One reader over a directory and over a bucket: both see the same."""

from __future__ import annotations

import os
import pickle
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from consumer.errors import BadConfig, CheckpointMissing, ChecksumMismatch, CorruptFile, StorageUnavailable
from consumer.model.files import Bounds, Listing, StoredFile
from consumer.storage.reader import ChangefeedReader
from consumer.storage.settings import StorageSettings
from tests.s3_server import WRITER
from tests.unit.storage.conftest import Bucket

FIXTURES = Path(__file__).parents[3] / "fixtures" / "cdc"
NAMES, ACROSS = FIXTURES / "names" / "storage", FIXTURES / "across_nodes" / "storage"


def _reader(uri: str) -> ChangefeedReader:
    return ChangefeedReader(StorageSettings.from_uri(uri), "day")


def _local(directory: Path) -> ChangefeedReader:
    return _reader(f"file://{directory}?protocol=canal-json")


@pytest.fixture
def storage(tmp_path: Path) -> Path:
    return Path(shutil.copytree(ACROSS, tmp_path / "storage"))


@pytest.fixture(params=["file", "s3"])
def names(request: pytest.FixtureRequest, s3: Bucket) -> ChangefeedReader:
    """The storage with the oddest table names, read in both ways."""
    if request.param == "file":
        return _local(NAMES)
    s3.put_directory(NAMES)
    return _reader(s3.uri())


def test_every_file_of_the_oddest_names_is_found(names: ChangefeedReader) -> None:
    listing = names.listing(5)
    on_s3 = names.identity.startswith("s3://")
    found = {file.path: file.size for files in listing.files.values() for file in files}
    expected = {
        path.relative_to(NAMES).as_posix(): path.stat().st_size for path in NAMES.rglob("CDC*.json") if path.is_file()
    }
    if on_s3:  # this server takes a backslash for a slash
        expected = {path: size for path, size in expected.items() if "\\" not in path}
    assert found == expected
    assert (listing.checkpoint, listing.unknown, listing.broken) == (5, [], [])
    known = {schema.root: schema.name for schema in listing.schemas}
    assert set(listing.files) <= set(known)
    assert {str(known[root]) for root in listing.files} >= {
        "meta.meta",
        "q.metadata",
        "q.CDC000001.json",
        "q.schema_1_0000000001",
        "2024.2024-01-01",
        "数据库.表x",
        *(() if on_s3 else ("q.x\\y",)),
    }


def test_the_checkpoint_is_read(names: ChangefeedReader) -> None:
    assert f'{{"checkpoint-ts":{names.checkpoint()}}}' == (NAMES / "metadata").read_text()


def test_bounds_and_ranges_are_read(names: ChangefeedReader) -> None:
    files = names.listing(5).files["q/meta"]
    (path,) = [file.path for file in files]
    lines = (NAMES / path).read_text().splitlines()
    assert f'"commitTs":{names.bounds(files)[path].first}' in lines[0]  # type: ignore[union-attr]
    reader = pickle.loads(pickle.dumps(names.range_reader()))
    content = (NAMES / path).read_bytes()
    assert reader.read(files[0], 0, 20) == content[:20]
    assert reader.read(files[0], 20, 1 << 20) == content[20:]
    assert reader.read(files[0], 5, 0) == b""


def test_a_missing_file_can_be_tried_again(names: ChangefeedReader) -> None:
    with pytest.raises(StorageUnavailable, match=r"q/t/5/CDC000001.json: it is not there"):
        names.range_reader().read(StoredFile("q/t/5/CDC000001.json", 10, ""), 0, 10)


def test_series_of_several_dispatchers_are_in_order() -> None:
    listing = _local(ACROSS).listing(5)
    files = listing.files["shop/item"]
    assert len(files) == 5
    assert [(file.folder.dispatcher, file.index) for file in files] == sorted(
        (file.folder.dispatcher, file.index) for file in files
    )
    assert len({file.folder for file in files}) == 2
    assert [schema.version for schema in listing.schemas] == sorted(schema.version for schema in listing.schemas)


def _schema_file(storage: Path) -> Path:
    (path,) = (storage / "shop/item/meta").glob("schema_*.json")
    return path


def test_a_broken_schema_file_leaves_the_others_alone(storage: Path) -> None:
    edited = _schema_file(storage)
    edited.write_bytes(edited.read_bytes().replace(b"VARCHAR", b"CHAR"))
    whole, listing = _local(ACROSS).listing(5), _local(storage).listing(5)
    (error,) = listing.broken
    assert isinstance(error, ChecksumMismatch)
    assert (error.table, error.path) == ("shop/item", edited.relative_to(storage).as_posix())
    assert {schema.root for schema in listing.schemas} == {schema.root for schema in whole.schemas} - {"shop/item"}
    assert {root: len(files) for root, files in listing.files.items()} == {
        root: len(files) for root, files in whole.files.items()
    }


def test_schema_files_are_read_again_only_when_they_have_changed(storage: Path) -> None:
    reader, path = _local(storage), _schema_file(storage)
    first = reader.listing(5)
    second = reader.listing(6)
    assert {id(schema) for schema in first.schemas} == {id(schema) for schema in second.schemas}
    state = path.stat()
    path.write_bytes(path.read_bytes().replace(b"VARCHAR", b"VARCHAx"))
    os.utime(path, ns=(state.st_atime_ns, state.st_mtime_ns + 1))
    assert len(reader.listing(7).broken) == 1
    path.unlink()
    gone: Listing = reader.listing(8)
    assert (len(gone.schemas), gone.broken) == (len(first.schemas) - 1, [])


def test_unknown_paths_are_told_and_temporaries_are_not(storage: Path) -> None:
    (storage / "README").write_text("x")
    (storage / "shop" / "old.sql").write_text("x")
    (storage / "metadata.tmp.5b2d").write_text("x")
    assert _local(storage).listing(5).unknown == ["README", "shop/old.sql"]


def test_a_file_that_is_no_canal_json_is_told_beside_the_others(storage: Path) -> None:
    reader = _local(storage)
    files = reader.listing(5).files["shop/item"]
    (storage / files[0].path).write_text("junk")
    found = reader.bounds(reader.listing(5).files["shop/item"])
    assert isinstance(found[files[0].path], CorruptFile)
    assert [type(found[file.path]) for file in files[1:]] == [Bounds] * 4


def test_no_checkpoint_is_not_no_storage(tmp_path: Path, s3: Bucket) -> None:
    for uri in (f"file://{tmp_path}", s3.uri()):
        reader = _reader(uri)
        with pytest.raises(CheckpointMissing, match="no file metadata"):
            reader.checkpoint()
        assert reader.listing(5) == Listing(5, [], {}, [], [])


def test_a_checkpoint_of_a_location_above_is_named(tmp_path: Path, s3: Bucket) -> None:
    (tmp_path / "metadata").write_bytes(b'{"checkpoint-ts":5}')
    (tmp_path / "shop" / "item" / "5").mkdir(parents=True)
    s3.put("metadata", b'{"checkpoint-ts":5}')
    for deep, right in (
        (f"file://{tmp_path}/shop/item/5", f"file://{tmp_path}"),
        (s3.uri().replace("?", "/shop/item/5?"), _reader(s3.uri()).identity),
    ):
        with pytest.raises(CheckpointMissing) as caught:
            _reader(deep).checkpoint()
        assert caught.value.hint == f"there is one in {right}: did you mean that?"


def test_a_storage_that_is_not_there(tmp_path: Path, s3: Bucket) -> None:
    places = [(f"file://{tmp_path}/gone", StorageUnavailable), (s3.uri(bucket="gone", login=WRITER), BadConfig)]
    for uri, error in places:
        reader = _reader(uri)
        for look in (reader.checkpoint, lambda reader=reader: reader.listing(5)):
            with pytest.raises(error, match=r"gone.*: it is not there"):
                look()


def test_a_login_that_is_refused(s3: Bucket) -> None:
    reader = _reader(s3.uri(login=("WRONG", "wr0ng")))
    with pytest.raises(BadConfig, match="InvalidAccessKeyId") as caught:
        reader.checkpoint()
    assert "WRONG" not in str(caught.value)


def test_a_listing_is_a_new_look_each_time(s3: Bucket) -> None:
    s3.put_directory(ACROSS)
    reader = _reader(s3.uri())
    before = reader.listing(5)
    s3.put("README", b"x")
    s3.server.put(f"{s3.prefix}2/README", b"another upstream")
    after = reader.listing(5)
    assert (before.unknown, after.unknown) == ([], ["README"])
    assert after.files == before.files


def test_a_large_object_is_not_read_whole(s3: Bucket) -> None:
    s3.put_directory(ACROSS)
    file = next(file for file in sorted((ACROSS / "shop/item").rglob("CDC*.json")))
    s3.put(file.relative_to(ACROSS).as_posix(), file.read_bytes() * 10_000)
    reader = _reader(s3.uri())
    large = [file for file in reader.listing(5).files["shop/item"] if file.size > 1_000_000]
    s3.proxy.requests.clear()
    assert [type(bounds) for bounds in reader.bounds(large).values()] == [Bounds]
    ranges = [wanted for _, _, wanted in s3.proxy.requests]
    assert ranges == ["bytes=0-65535", f"bytes={large[0].size - 65536}-{large[0].size - 1}"]


def test_a_local_run_imports_no_object_storage() -> None:
    script = f"""
import sys
from consumer.model.files import StoredFile
from consumer.storage.reader import ChangefeedReader
from consumer.storage.settings import StorageSettings
reader = ChangefeedReader(StorageSettings.from_uri("file://{ACROSS}"))
assert reader.listing(reader.checkpoint()).files
reader.range_reader().read(StoredFile("metadata", 10, ""), 0, 5)
print([name for name in ("fsspec", "botocore", "pyarrow", "pyspark") if name in sys.modules])
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout == "[]\n"
