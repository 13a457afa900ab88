"""A command that a hint names works as it is pasted into a shell."""

from __future__ import annotations

import shlex

from hypothesis import given
from hypothesis import strategies as st

from consumer.cli.table_names import parse_owner, parse_table
from consumer.model.commands import completed, resync_command, skip_ddl_command
from consumer.model.names import TableName

NAMES = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), min_size=1, max_size=8)
OPTIONS = "--upstream-uri 'file:///a b?protocol=csv' --name x"


@given(NAMES, NAMES, st.integers(1, 2**63))
def test_any_name_comes_back_from_the_shell(database: str, table: str, version: int) -> None:
    name = TableName(database, table)
    hint = f"mend it, then: {resync_command(name)}"
    words = shlex.split(completed(hint, OPTIONS).partition(": ")[2])
    assert words[:3] == ["storage-consumer", "resync", "--table"]
    assert parse_table(words[3]) == name
    assert words[4:] == shlex.split(OPTIONS)


@given(NAMES, st.sampled_from(["", "t", "a.b", "it's", "`"]), st.integers(1, 2**63))
def test_a_statement_is_recorded_for_a_table_or_a_database(database: str, table: str, version: int) -> None:
    owner = TableName(database, table)
    words = shlex.split(completed(skip_ddl_command(owner, version), OPTIONS))
    assert parse_owner(words[3]) == owner
    assert words[4:6] == ["--version", str(version)]
    assert words[6:] == shlex.split(OPTIONS)


def test_what_follows_a_command_stays_behind_its_flags() -> None:
    hint = f"{skip_ddl_command(TableName('a', 'b'), 7)}; with action = 'rename' the target keeps it"
    assert completed(hint, "--name x") == (
        "storage-consumer skip-ddl --table a.b --version 7 --name x; with action = 'rename' the target keeps it"
    )
