"""Google Cloud Storage and Azure as the reader sees them, on their emulators."""

from __future__ import annotations

import gzip
import tracemalloc

import pytest

from consumer.errors import BadConfig, CheckpointMissing, StorageChanged, StorageUnavailable
from consumer.model.files import Folder
from consumer.model.progress import FolderProgress, Progress
from consumer.storage import open_files
from consumer.storage.files import Files
from consumer.storage.reader import ChangefeedReader
from consumer.storage.settings import StorageSettings
from consumer.storage.spans import Spans
from tests.cloud_servers import AzureServer, CloudServer, GcsServer

NAME = "d+b/ü %23#?&{}/CDC00000000000000000001.json"


def files_of(cloud: CloudServer, prefix: str, bucket: str = "ticdc") -> Files:
    return open_files(StorageSettings.from_uri(cloud.uri(prefix, bucket=bucket)))


def test_ranges_of_a_file_with_any_name(cloud: CloudServer) -> None:
    cloud.put(f"ranges/{NAME}", b"0123456789")
    files = files_of(cloud, "ranges")
    (file,) = files.scan(Spans())
    assert (file.path, file.size) == (NAME, 10)
    assert file.stamp
    assert files.read(file, 0, 10) == b"0123456789"
    assert files.read(file, 3, 4) == b"3456"
    assert files.read(file, 8, 100) == b"89"
    assert files.read(file, 3, 0) == b""
    assert files.read_if_there(NAME, 4) == b"0123"
    assert files.read_if_there("gone", 4) is None


def test_a_prefix_is_a_folder(cloud: CloudServer) -> None:
    """Not a neighbour that begins with it, and not the marker of a folder."""
    for key in ("alone/p/", "alone/p/metadata", "alone/p2/metadata"):
        cloud.put(key, b"x")
    assert [file.path for file in files_of(cloud, "alone/p").scan(Spans())] == ["metadata"]
    assert files_of(cloud, "alone/nothing").scan(Spans()) == []


def test_a_prefix_that_is_a_file(gcs: GcsServer, azure: AzureServer) -> None:
    for cloud in (gcs, azure):
        cloud.put("file/p", b"x")
    assert files_of(gcs, "file/p").scan(Spans()) == []
    with pytest.raises(BadConfig, match="names a file, not a folder: azblob://ticdc/file/p"):
        files_of(azure, "file/p").scan(Spans())


def test_a_file_written_anew_has_another_stamp(cloud: CloudServer) -> None:
    cloud.put("stamp/f", b"one")
    files = files_of(cloud, "stamp")
    (file,) = files.scan(Spans())
    cloud.put("stamp/f", b"two")
    assert files.scan(Spans())[0].stamp != file.stamp


def test_a_file_is_read_as_it_was_listed(azure: AzureServer) -> None:
    """On Azure alone: Google's emulator answers a request for an old generation with the new one."""
    azure.put("anew/f", b"one")
    files = files_of(azure, "anew")
    (file,) = files.scan(Spans())
    assert file.stamp[0] == file.stamp[-1] == '"', "as it stands in the progress since the first release"
    azure.put("anew/f", b"two")
    with pytest.raises(StorageChanged, match="rewritten"):
        files.read(file, 0, 3)


def test_the_checkpoint(cloud: CloudServer) -> None:
    reader = ChangefeedReader(StorageSettings.from_uri(cloud.uri("checkpoint")))
    with pytest.raises(CheckpointMissing, match=r"there is no file metadata in .*://ticdc/checkpoint"):
        reader.checkpoint()
    cloud.put("checkpoint/metadata", b'{"checkpoint-ts":470611618366488576}')
    assert reader.checkpoint() == 470611618366488576
    cloud.put("checkpoint/metadata", b'{"checkpoint-ts":470611618366488577}')
    assert reader.checkpoint() == 470611618366488577


def test_a_bucket_that_is_not_there(cloud: CloudServer) -> None:
    """Azure says so by name, and asking again gives nothing else. Google's answer is that of a missing object."""
    files = files_of(cloud, "p", bucket="elsewhere")
    kind = BadConfig if isinstance(cloud, AzureServer) else StorageUnavailable
    with pytest.raises(kind, match=r"cannot read the storage .*://elsewhere/p: it is not there"):
        files.scan(Spans())
    with pytest.raises(kind, match=r"cannot read file .*://elsewhere/p/metadata: it is not there"):
        files.read_if_there("metadata", 9)


def test_a_listing_from_a_progress_has_what_is_new(cloud: CloudServer) -> None:
    known = "d/t/5/2026-01-01"
    for number in range(1, 9):
        cloud.put(f"listing/{known}/CDC{number:020d}.json", b"x")
    settings = StorageSettings.from_uri(cloud.uri("listing"))
    reader = ChangefeedReader(settings, "day")
    (last,) = (file for file in reader.listing(9).files["d/t"] if file.index == 8)
    folders = {Folder("d/t", 5, date="2026-01-01"): FolderProgress(8, last.size, last.stamp)}
    new = [
        f"{known}/CDC{9:020d}.json",
        "d/t/5/2026-01-02/CDC00000000000000000001.json",
        "a/b/7/2026-01-02/CDC00000000000000000001.json",
    ]
    for path in new:
        cloud.put(f"listing/{path}", b"y")
    listing = reader.listing(10, Progress(settings.identity, 9, folders=folders))
    assert listing.partial
    assert sorted(file.path for group in listing.files.values() for file in group) == sorted([last.path, *new])


def test_what_says_that_it_is_compressed_is_read_as_it_is_stored(azure: AzureServer) -> None:
    """Else a few bytes could become any number of them in memory."""
    bomb = gzip.compress(bytes(50_000_000))
    azure.put("bomb/f", bomb, encoding="gzip")
    files = files_of(azure, "bomb")
    (file,) = files.scan(Spans())
    tracemalloc.start()
    assert files.read(file, 0, file.size) == bomb
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 10_000_000
