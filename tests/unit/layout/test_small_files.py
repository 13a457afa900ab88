"""``metadata`` and index files."""

from __future__ import annotations

import pytest

from consumer.errors import CorruptFile, StorageUnavailable
from consumer.layout.paths import DataPath, IndexPath
from consumer.layout.pointers import parse_checkpoint, parse_index_file
from consumer.model.files import Folder
from tests.support.written_files import render_checkpoint, render_index_file

FOLDER = Folder("db/t", 5, "105", "2026-11-21")


def test_a_checkpoint_is_exact_beyond_the_range_of_doubles() -> None:
    assert parse_checkpoint(b'{"checkpoint-ts":470611625733521409}') == 470611625733521409
    assert render_checkpoint(470611625733521409) == b'{"checkpoint-ts":470611625733521409}'


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"[1]",
        b"{}",
        b'{"checkpoint-ts":"1"}',
        b'{"checkpoint-ts":true}',
        b'{"checkpoint-ts":-1}',
        b'{"checkpoint-ts":1.5}',
        b'{"checkpoint-ts":9223372036854775808}',
    ],
)
def test_what_is_no_checkpoint_is_refused(content: bytes) -> None:
    with pytest.raises(StorageUnavailable, match="checkpoint file") as caught:
        parse_checkpoint(content)
    assert caught.value.path == "metadata"


@pytest.mark.parametrize(
    ("folder", "content", "index"),
    [
        (FOLDER, b"CDC00000000000000000003.json\n", 3),
        (FOLDER, b"CDC000012.json", 12),
        (Folder("db/t", 5, dispatcher="77"), b"CDC_77_00000000000000000003.json\n", 3),
    ],
)
def test_an_index_file_names_a_file_of_its_folder(folder: Folder, content: bytes, index: int) -> None:
    assert parse_index_file(IndexPath(folder), content) == DataPath(folder, index)


def test_an_index_file_is_written_as_ticdc_does() -> None:
    assert render_index_file(DataPath(FOLDER, 3)) == b"CDC00000000000000000003.json\n"


@pytest.mark.parametrize("content", [b"", b"\xff", b"CDC.index\n", b"../5/CDC000001.json\n", b"CDC_78_000001.json\n"])
def test_what_names_no_file_of_the_folder_is_refused(content: bytes) -> None:
    with pytest.raises(CorruptFile, match="does not name"):
        parse_index_file(IndexPath(Folder("db/t", 5, dispatcher="77")), content)
