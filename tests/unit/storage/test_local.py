"""What a file system can hold beside files and folders."""

from __future__ import annotations

import errno
import os
import resource
from pathlib import Path
from typing import Any

import pytest

from consumer.errors import StorageChanged, StorageUnavailable
from consumer.model.files import StoredFile
from consumer.storage import open_files
from consumer.storage.files import Files
from consumer.storage.settings import StorageSettings
from consumer.storage.spans import Spans


def files(folder: Path) -> Files:
    return open_files(StorageSettings.from_uri(f"file://{folder}"))


def test_a_fifo_is_refused_and_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "metadata")
    with pytest.raises(StorageUnavailable, match="metadata: it is no regular file but a FIFO"):
        files(tmp_path).read_if_there("metadata", 100)
    (found,) = files(tmp_path).scan(Spans())
    with pytest.raises(StorageUnavailable, match="no regular file"):
        files(tmp_path).read(found, 0, found.size)


@pytest.mark.parametrize("target", ["loop", "..", "../.."])
def test_a_link_that_leads_back_is_told(tmp_path: Path, target: str) -> None:
    folder = tmp_path / "d" / "t"
    folder.mkdir(parents=True)
    (folder / "loop").symlink_to(target)
    with pytest.raises(StorageUnavailable, match="d/t/loop: it is a symbolic link that leads back"):
        files(tmp_path).scan(Spans())


def test_a_link_to_another_folder_of_the_storage_is_followed(tmp_path: Path) -> None:
    """Also where the storage's own folder is such a link."""
    (tmp_path / "disk" / "elsewhere").mkdir(parents=True)
    (tmp_path / "disk" / "elsewhere" / "x.json").write_bytes(b"x")
    (tmp_path / "disk" / "d").symlink_to("elsewhere")
    (tmp_path / "cdc").symlink_to("disk")
    found = sorted(files(tmp_path / "cdc").scan(Spans()), key=lambda file: file.path)
    assert [file.path for file in found] == ["d/x.json", "elsewhere/x.json"]
    assert [files(tmp_path / "cdc").read(file, 0, 1) for file in found] == [b"x", b"x"]


@pytest.mark.parametrize("kind", ["folder", "file"])
@pytest.mark.parametrize("way", ["relative", "absolute"])
def test_no_link_leads_out_of_the_storage(tmp_path: Path, kind: str, way: str) -> None:
    (tmp_path / "cdc-secret").mkdir()
    (tmp_path / "cdc-secret" / "x.json").write_bytes(b"secret")
    (tmp_path / "cdc" / "d").mkdir(parents=True)
    aim = "cdc-secret" if kind == "folder" else "cdc-secret/x.json"
    (tmp_path / "cdc" / "d" / "out").symlink_to(tmp_path / aim if way == "absolute" else f"../../{aim}")
    with pytest.raises(StorageUnavailable, match="d/out: it is a symbolic link that leads out"):
        files(tmp_path / "cdc").scan(Spans())
    path = "d/out/x.json" if kind == "folder" else "d/out"
    with pytest.raises(StorageUnavailable, match="leads out"):
        files(tmp_path / "cdc").read_if_there(path, 100)
    with pytest.raises(StorageUnavailable, match="leads out"):
        files(tmp_path / "cdc").read(StoredFile(path, 6, "", 0), 0, 6)


@pytest.mark.parametrize("stays", [True, False], ids=["deleted", "back"])
def test_a_folder_that_is_away_while_it_is_listed(stays: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A clean-up deletes folders meanwhile. One that is back at the end of the listing may have new files."""
    folder, other = tmp_path / "d" / "t", tmp_path / "e"
    for path in (folder, other):
        path.mkdir(parents=True)
        (path / "x.json").write_bytes(b"x")
    scandir, away = os.scandir, [folder]

    def scan(path: str) -> Any:
        if Path(path) in away:
            away.remove(Path(path))
            if stays:
                folder.rename(tmp_path.with_name(f"{tmp_path.name}-deleted"))
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        return scandir(path)

    monkeypatch.setattr(os, "scandir", scan)
    if stays:
        assert [file.path for file in files(tmp_path).scan(Spans())] == ["e/x.json"]
    else:
        with pytest.raises(StorageChanged, match="d/t: it was not there for a moment"):
            files(tmp_path).scan(Spans())
        assert sorted(file.path for file in files(tmp_path).scan(Spans())) == ["d/t/x.json", "e/x.json"]


def test_no_path_leads_out_of_the_storage(tmp_path: Path) -> None:
    (tmp_path / "secret").write_bytes(b"secret")
    (tmp_path / "cdc").mkdir()
    with pytest.raises(StorageUnavailable, match="leads out"):
        files(tmp_path / "cdc").read_if_there("../secret", 100)


def test_a_file_for_which_there_is_no_room_leaves_nothing(tmp_path: Path) -> None:
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    for content in (b"x" * 200, b"x" * 100_000):  # what is too long when it is flushed, and at once
        resource.setrlimit(resource.RLIMIT_FSIZE, (100, limits[1]))
        try:
            with pytest.raises(StorageUnavailable, match="cannot write"):
                files(tmp_path).write("c/d.t/letter.json", content)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert list((tmp_path / "c/d.t").iterdir()) == []
    files(tmp_path).write("c/d.t/letter.json", b"short")
    assert [path.name for path in (tmp_path / "c/d.t").iterdir()] == ["letter.json"]
