"""What is wrong in a storage or in a target, mended as the hint says: the table goes on."""

from __future__ import annotations

import os
import re

import pytest

from consumer.model.actions import Action
from consumer.model.columns import Column
from tests.support.build import ID
from tests.support.command_line import DEMO_TABLES, T_CREATED, CommandLine, duckdb_tables
from tests.support.feed import Feed, Replica
from tests.support.shop import Shop


def test_a_fifo_among_the_files(cli: CommandLine) -> None:
    file = cli.data_file("t", T_CREATED, 1)
    rest = file.read_bytes()
    file.unlink()
    os.mkfifo(file)
    left = cli.run("once", "--max-wait", "0")
    assert (left.code, "make the file readable again" in left.err) == (3, True)
    file.unlink()
    file.write_bytes(rest)
    assert cli.run("once").code == 0
    assert duckdb_tables(cli.target) == DEMO_TABLES


def test_a_link_that_leads_back(cli: CommandLine) -> None:
    link = cli.storage / "du" / "loop"
    link.symlink_to(cli.storage)
    left = cli.run("once", "--max-wait", "0")
    assert (left.code, "take the link away" in left.err) == (4, True)
    link.unlink()
    assert cli.run("once").code == 0
    assert duckdb_tables(cli.target) == DEMO_TABLES


def test_a_link_that_leads_out(cli: CommandLine) -> None:
    inside, outside = cli.storage / "du", cli.storage.parent / "another disk"
    inside.rename(outside)
    inside.symlink_to(outside)
    left = cli.run("once", "--max-wait", "0")
    assert (left.code, "put what it leads to in its place" in left.err) == (4, True)
    inside.unlink()
    outside.rename(inside)
    assert cli.run("once").code == 0
    assert duckdb_tables(cli.target) == DEMO_TABLES


def test_a_resync_while_the_checkpoint_is_below_what_was_applied(cli: CommandLine) -> None:
    assert cli.run("once").code == 0
    (cli.storage / "metadata").write_text(f'{{"checkpoint-ts":{T_CREATED + 1}}}', encoding="utf-8")
    left = cli.run("resync", "--table", "du.t")
    assert (left.code, "resync it once TiCDC is past that again" in left.err) == (4, True)
    cli.mend()
    assert cli.run("resync", "--table", "du.t").code == 0
    assert duckdb_tables(cli.target) == DEMO_TABLES


def test_a_resync_of_a_table_whose_files_are_gone(cli: CommandLine) -> None:
    assert cli.run("once").code == 0
    cli.data_file("t", T_CREATED, 1).unlink()
    left = cli.run("resync", "--table", "du.t")
    assert (left.code, "accept the loss with --accept-gap" in left.err) == (5, True)
    assert duckdb_tables(cli.target) == DEMO_TABLES, "nothing is gone yet"
    assert cli.run("resync", "--table", "du.t", "--accept-gap").code == 0


def test_a_table_that_is_dropped_upstream_is_not_made_anew(shop: Shop) -> None:
    shop.feed.drop("d.it's", 20)
    assert shop.once(21).code == 0
    left = shop.run("resync", "--table", "d.it's")
    assert (left.code, "can be dropped by hand" in left.err) == (2, True)
    shop.by_hand("""DROP TABLE IF EXISTS d."it's" """)
    assert shop.run("once").code == shop.run("status", "--check").code == 0


def test_an_older_table_is_created_as_the_hint_writes_it(shop: Shop) -> None:
    shop.feed.describe("d.o ld", 14)
    shop.feed.puts("d.o ld", 14, {16: (1, "1")})
    left = shop.once(20)
    assert left.code == 3
    (statement,) = re.findall(r"CREATE TABLE [^;\n]*", left.err)
    shop.by_hand(statement)
    assert shop.run("once").code == 0


def test_a_table_that_is_older_than_the_changefeed_is_not_made_anew(shop: Shop) -> None:
    shop.by_hand("CREATE TABLE d.old (id INT, v INT)")
    shop.feed.describe("d.old", 3)
    shop.feed.puts("d.old", 3, {16: (1, "1")})
    assert shop.once(20).code == 0
    left = shop.run("resync", "--table", "d.old")
    assert (left.code, "start a consumer under a new name with --start-ts" in left.err) == (3, True)
    assert shop.run("once", "--name", "new", "--start-ts", "20").code == 0
    shop.feed.puts("d.old", 3, {21: (2, "2")})
    assert shop.once(25, "--name", "new").code == 0


def test_a_damaged_file_that_nobody_can_restore(shop: Shop) -> None:
    damaged = shop.feed.damaged("d.it's", 2)
    left = shop.once(20)
    assert (left.code, "remove it and accept the loss of its rows with --accept-gap" in left.err) == (3, True)
    damaged.unlink()
    shop.feed.puts("d.it's", 2, {18: (4, "4")})
    assert shop.run("once", "--accept-gap").code == 0
    assert shop.rows == [(1, 1), (2, 2), (4, 4)]


def test_a_checkpoint_that_is_a_fifo(cli: CommandLine) -> None:
    (cli.storage / "metadata").unlink()
    os.mkfifo(cli.storage / "metadata")
    left = cli.run("once", "--max-wait", "0")
    assert (left.code, "take it away, or put the file there" in left.err) == (4, True)
    (cli.storage / "metadata").unlink()
    cli.mend()
    assert cli.run("once").code == 0


DAMAGED = "the data file is damaged, or its schema file does not belong to it"


@pytest.mark.parametrize(
    ("target", "kind", "bad", "words"),
    [
        ("duckdb", "FLOAT", "x", DAMAGED),
        ("mariadb", "FLOAT", "x", DAMAGED),
        ("duckdb", "INT", "x", DAMAGED),
        ("mariadb", "BIT", "x", DAMAGED),
        ("duckdb", "BLOB", "\u20ac", "the column is text in the data file and binary in its schema file"),
    ],
)
def test_a_value_that_is_none_of_its_type(
    target: str, kind: str, bad: str, words: str, feed: Feed, request: pytest.FixtureRequest
) -> None:
    query = f"CREATE TABLE `t` (`id` INT PRIMARY KEY,`v` {kind})"
    feed.statement("d.t", 2, Action.CREATE_TABLE, query, (ID, Column("v", kind)))
    file = feed.puts("d.t", 2, {10: (1, bad)})
    server = request.getfixturevalue("fresh_mariadb") if target == "mariadb" else None
    replica = Replica(feed, server.url() if server else f"duckdb:///{feed.folder}.duckdb")
    (stopped,) = (table for table in replica.once(20).tables.values() if table.error)
    assert words in stopped.hint
    file.write_bytes(feed._line("d.t", 10, 1, "1"))
    assert replica.once().exit_code == 0, "the file is restored"
