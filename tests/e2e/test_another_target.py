"""A target that is a package of its own and one line of the registry: every command takes it as it takes the others."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from consumer.model.columns import Column, Family
from consumer.model.names import TableName
from tests.support.command_line import DEMO_TABLES, CommandLine, command_line
from tests.support.memory.sink import MemorySink


@pytest.fixture
def program(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> CommandLine:
    return replace(command_line(tmp_path, capsys, monkeypatch), target=f"memory://{tmp_path.name.replace('_', '-')}")


def rows_of(program: CommandLine) -> dict[str, list[tuple[int | str, ...]]]:
    found = MemorySink(program.target.removeprefix("memory://"), "default")._store.tables
    tables = {name: found[TableName("du", name)] for name in DEMO_TABLES}
    return {
        name: sorted(tuple(map(_value, table.columns, row.values())) for row in table.rows)
        for name, table in tables.items()
    }


def _value(column: Column, text: str) -> int | str:
    return int(text) if column.family is Family.INTEGER else text


def test_a_changefeed_goes_into_it(program: CommandLine, tmp_path: Path) -> None:
    planned, other = (
        [(step["kind"], step["table"]) for step in run.run("plan", "--json").json["steps"]]
        for run in (program, replace(program, target=f"duckdb:///{tmp_path}/other.duckdb"))
    )
    assert planned == other != []
    done = program.run("once", "--json")
    assert (done.code, set(done.states.values())) == (0, {"ok"})
    assert rows_of(program) == DEMO_TABLES
    assert program.run("plan", "--json").json["steps"] == []
    assert program.run("status", "--check").code == 0


def test_a_table_is_made_anew_in_it(program: CommandLine) -> None:
    assert program.run("once").code == 0
    assert program.run("resync", "--table", "du.t").code == 0
    assert rows_of(program) == DEMO_TABLES
