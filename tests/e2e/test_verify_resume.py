"""`verify --resume`: what was found equal at the same watermark is not compared again, and nothing else is believed."""

from __future__ import annotations

import json
from pathlib import Path

import duckdb
import pytest

from tests.support.command_line import DEMO_TABLES, CommandLine, command_line


@pytest.fixture
def consumer(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> CommandLine:
    found = command_line(tmp_path, capsys, monkeypatch)
    assert found.run("once").code == 0
    return found


def by_hand(consumer: CommandLine, statement: str) -> None:
    with duckdb.connect(consumer.target.removeprefix("duckdb:///")) as connection:
        connection.execute(statement)


def compared(consumer: CommandLine, file: Path) -> dict[str, bool]:
    """By table, whether it was compared by this call."""
    tables = consumer.run("verify", "--resume", str(file), "--json").json["tables"]
    return {name: check["compared_at"] is None for name, check in tables.items()}


def test_what_was_equal_is_passed_over(consumer: CommandLine, tmp_path: Path) -> None:
    file = tmp_path / "verified"
    by_hand(consumer, "DELETE FROM du.s")
    first = consumer.run("verify", "--resume", str(file))
    assert first.code == 6
    again = compared(consumer, file)
    assert again == {name: name == "du.s" for name in again}
    assert len(again) == len(DEMO_TABLES)
    left = consumer.run("verify", "--resume", str(file))
    assert left.code == 6
    assert "not again (--resume)" in left.out


def test_a_line_that_was_cut_short_counts_as_none(consumer: CommandLine, tmp_path: Path) -> None:
    file = tmp_path / "verified"
    assert all(compared(consumer, file).values())
    content = file.read_bytes()
    file.write_bytes(content[:-5])
    last = json.loads(content.splitlines()[-1])["table"]
    assert [name for name, now in compared(consumer, file).items() if now] == [".".join(last)]
    assert not any(compared(consumer, file).values())
    file.write_bytes(content[:20])
    assert all(compared(consumer, file).values())


def test_a_consumer_that_took_the_target_ends_it(consumer: CommandLine, tmp_path: Path) -> None:
    file = tmp_path / "verified"
    assert all(compared(consumer, file).values())
    assert consumer.run("once").code == 0
    assert all(compared(consumer, file).values())


def test_another_file_is_refused_and_stays(consumer: CommandLine, tmp_path: Path) -> None:
    file = tmp_path / "verified"
    for content in (b"not ours", b"not ours\n", b'{"verified": 1, "name": "other"}\n'):
        file.write_bytes(content)
        left = consumer.run("verify", "--resume", str(file))
        assert left.code == 2
        assert "does not tell of this consumer" in left.err
        assert file.read_bytes() == content
    assert consumer.run("verify", "--resume", str(tmp_path / "another")).code == 0
    assert consumer.run("verify", "--resume", str(tmp_path)).code == 2
    assert consumer.run("verify", "--resume", str(tmp_path / "x"), "--repair").code == 2
