"""The sample consumer's way of writing flags."""

from __future__ import annotations

import json
from typing import Any

import pytest
import typer

from consumer.cli.program import COMMANDS, build, with_two_dashes
from tests.unit.cli.conftest import UPSTREAM, FakeApp, exit_code


@pytest.mark.parametrize(
    ("given", "parsed"),
    [
        (["-upstream-uri", "x"], ["--upstream-uri", "x"]),
        (["-upstream-uri=x=y"], ["--upstream-uri=x=y"]),
        (["--upstream-uri", "-name"], ["--upstream-uri", "-name"]),
        (["-flush-interval", "2s", "-tz", "UTC"], ["--flush-interval", "2s", "--tz", "UTC"]),
        (["-v", "-h"], ["-v", "-h"]),
        (["-unknown", "-x"], ["-unknown", "-x"]),
        (["-json=true", "-accept-key-loss=false"], ["--json"]),
        (["--tables", "a.*", "!a.b", "--json"], ["--tables", "a.*", "--tables", "!a.b", "--json"]),
        (["-tables", "a.*"], ["--tables", "a.*"]),
        (["--tables"], ["--tables"]),
        (["-tables", "-json"], ["--tables", "--json"]),
        (["--upstream-uri"], ["--upstream-uri"]),
        ([], []),
    ],
)
def test_flags(given: list[str], parsed: list[str]) -> None:
    assert with_two_dashes(given) == parsed


def test_each_commands_own_flags_can_have_one_dash() -> None:
    """They are what typer shows in the command's help."""
    group: Any = typer.main.get_command(build())
    for command in COMMANDS:
        shown = {option for parameter in group.commands[command.name].params for option in parameter.opts}
        assert shown >= command.flags.keys()
        for flag, valued in command.flags.items():
            words = [flag[1:], "x"] if valued else [f"{flag[1:]}=true"]
            assert with_two_dashes(words, [command]) == ([flag, "x"] if valued else [flag])


def test_a_flag_of_another_command_stays_as_it_is() -> None:
    assert with_two_dashes(["-max-lag", "5m"], [c for c in COMMANDS if c.name == "once"]) == ["-max-lag", "5m"]


def test_table_rules_that_are_not_there_are_no_rules_for_all(app: FakeApp) -> None:
    for rules in (["--tables"], ["--tables", "--json"], ["--tables", ""]):
        assert exit_code("once", "--upstream-uri", UPSTREAM, *rules) == 2
    assert app.calls == []


def test_the_sample_consumers_command_line(app: FakeApp) -> None:
    given = ["-upstream-uri", UPSTREAM, "-downstream-uri", "mysql://root@h:3306/", "-log-level", "warn"]
    given += [
        "-flush-interval=2s",
        "-file-index-width",
        "6",
        "-tz",
        "+08:00",
        "-log-file",
        "/dev/null",
        "-enable-profiling=false",
    ]
    assert exit_code("run", *given) == 0
    settings = app.calls[0][1]
    assert (settings.flush_interval, settings.file_index_width, settings.tz) == (2.0, 6, "+08:00")
    assert (settings.log_level, settings.downstream_uri) == ("warning", "mysql://root@h:3306/")


def test_usage_errors_leave_with_two(app: FakeApp, capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code("once", "--upstrem-uri", "x") == 2
    assert exit_code("replicate") == 2
    assert exit_code() == 2
    assert exit_code("resync", "--upstream-uri", UPSTREAM) == 2
    assert "--table" in capsys.readouterr().err
    assert app.calls == []


def test_usage_errors_are_json_too(app: FakeApp, capsys: pytest.CaptureFixture[str]) -> None:
    for words in (("once", "--upstrem-uri", "x"), ("replicate",), ("resync", "--upstream-uri", UPSTREAM)):
        assert exit_code(*words, "-json") == 2
        shown = capsys.readouterr()
        body = json.loads(shown.out)
        assert body["error"] in shown.err
        assert body["tables"] == {}


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code("--version") == 0
    assert capsys.readouterr().out.startswith("storage-consumer ")
