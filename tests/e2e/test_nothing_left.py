"""A command that is refused leaves no empty file behind, and says what is the matter with one that it cannot make."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pytest

from tests.support.feed import Feed
from tests.support.shop import Shop


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (("skip-ddl", "--table", "d.it's", "--version", "5"), "no statement of d.it's with version 5 is pending"),
        (("resync", "--table", "d.gone"), "there is no table d.gone in the storage"),
        (("once", "--upstream-uri", "file://{feed}?protocol=csv"), "the settings say protocol csv"),
    ],
)
def test_a_refused_command_makes_no_file(call: tuple[str, ...], said: str, shop: Shop, tmp_path: Path) -> None:
    new = tmp_path / "new.duckdb"
    given = [word.format(feed=shop.feed.folder) for word in call]
    left = shop.run(*given, "--downstream-uri", f"duckdb:///{new}")
    assert (left.code, said in left.err) == (2, True)
    assert not list(tmp_path.glob("new.duckdb*[!g]"))


def test_a_refused_command_leaves_a_file_that_was_there(shop: Shop, tmp_path: Path) -> None:
    own = tmp_path / "own.duckdb"
    with duckdb.connect(str(own)) as connection:
        connection.execute("CREATE TABLE mine AS SELECT 1 AS one")
    refused = shop.run("resync", "--table", "d.gone", "--downstream-uri", f"duckdb:///{own}")
    assert refused.code == 2
    with duckdb.connect(str(own)) as connection:
        assert connection.execute("FROM mine").fetchall() == [(1,)]


def test_a_first_run_with_nothing_to_apply_keeps_its_file(shop: Shop, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    empty = Feed(tmp_path / "empty")
    empty.checkpoint(9)
    target = ("--downstream-uri", f"duckdb:///{tmp_path}/first.duckdb")
    assert shop.run("once", *target, "--upstream-uri", f"file://{empty.folder}?protocol=canal-json").code == 0
    assert (tmp_path / "first.duckdb").exists()


def test_a_folder_that_nobody_may_write_to_is_told_at_once(shop: Shop) -> None:
    """Linux lets not even root make a folder in /sys."""
    left = shop.run("once", "--downstream-uri", "duckdb:////sys/new.duckdb")
    assert left.code == 2
    assert "the staging folder /sys/new.duckdb.staging cannot be written: " in left.err
    assert "let this user write to /sys, or put the file elsewhere" in left.err
    assert shop.run("once").code == 0, "elsewhere"


def test_totals_of_one(shop: Shop) -> None:
    shop.feed.puts("d.it's", 2, {16: (3, "3")})
    shop.feed.checkpoint(20)
    assert "0 statements, 1 load of 1 file, " in shop.run("plan").out
