"""A listing that leaves out spans: the same from every storage, at the cost of what is new."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from consumer.model.files import Folder, StoredFile
from consumer.model.progress import FolderProgress, Progress
from consumer.model.times import ms_to_tso
from consumer.storage import open_files
from consumer.storage import s3 as s3_files
from consumer.storage.files import Files
from consumer.storage.reader import ChangefeedReader
from consumer.storage.remote import RemoteFiles
from consumer.storage.settings import StorageSettings
from consumer.storage.spans import Span, Spans, read_spans
from tests.cloud_servers import AzureServer, CloudServer
from tests.unit.storage.conftest import Bucket

PATHS = [
    f"d/{table}/5/{date}/{name}"
    for table in ("a", "a-b", "a.b", "b")
    for date in ("2026-01-01", "2026-01-02", "2026-01-03")
    for name in (*(f"CDC{number:020d}.json" for number in range(1, 8)), "meta/CDC.index")
] + ["metadata", "d/meta/schema_1_0000000001.json", "d/b/meta/schema_5_0000000001.json"]
SPANS = Spans(
    span
    for table in ("a", "b")
    for span in (
        Span(f"d/{table}/5/2026-01-01/", f"d/{table}/5/2026-01-020", 16),
        Span(f"d/{table}/5/2026-01-03/CDC", f"d/{table}/5/2026-01-03/CDC{6:020d}", 5),
    )
)
EXPECTED = sorted(path for path in PATHS if SPANS.covering(path) is None)


@pytest.fixture
def page(monkeypatch: pytest.MonkeyPatch) -> int:
    """Of fewer keys than S3's, so that fewer make several pages."""
    monkeypatch.setattr(s3_files, "PAGE", 100)
    return 100


def scanned(files: Files, spans: Spans) -> list[str]:
    return sorted(file.path for file in files.scan(spans))


def many(spans: Spans) -> Spans:
    """The same, as if many files lay there."""
    return Spans(Span(span.first, span.end, 100_000) for span in spans.all)


def fill(directory: Path, paths: Iterable[str] = PATHS) -> None:
    for path in paths:
        (directory / path).parent.mkdir(parents=True, exist_ok=True)
        (directory / path).write_bytes(b"x")


def test_a_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(tmp_path)
    files = open_files(StorageSettings.from_uri(f"file://{tmp_path}"))
    assert scanned(files, Spans()) == sorted(PATHS)
    looked_at: list[str] = []
    scandir = os.scandir
    monkeypatch.setattr(os, "scandir", lambda path: looked_at.append(str(path)) or scandir(path))
    assert scanned(files, SPANS) == EXPECTED
    assert not any("d/a/5/2026-01-01" in path or "d/b/5/2026-01-02" in path for path in looked_at)


def test_a_bucket(s3: Bucket) -> None:
    """This server does not sort keys by their bytes: a-b comes behind all of a/."""
    s3.put_all(dict.fromkeys(PATHS, b"x"))
    files = open_files(StorageSettings.from_uri(s3.uri()))
    assert scanned(files, Spans()) == sorted(PATHS)
    for spans in (SPANS, many(SPANS)):
        assert scanned(files, spans) == EXPECTED


def test_another_storage(cloud: CloudServer) -> None:
    for path in PATHS:
        cloud.put(f"scan/{path}", b"x")
    files = open_files(StorageSettings.from_uri(cloud.uri("scan")))
    assert scanned(files, Spans()) == sorted(PATHS)
    for spans in (SPANS, many(SPANS)):
        assert scanned(files, spans) == EXPECTED


def test_azure_with_markers_of_folders_and_odd_names(azure: AzureServer) -> None:
    """Tools that copy from other storages write an empty blob for each folder."""
    names = ("d/t", "d#/t?", " d/ t ", "d%2F/t+", "d-x/t", "dä/ü")
    paths = [f"{name}/5/CDC{number:020d}.json" for name in names for number in (1, 2)]
    for path in [*paths, "d/", "d/t/", "d/t/5/", "z/"]:
        azure.put(f"marked/{path}", b"" if path.endswith("/") else b"x")
    files = open_files(StorageSettings.from_uri(azure.uri("marked")))
    spans = Spans(Span(f"{name}/5/CDC0", f"{name}/5/CDC{2:020d}", 1) for name in names)
    assert scanned(files, Spans()) == sorted(paths)
    for left_out in (spans, many(spans)):
        assert scanned(files, left_out) == sorted(path for path in paths if path.endswith("2.json"))


def test_folders_that_vanish_from_another_storage_meanwhile_are_left_out(
    cloud: CloudServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """TiCDC's clean-up deletes a folder between the look at what is above it and the look into it."""
    for path in PATHS:
        cloud.put(f"vanish/{path}", b"x")
    files = open_files(StorageSettings.from_uri(cloud.uri("vanish")))
    assert isinstance(files, RemoteFiles)
    gone, listed = "d/a-b/5/2026-01-01", RemoteFiles._listed

    def look(self: RemoteFiles, directory: str, spans: Spans) -> Iterator[StoredFile]:
        if directory == gone:
            self._filesystem().rm(f"{self.settings.base}/{gone}", recursive=True)
        return listed(self, directory, spans)

    monkeypatch.setattr(RemoteFiles, "_listed", look)
    assert scanned(files, many(SPANS)) == [path for path in EXPECTED if not path.startswith(gone)]


def test_a_long_listing_leaps_and_is_cut_into_parts(s3: Bucket) -> None:
    """Behind a leap a short page is asked for; no more requests than spans and pages of new files."""
    tables = [f"d/t{number:02d}" for number in range(40)]
    old = {f"{table}/5/CDC{number:020d}.json": b"x" for table in tables for number in range(1, 41)}
    s3.put_all(old)
    files = open_files(StorageSettings.from_uri(s3.uri()))
    spans = Spans(Span(f"{table}/5/CDC", f"{table}/5/CDC{40:020d}", 1000) for table in tables)
    s3.proxy.requests.clear()
    assert scanned(files, spans) == [f"{table}/5/CDC{40:020d}.json" for table in tables]
    assert s3.proxy.listings <= len(tables)
    few = Spans(Span(span.first, span.end, 39) for span in spans.all)
    s3.proxy.requests.clear()
    assert scanned(files, few) == scanned(files, spans)
    assert s3.proxy.listings - len(tables) <= 2, "where little lies between them, spans are not leapt over"


def test_a_listing_without_leaps_is_cut_at_known_folders(s3: Bucket) -> None:
    """Every key is found once: those beside a cut, in front of the first and behind the last one, and unknown ones."""
    folders = [f"d/t{number:04d}/5/" for number in range(4000)]
    ends = ("", "!/CDC1.json", "/CDC1.json", "0/CDC1.json")
    beside = [folder[:-1] + end for folder in folders[::500] for end in ends]
    keys = sorted({"a/CDC1.json", "metadata", "z/5/CDC1.json", *beside, *(f"{f}CDC2.json" for f in folders[::3])})
    named_like_folders = [key for key in keys if f"{key}/" in folders]
    s3.put_all(dict.fromkeys(set(keys).difference(named_like_folders), b"x"))
    for key in named_like_folders:  # SeaweedFS can lose one while its folder is being made
        s3.put(key, b"x")
    files = open_files(StorageSettings.from_uri(s3.uri()))
    s3.proxy.requests.clear()
    assert scanned(files, Spans(looked_into=folders)) == keys
    assert s3.proxy.listings >= 4, "one for each part"
    s3.proxy.requests.clear()
    assert scanned(files, Spans()) == keys
    assert s3.proxy.listings == 2


def test_new_tables_dates_versions_and_schema_files_come_with_it(s3: Bucket) -> None:
    known = "d/t/5/2026-01-01"
    s3.put_all({f"{known}/CDC{number:020d}.json": b"x" for number in range(1, 9)})
    settings = StorageSettings.from_uri(s3.uri())
    reader = ChangefeedReader(settings, "day")
    (last,) = (file for file in reader.listing(9).files["d/t"] if file.index == 8)
    folders = {Folder("d/t", 5, date="2026-01-01"): FolderProgress(8, last.size, last.stamp)}
    progress = Progress(settings.identity, 9, folders=folders)
    new = [
        f"{known}/CDC{9:020d}.json",
        "d/t/5/2026-01-02/CDC00000000000000000001.json",
        "d/t/6/2026-01-02/CDC00000000000000000001.json",
        "d/x/y/5/2026-01-02/CDC00000000000000000001.json",
        "a/t/5/2026-01-02/CDC00000000000000000001.json",
        "104/5/2026-01-02/CDC00000000000000000001.json",
    ]
    s3.put_all(dict.fromkeys(new, b"y"))
    listing = reader.listing(10, progress)
    assert listing.partial
    assert sorted(file.path for group in listing.files.values() for file in group) == sorted([last.path, *new])
    other = Progress("s3://another/upstream", 9, folders=folders)
    assert sum(map(len, reader.listing(10, other).files.values())) == 8 + len(new)


def test_days_beside_months_are_found_whatever_the_order_of_keys(s3: Bucket, page: int) -> None:
    """This server lists a month's folder in front of those of its days. The first page ends in the month."""
    dates = ["1999-12-30", "2025-01", "2025-01-05", "2025-01-20", "2025-02", "2026-03-10"]
    paths = [f"d/t/5/{date}/CDC{number:020d}.json" for date in dates for number in range(1, 4)]
    s3.put_all(dict.fromkeys([*(f"a/{number}" for number in range(page - 5)), *paths], b"x"))
    known = {Folder("d/t", 5, "", date): FolderProgress(3, 1, "a") for date in dates}
    moment = ms_to_tso(int(datetime(2026, 3, 10, tzinfo=UTC).timestamp() * 1000))
    files = open_files(StorageSettings.from_uri(s3.uri()))
    for looked_at in known:
        spans = read_spans(Progress("u", moment, folders=known), [looked_at])
        folder = f"d/t/5/{looked_at.date}/"
        assert [path for path in scanned(files, spans) if path.startswith(folder)] == [
            path for path in paths if path.startswith(folder)
        ]
        assert spans.closed


def test_a_server_with_another_order_of_keys_is_walked_in_its_own(s3: Bucket) -> None:
    """By bytes all of t00-b comes before all of t00/, here behind it: a walk that is cut at t00/ would miss it."""
    tables = [f"d/t{number:02d}{more}" for number in range(20) for more in ("", "-b")]
    s3.put_all({f"{table}/5/CDC{number:020d}.json": b"x" for table in tables for number in range(1, 6)})
    spans = Spans(Span(f"{table}/5/CDC", f"{table}/5/CDC{4:020d}", 1000) for table in tables if "-b" not in table)
    files = open_files(StorageSettings.from_uri(s3.uri()))
    expected = {
        f"{table}/5/CDC{number:020d}.json" for table in tables for number in (range(1, 6) if "-b" in table else (4, 5))
    }
    assert scanned(files, spans) == sorted(expected)


def test_walks_beside_one_another_that_do_not_meet_are_walked_again(s3: Bucket, page: int) -> None:
    """This server lists shop before shop-eu. A walk that is cut in shop-eu ends where it sees the first of shop, and
    the next one begins behind all of shop: each has its keys in byte order."""
    folders = [f"shop-eu/t{number:04d}/5/" for number in range(3 * page)]
    keys = [f"shop/t/5/CDC{number:020d}.json" for number in range(1, page + 2)]
    keys += [f"{folder}CDC{1:020d}.json" for folder in folders[::page]]
    s3.put_all(dict.fromkeys(keys, b"x"))
    files = open_files(StorageSettings.from_uri(s3.uri()))
    assert scanned(files, Spans(looked_into=folders)) == sorted(keys)
