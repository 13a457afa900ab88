"""The commands that hints name, pasted as they are printed, help. Every place that prints one has its case here."""

from __future__ import annotations

import ast
import json
import re
import subprocess
from pathlib import Path

import duckdb
import pytest

from consumer.model.actions import Action
from consumer.model.columns import Column
from tests.support.command_line import CommandLine, Left, command_line
from tests.support.feed import ID, VALUE, Feed

_COMMAND = re.compile(r"storage-consumer (?:resync|skip-ddl) .*")
_SKIP = re.compile(r"storage-consumer skip-ddl .*")
ROOT = Path(__file__).parents[2]
TESTED = {
    "consumer/cli/run_text.py:way_back": "tests/e2e/test_hints.py::test_a_table_of_another_type_is_made_anew",
    "consumer/ddl/recover.py:not_kept_hint": "tests/e2e/test_ddl_policy.py",
    "consumer/pipeline/gone.py:_told": "tests/e2e/test_hints.py::test_a_table_that_was_dropped_by_hand_is_made_anew",
    "consumer/pipeline/statements.py:_ignore": "tests/e2e/test_ddl_policy.py",
    "consumer/plan/late.py:_overdue": "tests/e2e/test_hints.py::test_a_statement_that_came_late",
    "consumer/plan/statement.py:lacks_old_name": "tests/e2e/test_hints.py::test_a_rename_that_names_no_table",
    "consumer/plan/statement.py:moves_left_out_rows": "tests/e2e/test_narrowed_rules.py",
    "consumer/plan/statement.py:refused_by_policy": "tests/e2e/test_hints.py::test_a_statement_that_the_policy_refuses",
    "consumer/sink/duckdb/statements/execute.py:_refused": "tests/e2e/test_refused_statements.py",
    "consumer/sink/duckdb/rows/merge.py:publish": "tests/e2e/test_hints.py::test_a_table_of_another_type_is_made_anew",
    "consumer/sink/duckdb/rows/merge.py:_remove": "tests/e2e/test_hints.py::test_a_row_that_was_taken_away_by_hand",
    "consumer/sink/duckdb/tables/prepare.py:_drift": "tests/e2e/test_hints.py::test_a_column_that_was_dropped_by_hand",
    "consumer/sink/mysql/statements/plan.py:refused": "tests/e2e/test_refused_statements.py",
}
"""By the function that makes a hint with a command: who follows it."""


def test_every_hint_with_a_command_has_its_case() -> None:
    assert _makers() == set(TESTED)
    for case in TESTED.values():
        file, _, name = case.partition("::")
        assert f"def {name}" in (ROOT / file).read_text(encoding="utf-8")


def _makers() -> set[str]:
    found = set()
    for file in (ROOT / "consumer").rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef) and file.name != "commands.py":
                calls = (n.func.id for n in ast.walk(node) if isinstance(n, ast.Call) and isinstance(n.func, ast.Name))
                if {"resync_command", "skip_ddl_command", "refused_hint"} & set(calls):
                    found.add(f"{file.relative_to(ROOT)}:{node.name}")
    return found


class Shop:
    """A replica in DuckDB of a storage with one table `my.shop`.`it's`, whose names a shell must be told with care."""

    def __init__(self, feed: Feed, cli: CommandLine) -> None:
        self.feed, self.cli = feed, cli

    def run(self, command: str, *more: str) -> Left:
        flags = ["--upstream-uri", f"file://{self.feed.folder}?protocol=canal-json", "--tz", "UTC"]
        return self.cli.raw(command, *flags, "--downstream-uri", self.cli.target, "--log-level", "error", *more)

    def once(self, checkpoint: int, *more: str) -> Left:
        self.feed.checkpoint(checkpoint)
        return self.run("once", *more)

    def paste(self, printed: str) -> list[Left]:
        """Run the commands that `printed` names, each as a shell takes what stands there to the end of its line."""
        commands = [found[0] for line in printed.splitlines() if (found := _COMMAND.search(line))]
        assert commands, printed
        return [self.cli.raw(*_as_a_shell_takes(command)) for command in dict.fromkeys(commands)]

    def by_hand(self, statement: str) -> None:
        with duckdb.connect(self.cli.target.removeprefix("duckdb:///")) as connection:
            connection.execute(statement)

    @property
    def rows(self) -> list[tuple[object, ...]]:
        with duckdb.connect(self.cli.target.removeprefix("duckdb:///")) as connection:
            return connection.execute("""SELECT id, v FROM d."it's" ORDER BY id""").fetchall()


def _as_a_shell_takes(line: str) -> list[str]:
    script = f"storage-consumer() {{ printf '%s\\0' \"$@\"; }}; {line}"
    out = subprocess.run(["bash", "-c", script], capture_output=True, check=True, text=True).stdout
    return out.split("\0")[:-1]


@pytest.fixture
def shop(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Shop:
    feed = Feed(tmp_path / "feed it's")
    feed.folder.mkdir()
    feed.database("d", 1)
    feed.create("d.it's", 2)
    feed.puts("d.it's", 2, {10: (1, "1"), 11: (2, "2")})
    shop = Shop(feed, command_line(tmp_path, capsys, monkeypatch))
    assert shop.once(15).code == 0
    return shop


def test_a_table_that_was_dropped_by_hand_is_made_anew(shop: Shop) -> None:
    shop.by_hand("""DROP TABLE d."it's" """)
    shop.feed.puts("d.it's", 2, {20: (3, "3")})
    left = shop.once(25)
    assert left.code == 3
    assert "it was dropped there, not upstream" in left.err
    assert "create it empty" not in left.err
    assert [done.code for done in shop.paste(left.err)] == [0], left.err
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


def test_a_second_consumer_is_kept_from_the_tables_of_the_first(shop: Shop) -> None:
    left = shop.once(15, "--name", "second")
    assert left.code == 5
    assert "the consumer 'default' of this target keeps d.it's" in left.err
    assert "resync" not in left.err + shop.run("status", "--name", "second").out
    resync = ("resync", "--table", "d.it's")
    assert shop.run(*resync, "--name", "second").code == 5
    assert shop.rows == [(1, 1), (2, 2)]
    assert shop.run("once", "--name", "second", "--tables", "*.*", "--tables", "!d.*").code == 0
    shop.feed.puts("d.it's", 2, {20: (3, "3")})
    assert shop.once(25).code == 0
    assert shop.run(*resync).code == 0, "who came too late keeps nothing"
    assert shop.rows == [(1, 1), (2, 2), (3, 3)]


def test_a_second_consumer_is_kept_from_a_table_that_is_older_than_both(shop: Shop) -> None:
    shop.by_hand("CREATE TABLE d.old (id INT, v INT)")
    shop.feed.describe("d.old", 3)
    shop.feed.puts("d.old", 3, {16: (1, "1")})
    assert shop.once(20).code == 0
    rules = ("--name", "second", "--tables", "d.old")
    left = shop.once(20, *rules)
    assert left.code == 5
    assert "the consumer 'default' of this target keeps d.old" in left.err
    other = f"{shop.cli.target}.other"
    assert shop.run("once", *rules, "--downstream-uri", other).code == 3, "as the hint says: another target"
    assert "create it empty where it was empty upstream" in shop.run("status", *rules, "--downstream-uri", other).out
    shop.feed.puts("d.old", 3, {21: (2, "2")})
    assert shop.once(25).code == 0, "the first goes on"
    assert shop.run("once", "--name", "third", "--start-ts", "25").code == 0, "said to hold what the first has done"


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
    assert shop.cli.raw(*_as_a_shell_takes(command)).code == 0, left.err
    assert shop.once(25).code == 0


def test_a_row_that_was_taken_away_by_hand(shop: Shop) -> None:
    column = Column("v", "INT")
    shop.feed.statement("d.k", 16, Action.CREATE_TABLE, "CREATE TABLE `k` (`v` INT)", (column,))
    shop.feed.file("d.k", 16, _keyless("INSERT", 17, 1) + _keyless("INSERT", 18, 2))
    assert shop.once(20).code == 0
    shop.by_hand("DELETE FROM d.k WHERE v = 1")
    shop.feed.file("d.k", 16, _keyless("DELETE", 22, 1))
    left = shop.once(25)
    assert left.code == 3
    assert {done.code for done in shop.paste(left.err)} == {0}
    with duckdb.connect(shop.cli.target.removeprefix("duckdb:///")) as connection:
        assert connection.execute("SELECT v FROM d.k").fetchall() == [(2,)]


def _keyless(kind: str, ts: int, value: int) -> bytes:
    message = {
        "id": 0, "database": "d", "table": "k", "pkNames": [], "isDdl": False, "type": kind, "es": 0, "ts": 0,
        "sql": "", "sqlType": {"v": 4}, "mysqlType": {"v": "int"}, "old": None, "data": [{"v": str(value)}],
        "_tidb": {"commitTs": ts},
    }  # fmt: skip
    return json.dumps(message).encode() + b"\r\n"


def test_a_rename_that_names_no_table(shop: Shop) -> None:
    shop.feed.statement("d.new", 20, Action.RENAME_TABLE, "RENAME TABLE nonsense")
    left = shop.once(25)
    assert left.code == 5, left
    shop.by_hand("""ALTER TABLE d."it's" RENAME TO new""")
    assert [done.code for done in shop.paste(left.err)] == [0], left.err
