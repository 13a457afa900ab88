"""Two consumer names on one target: what one keeps the other leaves alone, until it is retired."""

from __future__ import annotations

import pytest

from consumer.model.actions import Action
from tests.servers import MariaDb
from tests.support.feed import ID, VALUE
from tests.support.shop import Shop

SECOND = ("--name", "second")
KEPT = "d.it's belongs to the consumer 'default' of this target, and only one consumer may write to it"


def test_a_second_consumer_is_kept_from_the_tables_of_the_first(shop: Shop) -> None:
    left = shop.once(15, *SECOND)
    assert left.code == 5
    assert "d.it's belongs to the consumer 'default' of this target" in left.err
    assert "resync" not in left.err + shop.run("status", *SECOND).out
    resync = ("resync", "--table", "d.it's")
    assert shop.run(*resync, *SECOND).code == 5
    assert shop.rows == [(1, 1), (2, 2)]
    assert shop.run("once", *SECOND, "--tables", "*.*", "--tables", "!d.*").code == 0
    shop.feed.puts("d.it's", 2, {20: (3, "3")})
    assert shop.once(25).code == 0
    assert shop.run(*resync).code == 0, "who came too late keeps nothing"
    assert shop.rows == [(1, 1), (2, 2), (3, 3)]


def test_a_second_consumer_is_kept_from_a_table_that_is_older_than_both(shop: Shop) -> None:
    shop.by_hand("CREATE TABLE d.old (id INT, v INT)")
    shop.feed.describe("d.old", 3)
    shop.feed.puts("d.old", 3, {16: (1, "1")})
    assert shop.once(20).code == 0
    rules = (*SECOND, "--tables", "d.old")
    left = shop.once(20, *rules)
    assert left.code == 5
    assert "d.old belongs to the consumer 'default' of this target" in left.err
    other = f"{shop.cli.target}.other"
    assert shop.run("once", *rules, "--downstream-uri", other).code == 3, "as the hint says: another target"
    assert "create it empty where it was empty upstream" in shop.run("status", *rules, "--downstream-uri", other).out
    shop.feed.puts("d.old", 3, {21: (2, "2")})
    assert shop.once(25).code == 0, "the first goes on"
    assert shop.run("once", "--name", "third", "--start-ts", "25").code == 0, "said to hold what the first has done"


@pytest.mark.parametrize("start", ["12", "19"])
def test_a_start_before_what_the_first_has_applied_takes_nothing_from_it(
    start: str, shop: Shop, fresh_mariadb: MariaDb
) -> None:
    """It would write rows again that a statement has taken away since, below what the first goes on from."""
    target = ("--downstream-uri", fresh_mariadb.url())
    shop.feed.statement("d.it's", 18, Action.TRUNCATE_TABLE, "TRUNCATE TABLE `it's`", (ID, VALUE))
    shop.feed.puts("d.it's", 18, {19: (4, "4")})
    assert shop.once(20, *target).code == 0
    assert KEPT in shop.run("plan", *target, *SECOND, "--start-ts", start).out
    left = shop.run("once", *target, *SECOND, "--start-ts", start)
    assert (left.code, KEPT in left.err) == (5, True)
    assert fresh_mariadb.execute("SELECT id, v FROM d.`it's`") == [(4, 4)]
    assert shop.run("forget", *target, "--name", "default", "--yes").code == 0, "as the hint says"
    assert shop.run("once", *target, *SECOND, "--start-ts", start).code == 0
    assert fresh_mariadb.execute("SELECT id, v FROM d.`it's`") == [(4, 4)]


def test_a_table_that_was_dropped_by_hand_is_still_the_first_ones(shop: Shop) -> None:
    shop.by_hand("""DROP TABLE d."it's" """)
    left = shop.once(15, *SECOND)
    assert left.code == 5
    assert KEPT in left.err
    assert shop.run("status", *SECOND, "--json").states == {"d.it's": "stopped"}
    assert shop.run("status").code == 0
    assert "it was dropped there" in shop.run("status").out


def test_plan_shows_what_once_would_refuse(shop: Shop) -> None:
    shop.by_hand("CREATE TABLE d.old (id INT, v INT)")
    shop.feed.describe("d.old", 3)
    shop.feed.puts("d.old", 3, {16: (1, "1")})
    assert shop.once(20).code == 0
    for checkpoint in (20, 21):
        plan = shop.run("plan", *SECOND, "--json").json
        assert plan["stopped"].keys() == {"d.it's", "d.old"}
        assert {step["kind"] for step in plan["steps"] if step["table"] != "d"} == {"barrier"}
        assert KEPT in plan["stopped"]["d.it's"]["error"]
        left = shop.once(checkpoint, *SECOND, "--json")
        assert left.json["tables"]["d.it's"]["error"] == plan["stopped"]["d.it's"]["error"]


def test_a_statement_of_a_table_that_stopped_is_not_run_by_another_name(shop: Shop) -> None:
    shop.feed.damaged("d.it's", 2)
    assert shop.once(20).code == 3, "it is stopped, and still the first one's"
    shop.feed.statement("d.it's", 21, Action.TRUNCATE_TABLE, "TRUNCATE TABLE `it's`", (ID, VALUE))
    shop.feed.statement("d.it's", 22, Action.DROP_TABLE, "DROP TABLE `it's`", (ID, VALUE))
    assert shop.once(25, *SECOND).code == 5
    assert shop.rows == [(1, 1), (2, 2)]
    assert shop.once(25).code == 0
    assert shop.run("once", *SECOND).code == 0, "what nobody keeps any more is everybody's"


def test_a_retired_name_is_forgotten(shop: Shop) -> None:
    shop.by_hand("""DROP TABLE d."it's" """)
    left = shop.once(15, *SECOND)
    assert [done.code for done in shop.paste(left.err)] == [0], left.err
    assert shop.once(15, *SECOND).code == 0
    assert shop.rows == [(1, 1), (2, 2)]
    assert "second" in shop.run("status").out, "the names that there are"


def test_what_a_retired_name_has_left_is_made_anew(shop: Shop) -> None:
    assert shop.run("forget", "--name", "default", "--yes").code == 0
    left = shop.once(15, *SECOND)
    assert left.code == 5
    assert {done.code for done in shop.paste(left.err)} == {0}, left.err
    shop.feed.puts("d.it's", 2, {20: (3, "3")})
    assert shop.once(25, *SECOND).code == 0
    assert shop.rows == [(1, 1), (2, 2), (3, 3)]


@pytest.mark.parametrize("way", ["drop", "skip-ddl"])
def test_what_a_retired_name_has_left_on_a_server(way: str, shop: Shop, fresh_mariadb: MariaDb) -> None:
    target = ("--downstream-uri", fresh_mariadb.url())
    assert shop.once(15, *target).code == 0
    assert shop.run("forget", *target, "--name", "default", "--yes").code == 0
    left = shop.once(15, *target, *SECOND)
    assert (left.code, "drop or rename that table and run again, or, where it is upstream's own" in left.err) == (
        5,
        True,
    )
    if way == "drop":
        fresh_mariadb.execute("DROP TABLE d.`it's`")
    else:
        assert [done.code for done in shop.paste(left.err)] == [0], left.err
    assert shop.run("once", *target, *SECOND).code == 0
    assert fresh_mariadb.execute("SELECT id, v FROM d.`it's` ORDER BY id") == [(1, 1), (2, 2)]


def test_a_name_is_forgotten_once_somebody_is_sure(shop: Shop) -> None:
    target = ("--downstream-uri", shop.cli.target)
    assert "forget needs --name" in shop.cli.raw("forget", *target, "--yes").err
    wrong = shop.cli.raw("forget", *target, "--name", "blue", "--yes")
    assert (wrong.code, "under: default" in wrong.err) == (2, True)
    left = shop.cli.raw("forget", *target, "--name", "default")
    assert left.code == 2
    assert left.err.rstrip().endswith(f"--yes --downstream-uri {shop.cli.target}")
    assert "\nupstream " in shop.run("status").out, "nothing is gone yet"
    assert [done.code for done in shop.paste(left.err)] == [0]
    assert "nothing applied yet" in shop.run("status").out
    assert shop.rows == [(1, 1), (2, 2)]


@pytest.mark.parametrize("kept", [True, False])
def test_a_database_in_which_another_has_its_tables_is_left_to_it(
    kept: bool, shop: Shop, fresh_mariadb: MariaDb
) -> None:
    target = ("--downstream-uri", fresh_mariadb.url(), "--json")
    assert shop.once(15, *target).code == 0
    shop.feed.create("d.own", 16)
    query = "ALTER DATABASE `d` CHARACTER SET = ascii"
    shop.feed.database("d", 17, query, Action.MODIFY_SCHEMA_CHARSET)
    shop.feed.checkpoint(20)
    rules = ("--tables", "d.`it's`" if kept else "d.own")
    plan = shop.run("plan", *target, *SECOND, *rules).json
    before = _charset(fresh_mariadb)
    left = shop.once(20, *target, *SECOND, *rules)
    assert left.code == (5 if kept else 0), left
    assert (_charset(fresh_mariadb) == before) is kept
    altered = [step["target"] for step in plan["steps"] if step["statement"] == query]
    assert [target is None for target in altered] == [kept]


def _charset(server: MariaDb) -> object:
    return server.execute("SELECT DEFAULT_CHARACTER_SET_NAME FROM information_schema.SCHEMATA WHERE SCHEMA_NAME = 'd'")
