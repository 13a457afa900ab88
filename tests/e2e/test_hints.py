"""The commands that hints name, pasted as they are printed, help."""

from __future__ import annotations

import re
from pathlib import Path

import duckdb

from consumer.model.actions import Action
from consumer.model.columns import Column
from tests.support.canal_json import keyless
from tests.support.feed import ID, VALUE
from tests.support.shop import Shop, as_a_shell_takes

_SKIP = re.compile(r"storage-consumer skip-ddl .*")


def test_a_table_that_was_dropped_by_hand_is_made_anew(shop: Shop) -> None:
    shop.by_hand("""DROP TABLE d."it's" """)
    shop.feed.puts("d.it's", 2, {20: (3, "3")})
    left = shop.once(25)
    assert left.code == 3
    assert "it was dropped there, not upstream" in left.err
    assert "create it empty" not in left.err
    assert [done.code for done in shop.paste(left.err)] == [0], left.err
    assert shop.rows == [(1, 1), (2, 2), (3, 3)]


def test_a_table_that_start_ts_says_is_there_and_is_not(shop: Shop, tmp_path: Path) -> None:
    """Nobody has dropped it: the snapshot was never loaded."""
    empty = ("--downstream-uri", f"duckdb:///{tmp_path}/empty.duckdb")
    shop.feed.puts("d.it's", 2, {20: (3, "3")})
    left = shop.once(25, *empty, "--start-ts", "15")
    assert left.code == 3
    assert "the target has no table d.it's, though --start-ts says that it holds all tables as of 15" in left.err
    assert "was dropped" not in left.err
    assert {done.code for done in shop.paste(left.err)} == {0}, left.err
    with duckdb.connect(f"{tmp_path}/empty.duckdb") as connection:
        assert connection.execute("""SELECT id FROM d."it's" ORDER BY id""").fetchall() == [(1,), (2,), (3,)]


def test_once_stops_an_idle_table_that_status_calls_missing(shop: Shop) -> None:
    shop.feed.describe("d.later", 14)
    assert shop.once(16).code == 0, "a table without rows, which nobody has looked for"
    shop.by_hand("""DROP TABLE d."it's" """)
    missing = shop.run("status", "--json").json["tables"]["d.it's"]
    left = shop.run("once", "--json")
    assert left.code == 3
    assert [left.json["tables"]["d.it's"][key] for key in ("error", "hint")] == [missing["error"], missing["hint"]]
    assert shop.run("status", "--check").code == 3
    assert shop.run("once").code == 3, "until it is there again"
    assert [done.code for done in shop.paste(shop.run("once").err)] == [0]
    assert shop.rows == [(1, 1), (2, 2)]
    assert shop.run("once").code == shop.run("status", "--check").code == 0


def test_a_table_that_comes_back_goes_on(shop: Shop) -> None:
    shop.by_hand("""CREATE TABLE d.backup AS FROM d."it's" """)
    shop.by_hand("""DROP TABLE d."it's" """)
    assert shop.run("once").code == 3
    shop.by_hand("""ALTER TABLE d.backup RENAME TO "it's" """)
    shop.feed.puts("d.it's", 2, {20: (3, "3")})
    assert shop.once(25).code == 0
    assert shop.rows == [(1, 1), (2, 2), (3, 3)]


def test_status_sees_a_table_that_was_dropped_by_hand(shop: Shop) -> None:
    shop.feed.describe("d.later", 14)
    assert shop.once(16).code == 0, "a table without rows, which nobody has looked for"
    assert shop.run("status", "--check").code == 0
    shop.by_hand("""DROP TABLE d."it's" """)
    left = shop.run("status", "--check")
    assert left.code == 3
    assert "tables      1 missing" in left.out
    assert "the target has no table d.it's: it was dropped there, not upstream\n" in left.out
    assert shop.run("status", "--json").states == {"d.it's": "missing"}
    assert [done.code for done in shop.paste(left.out)] == [0]
    assert shop.rows == [(1, 1), (2, 2)]
    assert shop.run("status", "--check").code == 0


def test_a_column_that_was_dropped_by_hand(shop: Shop) -> None:
    shop.by_hand("""ALTER TABLE d."it's" DROP COLUMN v""")
    shop.feed.puts("d.it's", 2, {20: (3, "3")})
    left = shop.once(25)
    assert left.code == 3
    assert {done.code for done in shop.paste(left.err)} == {0}
    assert shop.rows == [(1, 1), (2, 2), (3, 3)]


def test_a_table_of_another_type_is_made_anew(shop: Shop) -> None:
    shop.by_hand("""ALTER TABLE d."it's" ALTER COLUMN v TYPE TINYINT""")
    shop.feed.puts("d.it's", 2, {20: (3, "300")})
    left = shop.once(25)
    assert left.code == 3
    assert {done.code for done in shop.paste(left.err)} == {0}
    assert shop.rows == [(1, 1), (2, 2), (3, 300)]


def test_a_statement_that_the_policy_refuses(shop: Shop, tmp_path: Path) -> None:
    (tmp_path / "c.toml").write_text('[[consumer.ddl.rules]]\nkinds = ["add-column"]\naction = "fail"\n')
    query = "ALTER TABLE `it's` ADD COLUMN `w` INT"
    shop.feed.statement("d.it's", 20, Action.ADD_COLUMN, query, (ID, VALUE))
    left = shop.once(25, "--config", str(tmp_path / "c.toml"))
    assert left.code == 5, left.err
    assert [done.code for done in shop.paste(left.err)] == [0], left.err
    assert shop.once(25, "--config", str(tmp_path / "c.toml")).code == 0


def test_a_statement_that_came_late(shop: Shop) -> None:
    query = "ALTER TABLE `it's` ADD COLUMN `w` INT"
    shop.feed.statement("d.it's", 12, Action.ADD_COLUMN, query, (ID, VALUE, Column("w", "INT")))
    left = shop.once(25)
    assert left.code == 3, left
    shop.by_hand("""ALTER TABLE d."it's" ADD COLUMN w INTEGER""")
    (command,) = (found[0] for line in left.err.splitlines() if (found := _SKIP.search(line)))
    assert shop.cli.raw(*as_a_shell_takes(command)).code == 0, left.err
    assert shop.once(25).code == 0


def test_a_row_that_was_taken_away_by_hand(shop: Shop) -> None:
    column = Column("v", "INT")
    shop.feed.statement("d.k", 16, Action.CREATE_TABLE, "CREATE TABLE `k` (`v` INT)", (column,))
    shop.feed.file("d.k", 16, keyless(17, 1) + keyless(18, 2))
    assert shop.once(20).code == 0
    shop.by_hand("DELETE FROM d.k WHERE v = 1")
    shop.feed.file("d.k", 16, keyless(22, 1, "DELETE"))
    left = shop.once(25)
    assert left.code == 3
    assert {done.code for done in shop.paste(left.err)} == {0}
    with duckdb.connect(shop.cli.target.removeprefix("duckdb:///")) as connection:
        assert connection.execute("SELECT v FROM d.k").fetchall() == [(2,)]


def test_a_rename_that_names_no_table(shop: Shop) -> None:
    shop.feed.statement("d.new", 20, Action.RENAME_TABLE, "RENAME TABLE nonsense")
    left = shop.once(25)
    assert left.code == 5, left
    shop.by_hand("""ALTER TABLE d."it's" RENAME TO new""")
    assert [done.code for done in shop.paste(left.err)] == [0], left.err
