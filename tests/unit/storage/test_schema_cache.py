"""Schema files are read once: by a later reader too, unless anything about them has changed."""

from __future__ import annotations

import os
import shutil
import time
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest

from consumer.model.files import SchemaFile
from consumer.model.process import cache_folder
from consumer.storage.local import LocalFiles
from consumer.storage.reader import ChangefeedReader
from consumer.storage.settings import StorageSettings
from tests.unit.storage.conftest import Bucket

STORAGES = Path(__file__).parents[3] / "fixtures" / "cdc"
ACROSS, NAMES = (STORAGES / name / "storage" for name in ("across_nodes", "names"))
Seen = list[str]


@pytest.fixture(autouse=True)
def _cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture
def fetched(monkeypatch: pytest.MonkeyPatch) -> Seen:
    """The paths of files that are read whole."""
    paths: Seen = []
    read = LocalFiles.read_if_there

    def seen(self: LocalFiles, path: str, length: int) -> bytes | None:
        paths.append(path)
        return read(self, path, length)

    monkeypatch.setattr(LocalFiles, "read_if_there", seen)
    return paths


@pytest.fixture
def storage(tmp_path: Path) -> Path:
    return Path(shutil.copytree(ACROSS, tmp_path / "storage"))


def schemas(uri: str) -> list[SchemaFile]:
    """As a command of its own finds them."""
    return list(ChangefeedReader(StorageSettings.from_uri(uri), "day").listing(5).schemas)


def below(folder: Path) -> list[SchemaFile]:
    return schemas(f"file://{folder}?protocol=canal-json")


@pytest.mark.parametrize("folder", [ACROSS, NAMES])
def test_a_later_command_has_the_same_and_fetches_none(folder: Path, fetched: Seen) -> None:
    first = below(folder)
    assert sorted(fetched) == sorted(schema.path for schema in first)
    fetched.clear()
    assert below(folder) == first
    assert fetched == []


def test_one_that_changed_is_read_again(storage: Path, fetched: Seen) -> None:
    first = below(storage)
    changed = storage / first[0].path
    stat = changed.stat()
    os.utime(changed, ns=(stat.st_atime_ns, stat.st_mtime_ns + 1))
    (storage / first[1].path).unlink()
    fetched.clear()
    assert below(storage) == [first[0], *first[2:]]
    assert fetched == [first[0].path]


def test_what_nobody_wrote_for_a_month_goes_once_another_is_written(storage: Path) -> None:
    below(ACROSS)
    (old,) = cache_folder("schemas").iterdir()
    month_ago = time.time() - 31 * 24 * 3600
    os.utime(old, (month_ago, month_ago))
    below(storage)
    assert len(list(cache_folder("schemas").iterdir())) == 1
    assert not old.exists()


def _flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def _in_another_form(path: Path, body: bytes = b'{"files":[["p",1,"s"]]}') -> None:
    path.write_bytes(b"%d\n%b" % (zlib.crc32(body), body))


HARMS = {
    "lost": Path.unlink,
    "cut": lambda path: path.write_bytes(path.read_bytes()[:-1]),
    "flipped": _flip,
    "empty": lambda path: path.write_bytes(b""),
    "in another form": _in_another_form,
    "without its lists": lambda path: _in_another_form(
        path, b"%b}" % path.read_bytes().partition(b"\n")[2].replace(b'{"columns":', b'{"columns":[],"x":')[:-1]
    ),
    "open to others": lambda path: path.chmod(0o622),
}


@pytest.mark.parametrize("harm", HARMS.values(), ids=HARMS)
def test_a_harmed_cache_is_none(harm: Callable[[Path], object], storage: Path, fetched: Seen) -> None:
    first = below(storage)
    (kept,) = cache_folder("schemas").iterdir()
    assert kept.stat().st_mode & 0o777 == 0o600
    harm(kept)
    fetched.clear()
    assert below(storage) == first
    assert len(fetched) == len(first)


def test_what_a_process_that_died_left_half_written_is_in_nobody_s_way(storage: Path, fetched: Seen) -> None:
    """In a container the next process has the same number."""
    first = below(storage)
    (kept,) = cache_folder("schemas").iterdir()
    kept.rename(kept.with_suffix(f".{os.getpid()}"))
    assert below(storage) == first
    fetched.clear()
    assert below(storage) == first
    assert fetched == []


def test_a_full_disk_leaves_nothing_behind(storage: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise OSError("no space left on device")

    monkeypatch.setattr(os, "replace", fail)
    below(storage)
    assert list(cache_folder("schemas").iterdir()) == []


def test_no_place_for_a_cache_is_no_error(storage: Path, fetched: Seen, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "/dev/null")
    assert below(storage) == below(storage)
    assert len(fetched) == 2 * len(below(ACROSS))


def test_another_storage_has_its_own(storage: Path, fetched: Seen) -> None:
    first = below(ACROSS)
    fetched.clear()
    assert below(storage) == first
    assert len(fetched) == len(first)


def test_objects_are_told_by_their_etags(s3: Bucket) -> None:
    s3.put_directory(ACROSS)
    first = schemas(s3.uri())
    assert [schema.query for schema in first] == [schema.query for schema in below(ACROSS)]
    assert schemas(s3.uri()) == first
