"""The command `verify`, as a person calls it."""

from __future__ import annotations

import shutil
from pathlib import Path

import duckdb

from tests.support.command_line import DEMO_TABLES, CommandLine
from tests.support.written_files import render_checkpoint


def by_hand(cli: CommandLine, *statements: str) -> None:
    with duckdb.connect(cli.target.removeprefix("duckdb:///")) as connection:
        for statement in statements:
            connection.execute(statement)


def test_nothing_was_applied_yet(cli: CommandLine) -> None:
    left = cli.run("verify")
    assert left.code == 2
    assert "run `once` first" in left.err
    assert cli.run("once").code == 0
    assert cli.run("verify").code == 0


def test_rules_that_take_no_table_prove_nothing(cli: CommandLine) -> None:
    assert cli.run("once").code == 0
    for strict in ((), ("--strict",)):
        left = cli.run("verify", "--tables", "typo.*", *strict)
        assert left.code == 3
        assert "no table was compared" in left.out
        assert f"the table rules leave out {len(DEMO_TABLES)} tables" in left.out
        assert f"the table rules leave out all {len(DEMO_TABLES)}" in left.err
    assert cli.run("verify", "--json").json["excluded"] == 0


def test_what_was_changed_by_hand_is_named_and_mended(cli: CommandLine) -> None:
    assert cli.run("once").code == 0
    left = cli.run("verify")
    assert left.code == 0, left.out
    assert f"{len(DEMO_TABLES)} of {len(DEMO_TABLES)} tables are equal, compared whole" in left.out
    by_hand(cli, "UPDATE du.s SET id = 101", "DELETE FROM du.n", "INSERT INTO du.n VALUES (2, 3)")
    left = cli.run("verify")
    assert left.code == 6
    for line in ("du.s missing: id='100'", "du.s extra: id='101'", "du.n differs: "):
        assert line in left.out
    assert "must be '2', is '3'" in left.out
    assert "3 rows differ from the storage in 2 tables" in left.err
    assert "--repair makes the rows right" in left.err
    shown = cli.run("verify", "--table", "du.s", "--show", "1", "--json")
    assert list(shown.json["tables"]) == ["du.s"]
    assert (shown.json["exit_code"], shown.json["differences"], len(shown.json["tables"]["du.s"]["shown"])) == (6, 2, 1)
    for table in ("du.s", "du.n"):
        assert cli.run("resync", "--table", table).code == 0
    assert cli.run("verify").code == 0


def test_rows_are_made_right(cli: CommandLine) -> None:
    assert cli.run("once").code == 0
    by_hand(cli, "UPDATE du.s SET id = 101", "INSERT INTO du.n VALUES (2, 3)")
    script = cli.storage.parent / "right.sql"
    left = cli.run("verify", "--repair-sql", str(script))
    assert left.code == 6
    assert script.read_text().count("BEGIN TRANSACTION") == 2
    assert cli.run("verify", "--repair", "--repair-sql", str(script)).code == 2
    left = cli.run("verify", "--repair", "--json")
    assert (left.code, left.json["differences"]) == (0, 0)
    assert left.json["tables"]["du.s"]["repaired"]["missing"] == 1
    assert left.json["tables"]["du.t"]["repaired"] is None
    by_hand(cli, "UPDATE du.s SET id = 101")
    left = cli.run("verify", "--repair")
    assert left.code == 0
    assert "du.s, before the repair, missing: id='100'" in left.out
    assert "du.s: 2 of 2 rows that differed made right" in left.out
    assert cli.run("verify").code == 0
    assert cli.run("once").code == 0
    assert not script.with_suffix(".sql.part").exists()


def test_a_file_of_statements_that_cannot_be_written(cli: CommandLine) -> None:
    assert cli.run("once").code == 0
    left = cli.run("verify", "--repair-sql", str(cli.storage / "nowhere" / "right.sql"))
    assert left.code == 2
    assert "right.sql cannot be written: No such file or directory" in left.err
    assert "name another file" in left.err
    assert cli.run("verify", "--repair-sql", str(cli.storage.parent / "right.sql")).code == 0


def test_a_storage_that_was_moved(cli: CommandLine) -> None:
    """As docs/storages.md says."""
    assert cli.run("once").code == 0
    moved = cli.storage.with_name("moved")
    shutil.copytree(cli.storage, moved)
    shutil.rmtree(cli.storage)
    there = ("--upstream-uri", f"file://{moved}?protocol=canal-json")
    refused = cli.run("once", *there)
    assert (refused.code, "docs/storages.md" in refused.err) == (5, True)
    by_hand(cli, f"UPDATE storage_consumer.consumer SET upstream = 'file://{moved}' WHERE name = 'default'")
    assert cli.run("once", *there).code == 0
    assert cli.run("verify", *there, "--strict").code == 0


def test_a_table_that_somebody_dropped_is_told_as_by_a_run(cli: CommandLine) -> None:
    assert cli.run("once").code == 0
    by_hand(cli, "DROP TABLE du.s")
    told = {command: cli.run(command, "--json").json for command in ("status", "plan", "verify", "check")}
    hints = {told["status"]["tables"]["du.s"]["hint"], told["plan"]["stopped"]["du.s"]["hint"]}
    hints |= {told["verify"]["tables"]["du.s"]["hint"], told["check"]["hint"]}
    assert len(hints) == 1, hints
    assert "storage-consumer resync --table du.s" in hints.pop()
    assert [told[command]["exit_code"] for command in ("verify", "check")] == [3, 5]


def test_a_checkpoint_that_went_back(cli: CommandLine) -> None:
    assert cli.run("once").code == 0
    whole = (cli.storage / "metadata").read_bytes()
    (cli.storage / "metadata").write_bytes(render_checkpoint(470611618366488577))
    for more in ((), ("--table", "du.t"), ("--repair",)):
        left = cli.run("verify", *more, "--json")
        assert (left.code, left.json["code"]) == (4, "checkpoint-behind")
        assert "went back" in left.json["error"]
    (cli.storage / "metadata").write_bytes(render_checkpoint(5))  # below the CREATE TABLE of each
    assert cli.run("verify").code == 4
    checked = cli.run("status", "--check")
    assert (checked.code, "check: exit 4, the storage's checkpoint went back" in checked.out) == (4, True)
    (cli.storage / "metadata").write_bytes(whole)
    assert cli.run("verify", "--strict").code == 0


def test_another_upstream_or_table_is_refused(cli: CommandLine) -> None:
    assert cli.run("once").code == 0
    assert cli.run("verify", "--tz", "Europe/Berlin").code == 2
    assert cli.run("verify", "--table", "du.nowhere").code == 2


def test_a_view_in_place_of_a_table_is_an_error(cli: CommandLine) -> None:
    assert cli.run("once").code == 0
    by_hand(cli, "ALTER TABLE du.n RENAME TO m", "CREATE VIEW du.n AS SELECT * FROM du.m")
    left = cli.run("verify")
    assert left.code == 3
    assert "du.n was not compared: du.n is a view in the target" in left.out


def test_the_target_is_only_read(cli: CommandLine) -> None:
    assert cli.run("once").code == 0
    file = Path(cli.target.removeprefix("duckdb:///"))
    before = file.read_bytes()
    assert cli.run("verify").code == 0
    assert file.read_bytes() == before
