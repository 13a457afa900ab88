"""Quarantined rows as the commands tell of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.e2e.test_output_schema import checked
from tests.support.command_line import DEMO_TABLES, T_CREATED, CommandLine, command_line, duckdb_tables
from tests.support.shop import as_a_shell_takes


@pytest.fixture
def cli(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> CommandLine:
    found = command_line(tmp_path, capsys, monkeypatch)
    path = found.data_file("t", T_CREATED, 2)
    lines = path.read_bytes().split(b"\r\n")
    path.write_bytes(b"\r\n".join([lines[0][:-9], *lines[1:]]))
    monkeypatch.setenv("STORAGE_CONSUMER_ON_BAD_ROW", "stop;du.*=quarantine")
    monkeypatch.setenv("STORAGE_CONSUMER_DEAD_LETTERS", f"file://{tmp_path}/letters")
    return found


def test_what_is_told_until_they_are_in(cli: CommandLine, tmp_path: Path) -> None:
    done = checked(cli.run("once", "--json"), "RunResult")
    assert done["exit_code"] == 3
    table = done["tables"]["du.t"]
    assert (table["state"], table["quarantined"]) == ("ok", 1)
    assert "CDC" in table["bad_row"]
    assert any("1 row was quarantined" in note for note in done["notes"])
    assert len(list((tmp_path / "letters").glob("default/du.t/*.json"))) == 1
    again = cli.run("once")
    assert again.code == 3
    assert "du.t lacks 1 quarantined row; the first: du/t/" in again.err
    asked = checked(cli.run("status", "--json"), "StatusResult")
    assert asked["tables"]["du.t"]["quarantined"] == 1
    assert f"{asked['tables_ok']} ok, 1 with quarantined rows" in cli.run("status").out
    told = cli.run("status", "--check")
    assert told.code == 3
    assert "1 with quarantined rows" in told.out
    compared = cli.run("verify")
    assert "1 row is quarantined" in compared.out
    left = checked(cli.run("retry", "--json"), "RetryResult")
    assert (left["exit_code"], left["tables"]["du.t"]["quarantined"]) == (3, 1)
    other = cli.run("retry", "--table", "du.nowhere")
    assert other.code == 2
    assert "there are some of du.t" in other.err
    cli.mend()
    (command,) = [line for line in told.out.splitlines() if "storage-consumer retry" in line]
    words = as_a_shell_takes(command.partition(": ")[2])
    taken = cli.run(*words)
    assert taken.code == 0, taken.err
    assert "du.t: 1 row is in the target now, 0 still quarantined" in taken.out
    assert cli.run("status", "--check").code == 0
    assert cli.run("status", "--json").json["tables_ok"] == asked["tables_ok"] + 1
    assert cli.run("once").code == 0
    assert duckdb_tables(cli.target) == DEMO_TABLES
    assert "no rows are quarantined" in cli.run("retry", "--table", "du.*").out


def test_the_command_of_status_asks_for_the_folder_that_it_does_not_know(
    cli: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With it, the letter is told as taken in. Other commands in hints do without."""
    letters = f"file://{tmp_path}/letters"
    monkeypatch.delenv("STORAGE_CONSUMER_DEAD_LETTERS")
    first = cli.run("once", "--dead-letters", letters)
    assert f"--dead-letters {letters}" in first.err
    cli.mend()
    monkeypatch.delenv("STORAGE_CONSUMER_ON_BAD_ROW")
    (command,) = [line for line in cli.run("status").out.splitlines() if "storage-consumer retry" in line]
    words = as_a_shell_takes(command.partition(": ")[2])
    assert words[words.index("--dead-letters") + 1] == "URI"
    assert cli.run("retry").code == 2
    assert cli.run(*(letters if word == "URI" else word for word in words)).code == 0
    (letter,) = (tmp_path / "letters").glob("default/du.t/*.json")
    assert b'"taken_in"' in letter.read_bytes()


def test_a_rule_that_is_none(cli: CommandLine) -> None:
    assert cli.run("retry", "--table", "a b").code == 2
    assert cli.run("once", "--on-bad-row", "ignore").code == 2
    assert cli.run("once", "--on-bad-row", "!du.t=stop").code == 2
    assert cli.run("once", "--dead-letters", "nowhere").code == 2
