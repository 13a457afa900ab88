"""The start and the end of the process."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from consumer.cli.main import main
from consumer.cli.program import COMMANDS, build
from tests.unit.cli.conftest import exit_code

_LAST = """
import atexit, gc
collected = []
gc.callbacks.append(lambda phase, _: collected.append(phase))
atexit.register(lambda: print(gc.get_freeze_count() > 10_000, len(collected)))
from consumer.cli.main import main
main()
"""


def test_values_that_stay_are_hardly_looked_through_for_cycles() -> None:
    """What others have registered for the end still runs, behind the freeze."""
    said = subprocess.run([sys.executable, "-c", _LAST, "--version"], check=True, capture_output=True, text=True)
    frozen, collected = said.stdout.split()[-2:]
    assert frozen == "True"
    assert int(collected) < 50, "as Python has it, the imports alone are looked through more than a hundred times"


@pytest.mark.parametrize("name", [command.name for command in COMMANDS])
def test_a_command_that_is_named_is_as_among_all(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    build()(prog_name="storage-consumer", args=[name, "--help"], standalone_mode=False)
    among_all = capsys.readouterr().out
    assert exit_code(name, "--help") == 0
    assert capsys.readouterr().out == among_all
    assert f"storage-consumer {name} [OPTIONS]" in among_all


def test_a_command_that_is_named_is_made_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    made = []
    monkeypatch.setattr(
        "consumer.cli.command.Command.callback",
        lambda command: lambda: made.append(command.name),
    )
    with pytest.raises(SystemExit):
        main(["plan"])
    assert made == ["plan"]


def test_a_word_that_is_no_command_is_compared_with_all(capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code("statsu") == 2
    assert "Did you mean 'status'?" in capsys.readouterr().err


_GENERAL = {"--log-level", "--log-file", "--only", "--max-wait", "--enable-profiling"}
_OF_ROUNDS = {"--consistency", "--on-bad-row", "--accept-key-loss"}
_OF_SPARK = {"--master", "--spark-conf", "--worker-count"}


@pytest.mark.parametrize(
    ("name", "own", "all_of_it", "never"),
    [
        ("forget", {"--yes", "--name", "--downstream-uri", "--json"}, _GENERAL, {"--upstream-uri", "--tz", "--tables"}),
        ("inspect", {"--toml", "--time-range", "--upstream-uri"}, {"--log-level"}, {"--downstream-uri", "--name"}),
        ("status", {"--check", "--max-lag", "--tz"}, _GENERAL | {"--route"}, {"--start-ts", *_OF_ROUNDS, *_OF_SPARK}),
        ("verify", {"--repair", "--table", "--tz"}, _GENERAL | _OF_SPARK, {"--consistency", "--flush-interval"}),
        ("once", {"--start-ts", "--tables", "--config"}, _GENERAL | _OF_ROUNDS | _OF_SPARK, {"--flush-interval"}),
        ("run", {"--flush-interval", "--tables"}, _GENERAL | _OF_ROUNDS | _OF_SPARK, set()),
    ],
)
def test_help_shows_what_a_command_uses(
    name: str, own: set[str], all_of_it: set[str], never: set[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """Its own flags and those that everybody needs; behind --help-all also the general ones."""
    short, long = _flags_in_help(name, "--help", capsys), _flags_in_help(name, "-help-all", capsys)
    assert own <= short < long
    assert not all_of_it & (short - own)
    assert all_of_it <= long
    assert not never & long


def test_a_flag_that_the_help_does_not_show_is_taken(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One set of flags fits all commands: those that are printed to go on with have the flags of the command before."""
    target = f"duckdb:///{tmp_path}/replica.duckdb"
    assert exit_code("forget", "--name", "old", "--downstream-uri", target, "--consistency", "table") == 2
    assert "no progress under the name 'old'" in capsys.readouterr().err


def _flags_in_help(name: str, flag: str, capsys: pytest.CaptureFixture[str]) -> set[str]:
    assert exit_code(name, flag) == 0
    options = capsys.readouterr().out.partition("Options:")[2].partition("Example:")[0]
    return set(re.findall(r"^  (?:-\w, )?(--[a-z-]+)", options, re.MULTILINE))
