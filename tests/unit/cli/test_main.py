"""The start and the end of the process."""

from __future__ import annotations

import subprocess
import sys

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
