"""What a file system can hold beside files and folders."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from consumer.errors import StorageUnavailable
from consumer.storage.files import Files
from consumer.storage.open_files import open_files
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


def test_a_link_to_another_folder_is_followed(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "x.json").write_bytes(b"x")
    (tmp_path / "cdc").mkdir()
    (tmp_path / "cdc" / "d").symlink_to("../elsewhere")
    assert [file.path for file in files(tmp_path / "cdc").scan(Spans())] == ["d/x.json"]
