"""What the README says is so."""

from __future__ import annotations

import re
from pathlib import Path

from consumer.cli.program import COMMANDS
from consumer.config.doc import settings_table, with_table
from consumer.config.settings import Settings
from consumer.config.spelling import env_of
from consumer.errors import ConsumerError

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_settings_table_is_the_generated_one() -> None:
    assert with_table(README) == README, "run: python -m consumer.config.doc README.md"
    assert all(f"`{env_of(field)}`" in settings_table() for field in Settings.model_fields)


def test_every_command_is_described_and_no_other() -> None:
    section = README[README.index("## Commands") : README.index("| Exit code")]
    described = re.findall(r"^\| `([a-z-]+)", section, re.MULTILINE)
    assert sorted(described) == sorted(command.name for command in COMMANDS)


def test_commands_shown_in_code_exist() -> None:
    shown = set(re.findall(r"storage-consumer ([a-z][a-z-]+)", README))
    assert {"once", "resync"} <= shown <= {command.name for command in COMMANDS}


def test_every_exit_code_is_explained() -> None:
    def codes(kind: type[ConsumerError]) -> set[int]:
        return {kind.exit_code}.union(*(codes(child) for child in kind.__subclasses__()))

    explained = {int(code) for code in re.findall(r"^\| (\d) \|", README, re.MULTILINE)}
    assert explained == codes(ConsumerError) | {0}


def test_make_targets_that_are_named_exist() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([a-z]+):", makefile, re.MULTILINE))
    named = set(re.findall(r"(?:`|^)make ([a-z]+)", README, re.MULTILINE))
    assert {"setup", "demo", "test", "check"} <= named <= targets


def test_paths_that_are_named_exist() -> None:
    architecture = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`((?:tests|consumer)/[\w./]+)`", README + architecture))
    assert {path for path in named if not (ROOT / path).exists()} == set()


def test_tests_of_threats_exist() -> None:
    named = re.findall(r"`(\S+\.py)::(test_\w+)`", (ROOT / "docs" / "threats.md").read_text(encoding="utf-8"))
    assert len(named) > 25
    for file, name in named:
        assert f"def {name}(" in (ROOT / "tests" / file).read_text(encoding="utf-8"), f"{file}::{name}"
