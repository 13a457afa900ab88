"""A command that a hint names works as it is pasted into a shell."""

from __future__ import annotations

import shlex

from hypothesis import given, settings
from hypothesis import strategies as st

from consumer.cli.command import parse_owner, parse_table
from consumer.model.hints import completed, resync_command, skip_ddl_command
from consumer.model.names import TableName
from tests.support.shop import as_a_shell_takes

NAMES = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), min_size=1, max_size=8)
OPTIONS = "--upstream-uri 'file:///a b?protocol=csv' --name x"


@settings(max_examples=50, deadline=None)
@given(NAMES, NAMES, st.integers(1, 2**63))
def test_any_name_comes_back_from_the_shell(database: str, table: str, version: int) -> None:
    name = TableName(database, table)
    hint = f"mend it, then: {resync_command(name)}"
    command = completed(hint, OPTIONS).partition(": ")[2]
    assert command.isprintable()
    words = as_a_shell_takes(command)
    assert words[:2] == ["resync", "--table"]
    assert parse_table(words[2]) == name
    assert words[3:] == shlex.split(OPTIONS)


@settings(max_examples=50, deadline=None)
@given(NAMES, st.sampled_from(["", "t", "a.b", "it's", "`"]), st.integers(1, 2**63))
def test_a_statement_is_recorded_for_a_table_or_a_database(database: str, table: str, version: int) -> None:
    owner = TableName(database, table)
    words = as_a_shell_takes(completed(skip_ddl_command(owner, version), OPTIONS))
    assert parse_owner(words[2]) == owner
    assert words[3:5] == ["--version", str(version)]
    assert words[5:] == shlex.split(OPTIONS)


def test_what_follows_a_command_stands_in_a_line_of_its_own() -> None:
    hint = f"{skip_ddl_command(TableName('a', 'b'), 7)}; with action = 'rename' the target keeps it"
    assert completed(hint, "--name x") == (
        "storage-consumer skip-ddl --table a.b --version 7 --name x\nwith action = 'rename' the target keeps it"
    )
