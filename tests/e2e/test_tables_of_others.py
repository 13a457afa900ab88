"""What one consumer name would do to the tables of another by way of other names, databases and moments."""

from __future__ import annotations

import duckdb

from consumer.model.actions import Action
from tests.servers import MariaDb
from tests.support.feed import Feed
from tests.support.shop import Shop

SECOND = ("--name", "second")


def _kept(table: str, what: str = "") -> str:
    return f"{table}{what} belongs to the consumer 'default' of this target, and only one consumer may write to it"


def test_the_former_names_of_a_table_are_the_first_ones_too(shop: Shop) -> None:
    shop.feed.rename("d.it's", "d.j", 20)
    shop.feed.rename("d.j", "d.k", 21)
    assert shop.once(25).code == 0
    assert shop.run("plan", *SECOND, "--json").json["stopped"].keys() == {"d.it's"}
    left = shop.run("once", *SECOND)
    assert left.code == 5
    assert _kept("d.k", ", to which d.it's is renamed later,") in left.err
    assert _tables(shop) == {"k"}
    assert "resync" not in left.err + shop.run("status", *SECOND).out
    shop.feed.create("d.it's", 30)
    shop.feed.puts("d.it's", 30, {31: (9, "9")})
    assert shop.once(35).code == 0, "the first continues with a new table of the old name"
    assert shop.rows == [(9, 9)]


def _in_capitals(shop: Shop) -> tuple[str, str]:
    """The flag of another storage with a table whose name is the shop's but for case."""
    other = Feed(shop.feed.folder.parent / "other")
    other.folder.mkdir()
    other.database("D", 1)
    other.create("D.IT'S", 2)
    other.puts("D.IT'S", 2, {10: (7, "7")})
    other.checkpoint(15)
    return "--upstream-uri", f"file://{other.folder}?protocol=canal-json"


def test_names_that_differ_in_case_are_one_table_of_a_file(shop: Shop) -> None:
    left = shop.run("once", *SECOND, *_in_capitals(shop))
    assert (left.code, _kept("D.IT'S") in left.err) == (5, True), left.err
    assert "skip-ddl" not in left.err
    assert shop.rows == [(1, 1), (2, 2)]


def test_case_tells_two_tables_of_a_server_apart(shop: Shop, fresh_mariadb: MariaDb) -> None:
    target = ("--downstream-uri", fresh_mariadb.url())
    assert shop.once(15, *target).code == 0
    assert shop.run("once", *target, *SECOND, *_in_capitals(shop)).code == 0
    assert fresh_mariadb.execute("SELECT * FROM D.`IT'S`") == [(7, 7)]
    assert fresh_mariadb.execute("SELECT * FROM d.`it's`") == [(1, 1), (2, 2)]


def test_a_database_with_tables_of_two_names_is_dropped_by_the_last(shop: Shop, fresh_mariadb: MariaDb) -> None:
    target = ("--downstream-uri", fresh_mariadb.url())
    assert shop.once(15, *target, "--tables", "d.`it's`").code == 0
    shop.feed.create("d.own", 16)
    shop.feed.puts("d.own", 16, {17: (3, "3")})
    rules = ("--tables", "d.own")
    assert shop.once(20, *target, *SECOND, *rules).code == 0
    shop.feed.database("d", 30, "DROP DATABASE `d`", Action.DROP_SCHEMA)
    shop.feed.checkpoint(35)
    plan = shop.run("plan", *target, *SECOND, *rules, "--json").json
    left = shop.once(35, *target, *SECOND, *rules)
    why = "it would also drop d.it's, which belongs to the consumer 'default' of this target: DROP DATABASE `d`"
    assert (left.code, why in left.err) == (5, True), left.err
    assert why in str(plan["stopped"])
    assert fresh_mariadb.execute("SELECT * FROM d.`it's`") == [(1, 1), (2, 2)]
    assert shop.once(35, *target, "--tables", "d.`it's`").code == 5, "nor does the first drop the second one's"
    fresh_mariadb.execute("DROP TABLE d.own")
    assert [done.code for done in shop.paste(left.err)] == [0], left.err
    assert shop.once(35, *target, *SECOND, *rules).code == 0
    assert shop.once(35, *target, "--tables", "d.`it's`").code == 0
    assert fresh_mariadb.execute("SHOW DATABASES LIKE 'd'") == []


def test_a_database_of_another_is_not_dropped_by_one_who_has_no_table_there(shop: Shop) -> None:
    shop.feed.database("x", 28)
    shop.feed.create("x.o", 29)
    shop.feed.database("d", 30, "DROP DATABASE `d`", Action.DROP_SCHEMA)
    left = shop.once(35, *SECOND, "--tables", "*.*", "--tables", "!d.*")
    assert left.code == 0, left.err
    assert shop.rows == [(1, 1), (2, 2)]
    assert shop.once(35, "--tables", "d.*").code == 0
    assert _tables(shop) == set()


def _tables(shop: Shop) -> set[str]:
    with duckdb.connect(shop.cli.target.removeprefix("duckdb:///")) as connection:
        query = "SELECT table_name FROM information_schema.tables WHERE table_schema = 'd'"
        return {name for (name,) in connection.execute(query).fetchall()}
