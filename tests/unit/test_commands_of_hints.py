"""A command that a hint names works as it is pasted into a shell."""

from __future__ import annotations

import pickle
import shlex

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from consumer.cli.command import parse_owner, parse_table
from consumer.errors import DdlRefused
from consumer.model.hints import (
    ACCEPT_LOSS,
    AS_FILES_SHOW,
    Command,
    Hint,
    Instead,
    Verb,
    about_table,
    accept_command,
    forget_command,
    hint_with_options,
    in_a_replay,
    read_anyway_hint,
    resync_command,
    retry_command,
    skip_ddl_command,
)
from consumer.model.names import TableName
from tests.support.shop import as_a_shell_takes

NAMES = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), min_size=1, max_size=8)
COMMANDS = st.builds(
    Command,
    st.sampled_from(Verb),
    st.none() | st.builds(TableName, NAMES, NAMES),
    st.integers(0, 2**63),
    st.booleans(),
    NAMES,
)
OPTIONS = "--upstream-uri 'file:///a b?protocol=csv' --name x"


@settings(max_examples=50, deadline=None)
@given(NAMES, NAMES, st.integers(1, 2**63))
def test_any_name_comes_back_from_the_shell(database: str, table: str, version: int) -> None:
    name = TableName(database, table)
    hint = "mend it, then: " + resync_command(name)
    command = hint_with_options(hint, OPTIONS).partition(": ")[2]
    assert command.isprintable()
    words = as_a_shell_takes(command)
    assert words[:2] == ["resync", "--table"]
    assert parse_table(words[2]) == name
    assert words[3:] == shlex.split(OPTIONS)


@settings(max_examples=50, deadline=None)
@given(NAMES, st.sampled_from(["", "t", "a.b", "it's", "`"]), st.integers(1, 2**63))
def test_a_statement_is_recorded_for_a_table_or_a_database(database: str, table: str, version: int) -> None:
    owner = TableName(database, table)
    words = as_a_shell_takes(hint_with_options(skip_ddl_command(owner, version), OPTIONS))
    assert parse_owner(words[2]) == owner
    assert words[3:5] == ["--version", str(version)]
    assert words[5:] == shlex.split(OPTIONS)


def test_what_follows_a_command_stands_in_a_line_of_its_own() -> None:
    hint = skip_ddl_command(TableName("a", "b"), 7) + "; with action = 'rename' the target keeps it"
    assert hint_with_options(hint, "--name x") == (
        "storage-consumer skip-ddl --table a.b --version 7 --name x\nwith action = 'rename' the target keeps it"
    )
    assert hint == "storage-consumer skip-ddl --table a.b --version 7; with action = 'rename' the target keeps it"


TABLE = TableName("d", "t")


@pytest.mark.parametrize(
    ("command", "wanted"),
    [
        (retry_command(TABLE), "retry --table d.t --config f --downstream-uri u"),
        (accept_command(TABLE), "once --accept-gap-in d.t --config f --downstream-uri u"),
        (accept_command(TableName("d", "a.b")), "once --accept-gap-in 'd.`a.b`' --config f --downstream-uri u"),
        (resync_command(TABLE, accepts=True), "resync --table d.t --accept-gap-in d.t --config f --downstream-uri u"),
    ],
)
def test_a_command_gets_the_flags_of_the_call(command: Command, wanted: str) -> None:
    assert hint_with_options(command, "--config f --downstream-uri u") == f"storage-consumer {wanted}"


def test_what_forgets_a_name_gets_the_flags_that_say_where_and_not_the_calls_own_name() -> None:
    flags = "--config f --upstream-uri s --name mine --downstream-uri u"
    own = "storage-consumer forget --name 'o x' --yes"
    assert hint_with_options(forget_command("o x"), flags) == f"{own} --config f --downstream-uri u"
    assert hint_with_options(forget_command("o x"), f"{flags} --only a") == f"{own} {flags} --only a"


@settings(max_examples=50, deadline=None)
@given(st.lists(st.one_of(st.text(), st.builds(Instead, st.text(min_size=1)), COMMANDS)))
def test_a_hint_comes_back_from_another_process_and_from_the_progress(parts: list[str | Command | Instead]) -> None:
    hint = Hint(*parts)
    error = DdlRefused("no", hint=hint, table="d.t")
    for found in (pickle.loads(pickle.dumps(error)).hint, Hint.loaded(hint.dumped()), error.about("d.u").hint):
        assert (found, found.parts) == (hint, hint.parts)
        assert hint_with_options(found, OPTIONS) == hint_with_options(hint, OPTIONS)


@pytest.mark.parametrize(
    "text",
    ["mend it", "[1]", '[{"verb": "rm", "table": null}]', '[{"verb": "once"}]', '[{"verb": "once", "table": 1}]'],
)
def test_what_nobody_has_dumped_is_no_hint(text: str) -> None:
    with pytest.raises((TypeError, ValueError)):
        Hint.loaded(text)


def test_a_hint_is_put_together_of_others_and_texts() -> None:
    skip = skip_ddl_command(TABLE, 7)
    hint = "if so, " + ("do it, then: " + skip) + "; or look: " + AS_FILES_SHOW
    assert hint.parts == ("if so, do it, then: ", skip, "; or look: ", AS_FILES_SHOW)
    assert hint.with_texts(str.upper).parts == ("IF SO, DO IT, THEN: ", skip, "; OR LOOK: ", AS_FILES_SHOW)


def test_who_knows_the_table_names_it() -> None:
    hint = "remove it and continue without its rows: " + ACCEPT_LOSS
    assert hint_with_options(about_table(hint, TABLE), "--name x").endswith(
        ": storage-consumer once --accept-gap-in d.t --name x"
    )
    other = "remove it: " + accept_command(TableName("d", "u"))
    assert about_table(other, TABLE) == other


@pytest.mark.parametrize(
    ("command", "replayed"),
    [
        (
            resync_command(TABLE),
            "replay the range again, under another --name, into a target that is as upstream was when the range begins",
        ),
        (accept_command(TABLE), "replay the range again with --accept-gap-in d.t"),
        (
            resync_command(TABLE, accepts=True),
            "replay the range again with --accept-gap-in d.t, under another --name, into a target that is as upstream"
            " was when the range begins",
        ),
        (skip_ddl_command(TABLE, 7), "storage-consumer skip-ddl --table d.t --version 7 --name x"),
    ],
)
def test_in_a_replay_the_range_is_applied_again(command: Command, replayed: str) -> None:
    assert hint_with_options(in_a_replay("mend it, or " + command), "--name x") == f"mend it, or {replayed}"


def test_who_only_reads_is_told_of_its_own_option() -> None:
    told = read_anyway_hint("restore it, or continue without: " + accept_command(TABLE))
    assert told == (
        "restore it, or continue without: give --accept-gap-in d.t to this command, too (in Spark, the option"
        " accept-gap-in)"
    )
    assert hint_with_options(told, "--name x") == told
