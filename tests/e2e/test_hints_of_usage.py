"""What a command is told that was called wrongly: called as the hint says, it goes through."""

from __future__ import annotations

import fcntl
import os
import socket
from collections.abc import Sequence
from pathlib import Path
from unittest.mock import Mock

import duckdb
import pytest

import consumer.app
from consumer.cli.main import main
from consumer.model.actions import Action
from consumer.observe.profiling import ADDRESS
from tests.support.build import VALUE
from tests.support.canal_json import row_line
from tests.support.command_line import DEMO_TABLES, T_WIDENED, CommandLine, duckdb_tables
from tests.support.shop import Shop

CHECKPOINT = 470611625733521409
TO = ("--downstream-uri",)


def follow(cli: CommandLine, wrong: Sequence[str], words: str, right: Sequence[str], code: int = 2) -> None:
    """`wrong` is refused with a hint that holds `words`, and `right`, which follows it, is not."""
    left = cli.run(*wrong)
    assert left.code == code, left
    (hint,) = (line for line in left.err.splitlines() if line.startswith("  "))
    assert words in hint
    done = cli.run(*right)
    assert done.code == 0, done


@pytest.mark.parametrize(
    ("wrong", "words", "right"),
    [
        (("once", "--checkpoint-ts", "max"), "leave --checkpoint-ts out", ("once",)),
        (("replay", "--start-ts", "7"), "give that instead", ("replay", "--from-ts", "7")),
        (("replay", "--name", "n" * 60), "at most 51 characters", ("replay", "--name", "n" * 51)),
        (("status", "--max-lag", "1m"), "add --check", ("status",)),
        (("forget", "--yes"), "give the name to be forgotten with --name", ("status",)),
        (("once", "--config", "none.toml"), "Give --config the changefeed's TOML file", ("once", "--config", "c.toml")),
        (("once", "--downstream-uri", "duckdb:///a#b.duckdb"), "percent-encode", ("once", "--downstream-uri", "duckdb:///a%23b.duckdb")),
        (("once", *TO, "duckdb:///storage_consumer.duckdb"), "rename the file", ("once", *TO, "duckdb:///s.duckdb")),
        (("once", "--downstream-uri", "duckdb:///tmp/a.duckdb"), "duckdb:////tmp/a.duckdb", ("once",)),
        (("resync", "--table", "du.T"), "`inspect` lists the tables", ("once",)),
        (("resync", "--table", "du.t", "--tables", "du.s"), "let it through", ("resync", "--table", "du.t")),
        (("skip-ddl", "--table", "du.t", "--version", "7"), "pending: du ", ("once",)),
        (("skip-ddl", "--table", "du.t", "--version", str(T_WIDENED)), "run once first", ("once",)),
    ],
)  # fmt: skip
def test_as_the_hint_says(wrong: tuple[str, ...], words: str, right: tuple[str, ...], cli: CommandLine) -> None:
    Path("c.toml").write_text("[sink]\n", encoding="utf-8")
    follow(cli, wrong, words, right)


def test_a_backfill_of_a_target_that_is_not_empty(cli: CommandLine) -> None:
    assert cli.run("once").code == 0
    follow(cli, ("backfill",), "go on with `once`", ("once",))
    other = f"{cli.target}.other"
    follow(
        cli, ("backfill",), "another --name and an empty target", ("backfill", "--name", "b", "--downstream-uri", other)
    )
    assert duckdb_tables(other) == DEMO_TABLES


def test_a_replica_that_began_elsewhere(cli: CommandLine) -> None:
    assert cli.run("once").code == 0
    follow(cli, ("once", "--start-ts", str(CHECKPOINT)), "leave --start-ts out to go on", ("once",))
    other = ("--downstream-uri", f"{cli.target}.other", "--name", "another")
    follow(cli, ("once", "--start-ts", str(CHECKPOINT)), "a new target under another --name", ("once", *other))


def test_a_range_that_is_not_there_yet(cli: CommandLine) -> None:
    later = ("replay", "--to-ts", str(CHECKPOINT << 1))
    follow(cli, later, "leave --to-ts out to replay what is there", ("replay",), code=4)
    (cli.storage / "metadata").write_text(f'{{"checkpoint-ts":{CHECKPOINT << 1}}}', encoding="utf-8")
    assert cli.run(*later, "--downstream-uri", f"{cli.target}.2").code == 0, "once it is past --to-ts"


def test_another_zone_or_another_upstream(cli: CommandLine, tmp_path: Path) -> None:
    assert cli.run("once").code == 0
    follow(cli, ("once", "--tz", "Europe/Berlin"), "give --tz UTC", ("once", "--tz", "UTC"))
    moved = tmp_path / "moved"
    moved.symlink_to(cli.storage)
    elsewhere = ("once", "--upstream-uri", f"file://{moved}?protocol=canal-json")
    left = cli.run(*elsewhere)
    assert (left.code, "give each upstream a --name of its own" in left.err) == (5, True)
    assert cli.run(*elsewhere, "--name", "own", "--downstream-uri", f"{cli.target}.own").code == 0


@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin", "+08:00"])
def test_a_machine_whose_zone_has_no_name(zone: str, cli: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "CET-1CEST")
    follow(cli, ("once", "--tz", "System"), "as UTC, Europe/Berlin or +08:00", ("once", "--tz", zone))


def test_settings_that_are_not_there(cli: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    for missing, words in (
        ((), "Give --upstream-uri, for example"),
        ((f"file://{cli.storage}",), "Add ?protocol=canal-json"),
    ):
        left = cli.raw("once", *(word for uri in missing for word in ("--upstream-uri", uri)))
        assert (left.code, words in left.err) == (2, True)
    assert cli.run("once").code == 0
    monkeypatch.setenv("STORAGE_CONSUMER_WORKERS", "3")
    left = cli.run("once")
    assert (left.code, "unset STORAGE_CONSUMER_WORKERS" in left.err) == (2, True)
    monkeypatch.delenv("STORAGE_CONSUMER_WORKERS")
    assert cli.run("once").code == 0


def test_a_folder_without_its_scheme(cli: CommandLine) -> None:
    target = ("--downstream-uri", cli.target, "--tz", "UTC")
    left = cli.raw("once", "--upstream-uri", f"{cli.storage}?protocol=canal-json", *target)
    assert (left.code, "as file:///its/path" in left.err) == (2, True)
    assert cli.raw("once", "--upstream-uri", f"file://{cli.storage}?protocol=canal-json", *target).code == 0


def test_a_target_that_is_another_file(cli: CommandLine, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("no database", encoding="utf-8")
    wrong = ("once", "--downstream-uri", f"duckdb:///{tmp_path}/a.txt")
    follow(cli, wrong, "or a new one", ("once", "--downstream-uri", f"duckdb:///{tmp_path}/new.duckdb"))


def test_a_second_run_on_one_file(cli: CommandLine) -> None:
    held = Path(cli.target.removeprefix("duckdb:///") + ".staging")
    held.mkdir()
    descriptor = os.open(held / "lock", os.O_RDWR | os.O_CREAT)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        left = cli.run("once")
        assert (left.code, "wait for it, or give this one another file" in left.err) == (4, True)
        assert cli.run("once", "--downstream-uri", f"{cli.target}.other").code == 0
    finally:
        os.close(descriptor)
    assert cli.run("once").code == 0


def test_a_table_that_is_gone_upstream(cli: CommandLine) -> None:
    assert cli.run("once").code == 0
    with duckdb.connect(cli.target.removeprefix("duckdb:///")) as connection:
        connection.execute("CREATE TABLE du.left_over (id INT)")
    left = cli.run("resync", "--table", "du.left_over")
    assert (left.code, "names are case-sensitive" in left.err) == (2, True)
    assert "du.t" in cli.raw("inspect", "--upstream-uri", f"file://{cli.storage}").out


def test_another_protocol_or_a_file_in_place_of_its_folder(cli: CommandLine) -> None:
    csv, file = f"file://{cli.storage}?protocol=csv", f"file://{cli.storage}/metadata?protocol=canal-json"
    follow(cli, ("once", "--upstream-uri", csv), "give protocol=canal-json in --upstream-uri", ("once",))
    follow(cli, ("once", "--upstream-uri", file), "give the folder that `metadata` is in", ("once",))


def test_a_secret_that_was_masked(cli: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    upstream = ("--upstream-uri", f"file://{cli.storage}?protocol=canal-json", "--tz", "UTC")
    left = cli.raw("once", *upstream, "--downstream-uri", "mysql://replica:***@127.0.0.1:1/")
    assert (left.code, "or leave the flag out and set STORAGE_CONSUMER_DOWNSTREAM_URI" in left.err) == (2, True)
    monkeypatch.setenv("STORAGE_CONSUMER_DOWNSTREAM_URI", cli.target)
    assert cli.raw("once", *upstream).code == 0
    assert duckdb_tables(cli.target) == DEMO_TABLES


def test_a_port_that_another_process_has(cli: CommandLine) -> None:
    with socket.create_server(ADDRESS):
        follow(cli, ("once", "--enable-profiling"), "leave --enable-profiling out", ("once",))


def test_a_table_with_no_key_before_the_checkpoint_is_written(shop: Shop) -> None:
    shop.feed.statement("d.k", 16, Action.CREATE_TABLE, "CREATE TABLE `k` (`v` INT)", (VALUE,))
    shop.feed.file("d.k", 16, row_line("INSERT", {"v": "7"}, commit_ts=17, table="k") + b"\r\n")
    (shop.feed.folder / "metadata").unlink()
    left = shop.run("once", "--checkpoint-ts", "max")
    assert (left.code, "run again once TiCDC has written `metadata`" in left.err) == (3, True), left
    assert shop.run("once", "--checkpoint-ts", "max", "--tables", "*.*", "--tables", "!d.k").code == 0
    assert shop.once(20).code == 0


def test_a_bug(cli: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(consumer.app, "once", Mock(side_effect=KeyError("broken")))
    shown = {}
    for more in ((), ("-v",)):
        with pytest.raises(SystemExit):
            main(["once", "--upstream-uri", f"file://{cli.storage}?protocol=canal-json", *more])
        shown[more] = cli.capsys.readouterr().err
    assert "Run it again with -v to see the trace" in shown[()]
    assert "Traceback" not in shown[()]
    assert "Traceback" in shown[("-v",)]
