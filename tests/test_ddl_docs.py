"""docs/ddl.md says what is so: every action type, every kind, every test it names."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Container
from pathlib import Path

from consumer.config.filters import DdlRules
from consumer.model.actions import Action
from consumer.model.ddl_policy import GROUPS, NEVER_IGNORED, DdlPolicy, evolve, kind_of
from consumer.model.names import TableName
from tests.integration.mysql import test_every_action as on_mariadb
from tests.unit.sink.duckdb import test_every_action as on_duckdb

ROOT = Path(__file__).parent.parent
DOC = (ROOT / "docs" / "ddl.md").read_text(encoding="utf-8")
ROWS = {
    int(cells[0]): cells
    for line in DOC.splitlines()
    if (cells := [cell.strip() for cell in line.strip("|").split("|")]) and cells[0].isdecimal()
}
ALL_TYPES = {*range(81), 230, 231}
CASES: dict[str, Container[Action]] = {
    "test_mariadb_executes": on_mariadb.CASES,
    "test_a_replica_follows": on_duckdb.CASES,
}
_SOURCES = "\n".join(
    path.read_text(encoding="utf-8")
    for folder in ("tests/integration/mysql", "tests/unit/sink/duckdb", "tests/unit/plan")
    for path in (ROOT / folder).glob("test_*.py")
)


def test_every_action_type_has_a_row_and_those_that_are_written_are_known() -> None:
    assert set(ROWS) == ALL_TYPES
    assert {number for number, cells in ROWS.items() if cells[2] != "no"} == set(Action)
    assert all(len(cells) == 7 for cells in ROWS.values())


def test_rows_name_the_kind_its_default_and_tests_that_exist() -> None:
    assert {action: wrong for action in Action if action is not Action.NONE and (wrong := _wrong(action))} == {}


def _wrong(action: Action) -> list[str]:
    """What the row of `action` says that is not so."""
    _, _, _, servers, replica, kind, tests = ROWS[action]
    named = re.findall(r"`(\w+)(?:\[(\w+)\])?`", tests)
    wrong = [] if kind == f"`{kind_of(action)}`: {evolve(action, TableName('d', 't'))}" else [kind]
    wrong += [] if servers and replica and len(named) == 2 else [tests]
    wrong += [test for test, _ in named if f"def {test}(" not in _SOURCES]
    return wrong + [case for test, case in named if case and (Action[case] is not action or action not in CASES[test])]


def test_the_other_rows_claim_nothing() -> None:
    assert all(not any(ROWS[number][3:]) for number in ALL_TYPES - set(Action))


def test_policies_groups_and_limits_are_told() -> None:
    assert re.findall(r"^\| `([a-z]+)` \|", DOC, re.MULTILINE) == [str(policy) for policy in DdlPolicy]
    refused = DOC[DOC.index("### What cannot be ignored") : DOC.index("### What an ignored")]
    assert set(re.findall(r"`([a-z-]+)`", refused)) == set(NEVER_IGNORED)
    assert all(f"`{group}`" in DOC for group in GROUPS)


def test_the_example_is_taken() -> None:
    example = DOC[DOC.index("```toml") + 7 : DOC.index("```\n", DOC.index("```toml") + 7)]
    policy = DdlRules.model_validate(tomllib.loads(example)["consumer"]["ddl"]).policy_of(False)
    assert policy(Action.DROP_TABLE, TableName("shop", "orders")) is DdlPolicy.RENAME
    assert policy(Action.DROP_SCHEMA, TableName("shop", "")) is DdlPolicy.RENAME
    assert policy(Action.DROP_TABLE, TableName("shop", "tmp_1")) is DdlPolicy.EVOLVE
    assert policy(Action.ADD_INDEX, TableName("x", "y")) is DdlPolicy.IGNORE
