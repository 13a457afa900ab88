"""The command `verify`, as a person calls it."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pytest

from tests.support.command_line import DEMO_TABLES, CommandLine, command_line
from tests.support.written_files import render_checkpoint


@pytest.fixture
def consumer(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> CommandLine:
    return command_line(tmp_path, capsys, monkeypatch)


def by_hand(consumer: CommandLine, *statements: str) -> None:
    with duckdb.connect(consumer.target.removeprefix("duckdb:///")) as connection:
        for statement in statements:
            connection.execute(statement)


def test_nothing_was_applied_yet(consumer: CommandLine) -> None:
    left = consumer.run("verify")
    assert left.code == 2
    assert "run `once` first" in left.err
    assert consumer.run("once").code == 0
    assert consumer.run("verify").code == 0


def test_rules_that_take_no_table_prove_nothing(consumer: CommandLine) -> None:
    assert consumer.run("once").code == 0
    for strict in ((), ("--strict",)):
        left = consumer.run("verify", "--tables", "typo.*", *strict)
        assert left.code == 3
        assert "no table was compared" in left.out
        assert f"the table rules leave out {len(DEMO_TABLES)} tables" in left.out
        assert f"the table rules leave out all {len(DEMO_TABLES)}" in left.err
    assert consumer.run("verify", "--json").json["excluded"] == 0


def test_what_was_changed_by_hand_is_named_and_mended(consumer: CommandLine) -> None:
    assert consumer.run("once").code == 0
    left = consumer.run("verify")
    assert left.code == 0, left.out
    assert f"{len(DEMO_TABLES)} of {len(DEMO_TABLES)} tables are equal, compared whole" in left.out
    by_hand(consumer, "UPDATE du.s SET id = 101", "DELETE FROM du.n", "INSERT INTO du.n VALUES (2, 3)")
    left = consumer.run("verify")
    assert left.code == 6
    for line in ("du.s missing: id='100'", "du.s extra: id='101'", "du.n differs: "):
        assert line in left.out
    assert "must be '2', is '3'" in left.out
    assert "3 rows differ from the storage in 2 tables" in left.err
    assert "--repair makes the rows right" in left.err
    shown = consumer.run("verify", "--table", "du.s", "--show", "1", "--json")
    assert list(shown.json["tables"]) == ["du.s"]
    assert (shown.json["exit_code"], shown.json["differences"], len(shown.json["tables"]["du.s"]["shown"])) == (6, 2, 1)
    for table in ("du.s", "du.n"):
        assert consumer.run("resync", "--table", table).code == 0
    assert consumer.run("verify").code == 0


def test_rows_are_made_right(consumer: CommandLine) -> None:
    assert consumer.run("once").code == 0
    by_hand(consumer, "UPDATE du.s SET id = 101", "INSERT INTO du.n VALUES (2, 3)")
    script = consumer.storage.parent / "right.sql"
    left = consumer.run("verify", "--repair-sql", str(script))
    assert left.code == 6
    assert script.read_text().count("BEGIN TRANSACTION") == 2
    assert consumer.run("verify", "--repair", "--repair-sql", str(script)).code == 2
    left = consumer.run("verify", "--repair", "--json")
    assert (left.code, left.json["differences"]) == (0, 0)
    assert left.json["tables"]["du.s"]["repaired"]["missing"] == 1
    assert left.json["tables"]["du.t"]["repaired"] is None
    by_hand(consumer, "UPDATE du.s SET id = 101")
    left = consumer.run("verify", "--repair")
    assert left.code == 0
    assert "du.s was missing: id='100'" in left.out
    assert "du.s: 2 of 2 rows that differed are right now" in left.out
    assert consumer.run("verify").code == 0
    assert consumer.run("once").code == 0
    assert not script.with_suffix(".sql.part").exists()


def test_a_file_of_statements_that_cannot_be_written(consumer: CommandLine) -> None:
    assert consumer.run("once").code == 0
    left = consumer.run("verify", "--repair-sql", str(consumer.storage / "nowhere" / "right.sql"))
    assert left.code == 2
    assert "right.sql cannot be written: No such file or directory" in left.err
    assert "name another file" in left.err
    assert consumer.run("verify", "--repair-sql", str(consumer.storage.parent / "right.sql")).code == 0


def test_a_checkpoint_that_went_back(consumer: CommandLine) -> None:
    assert consumer.run("once").code == 0
    whole = (consumer.storage / "metadata").read_bytes()
    (consumer.storage / "metadata").write_bytes(render_checkpoint(470611618366488577))
    left = consumer.run("verify")
    assert "above the checkpoint" in left.out
    assert "0 of " in left.out
    assert left.code == 4
    (consumer.storage / "metadata").write_bytes(whole)
    assert consumer.run("verify", "--strict").code == 0


def test_another_upstream_or_table_is_refused(consumer: CommandLine) -> None:
    assert consumer.run("once").code == 0
    assert consumer.run("verify", "--tz", "Europe/Berlin").code == 2
    assert consumer.run("verify", "--table", "du.nowhere").code == 2


def test_a_view_in_place_of_a_table_is_an_error(consumer: CommandLine) -> None:
    assert consumer.run("once").code == 0
    by_hand(consumer, "ALTER TABLE du.n RENAME TO m", "CREATE VIEW du.n AS SELECT * FROM du.m")
    left = consumer.run("verify")
    assert left.code == 3
    assert "du.n was not compared: du.n is a view in the target" in left.out


def test_the_target_is_only_read(consumer: CommandLine) -> None:
    assert consumer.run("once").code == 0
    file = Path(consumer.target.removeprefix("duckdb:///"))
    before = file.read_bytes()
    assert consumer.run("verify").code == 0
    assert file.read_bytes() == before
