"""Every test has one place: in `make test`, or in one group of `make proof`; and the docs say how long each takes."""

from __future__ import annotations

import re
from pathlib import Path

from tests.groups import GROUPS, KEPT, TEST, group_of_path
from tests.proof import TOOLS

TESTS = Path(__file__).parent
DOC = TESTS.parent / "docs" / "testing.md"


def test_what_a_group_names_is_there_and_no_other_names_it() -> None:
    named = [*KEPT, *(path for group in GROUPS.values() for path in group.paths)]
    assert len(named) == len(set(named))
    assert [path for path in named if not _is_there(*path.partition("::")[::2])] == []


def _is_there(file: str, test: str) -> bool:
    path = TESTS / file
    return path.exists() and (not test or f"def {test}(" in path.read_text(encoding="utf-8"))


def test_what_stands_nearest_says_where_a_test_is() -> None:
    assert group_of_path("simulate/test_simulate.py::test_histories_end_in_the_state_of_upstream") == TEST
    assert group_of_path("simulate/test_simulate.py::test_histories_of_rows_that_are_seen_together") == "simulate"
    assert group_of_path("integration/spark/test_new.py::test_new") == "cluster"
    assert group_of_path("unit/test_new.py::test_new") == TEST


def test_programs_and_tools_of_groups_are_there() -> None:
    programs = {program for group in GROUPS.values() for program, *_ in group.programs} - {"pytest"}
    files = [TESTS.parent / program.replace(".", "/") for program in programs]
    assert [file for file in files if not file.is_dir() and not file.with_suffix(".py").exists()] == []
    assert {tool for group in GROUPS.values() for tool in group.tools} == set(TOOLS)


def test_the_docs_have_each_group_and_its_time() -> None:
    rows = re.findall(r"^\| `(\w+)` \| (.*) \| (\d+) \|$", DOC.read_text(encoding="utf-8"), re.MULTILINE)
    assert rows == [(name, group.what, str(group.minutes)) for name, group in GROUPS.items()]
