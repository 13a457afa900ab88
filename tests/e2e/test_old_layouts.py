"""Storages in the forms of TiCDC's first releases: the recorded changefeed, with its files where those put them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.command_line import DEMO_TABLES, CommandLine, duckdb_tables


def _older(storage: Path, with_index: bool) -> None:
    """``DB/TABLE/V/schema.json`` and ``DB/TABLE/V/CDC000001.json``, no date folders; nothing tells of databases."""
    for schema in storage.glob("*/*/meta/schema_*.json"):
        version = schema.name.split("_")[1]
        folder = schema.parent.parent / version
        folder.mkdir(exist_ok=True)
        schema.rename(folder / "schema.json")
    for data in storage.glob("*/*/*/*/CDC*.json"):
        data.rename(data.parent.parent / f"CDC{int(data.stem.removeprefix('CDC')):06d}.json")
    for index in storage.glob("*/*/*/*/meta/CDC.index"):
        folder = index.parents[2]
        if with_index:
            newest = max(file.name for file in folder.glob("CDC*.json"))
            (folder / "CDC.index").write_text(f"{newest}\n")
        index.unlink()
    for schema in storage.glob("*/meta/schema_*.json"):
        schema.unlink()


@pytest.mark.parametrize("with_index", [False, True], ids=["v6.5.0", "v6.5.2"])
def test_the_form_of_the_first_releases_is_read(cli: CommandLine, with_index: bool) -> None:
    _older(cli.storage, with_index)
    assert not [path for path in cli.storage.rglob("meta/*") if path.is_file()]
    assert cli.run("once", "--file-index-width", "6").code == 0
    assert duckdb_tables(cli.target) == DEMO_TABLES
    again = cli.run("once", "--json")
    assert again.code == 0
    assert {table["changes"] for table in again.json["tables"].values()} == {0}, "nothing is read a second time"
