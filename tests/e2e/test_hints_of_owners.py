"""Names, routes, clean-up and tables of others: what is printed is done as it is printed, and the table goes on."""

from __future__ import annotations

import re
import shutil
from datetime import UTC, datetime

import duckdb

from consumer.model.times import ms_to_tso
from tests.support.export import Export
from tests.support.shop import Shop, as_a_shell_takes

T = "d.it's"
ONE_NAME = ("--route", "d.`it's` -> x.y", "--route", "d.k -> x.y")
TWO_NAMES = ("--route", "d.`it's` -> x.y", "--route", "d.k -> x.z")
_ROUTES = re.compile(r"(?: --route '(?:[^']|'\"'\"')*')+")


def rows_in(target: str, table: str) -> list[tuple[object, ...]]:
    with duckdb.connect(target.removeprefix("duckdb:///")) as connection:
        return connection.execute(f"SELECT id, v FROM {table} ORDER BY id").fetchall()


def test_a_table_of_another_consumer(shop: Shop) -> None:
    """One command after the other: the tables of a name that is no longer used go on under another one."""
    for words in ("d.it's belongs to the consumer 'default'", "the table d.it's exists already"):
        left = shop.run("once", "--name", "other")
        assert (left.code, words in left.err) == (5, True), left
        assert [done.code for done in shop.paste(left.err)] == [0]
    shop.feed.puts(T, 2, {20: (3, "3")})
    assert shop.once(25, "--name", "other").code == 0
    assert shop.rows == [(1, 1), (2, 2), (3, 3)]


def with_a_second_table(shop: Shop) -> tuple[str, str]:
    shop.feed.create("d.k", 3)
    shop.feed.puts("d.k", 3, {12: (7, "7")})
    return ("--downstream-uri", f"{shop.cli.target}.fresh")


def test_two_tables_that_routes_give_one_name(shop: Shop) -> None:
    fresh = with_a_second_table(shop)
    left = shop.run("once", *fresh, *ONE_NAME)
    assert (left.code, "give one of the two another name with --route" in left.err) == (5, True), left
    assert shop.run("once", *fresh, *TWO_NAMES).code == 0
    assert (rows_in(fresh[1], "x.y"), rows_in(fresh[1], "x.z")) == ([(1, 1), (2, 2)], [(7, 7)])


def test_one_of_two_tables_of_one_name_is_left_out(shop: Shop) -> None:
    fresh = with_a_second_table(shop)
    left = shop.run("once", *fresh, *ONE_NAME)
    assert "or leave it out with --tables" in left.err
    assert shop.run("once", *fresh, *ONE_NAME, "--tables", "*.*", "--tables", "!d.k").code == 0
    assert rows_in(fresh[1], "x.y") == [(1, 1), (2, 2)]


def test_routes_that_are_not_those_of_the_target(shop: Shop) -> None:
    fresh = with_a_second_table(shop)
    assert shop.run("once", *fresh, *TWO_NAMES).code == 0
    left = shop.run("once", *fresh)
    assert (left.code, "give what the target was filled with" in left.err) == (2, True), left
    (given,) = _ROUTES.findall(left.err)
    assert shop.run("once", *fresh, *as_a_shell_takes(f"storage-consumer{given}")).code == 0


def at(day: int) -> int:
    return ms_to_tso(int(datetime(2026, 11, day, 12, tzinfo=UTC).timestamp() * 1000))


def test_folders_that_the_clean_up_took_unread(shop: Shop) -> None:
    config = shop.feed.folder.parent / "changefeed.toml"
    config.write_text("[sink]\n[sink.cloud-storage-config]\nfile-expiration-days = 3\n", encoding="utf-8")
    flags = ("--config", str(config), "--tables", "d.days")
    shop.feed.create("d.days", at(1))
    for day in (2, 3, 10):
        shop.feed.puts("d.days", at(1), {at(day): (day, "7")}, date=f"2026-11-{day:02}")
        if day != 3:
            assert shop.once(at(day), *flags).code == (0 if day == 2 else 5)
        else:
            shutil.rmtree(next(shop.feed.folder.rglob("2026-11-02")))
            shutil.rmtree(next(shop.feed.folder.rglob("2026-11-03")))
    left = shop.run("once", *flags)
    assert "TiCDC's clean-up may have deleted its date folders of 2026-11-02 to 2026-11-06" in left.err
    assert [done.code for done in shop.paste(left.err)] == [0]
    assert shop.run("once", *flags).code == 0
    assert rows_in(shop.cli.target, "d.days") == [(2, 7), (10, 7)]


def test_a_table_that_is_older_than_the_changefeed_and_was_dropped(shop: Shop) -> None:
    export = Export(shop.feed.folder.parent / "export", at(5))
    export.database("d")
    create = "CREATE TABLE `old` (`id` INT PRIMARY KEY,`v` INT)"
    export.table("d", "old", create, ["id", "v"], [(1, 1), (2, 2)])
    export.finish()
    shop.feed.describe("d.old", 3)
    shop.feed.puts("d.old", 3, {at(6): (2, "3")})
    shop.feed.checkpoint(at(7))
    again = ("load-export", str(export.folder), "--table", "d.old")
    for _ in range(2):
        assert shop.run(*again).code == 0
        for statement in ("", "DROP TABLE d.old"):
            if statement:
                shop.by_hand(statement)
                told = shop.run("status").out + shop.run("once").err
                assert told.count("load an export of it with `load-export` and its --table") == 2
                assert shop.run(*again).code == 0
            assert shop.run("once").code == 0
            assert rows_in(shop.cli.target, "d.old") == [(1, 1), (2, 3)]
