"""What planning a round costs as it grows: four times the statements take about four times as many lines of Python."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from types import FrameType
from typing import Any

import pytest

from consumer.model.actions import Action
from consumer.model.files import Bounds, DataFile, Listing, SchemaFile
from consumer.model.load import Dialect
from consumer.model.progress import Progress
from consumer.model.table_rules import Batches
from consumer.plan.assembly import Assembly
from consumer.plan.ddl_step import ddl_step
from consumer.plan.options import FileOptions
from consumer.plan.unread import TableInRound, unread_files
from tests.support.build import data_file, schema_file

SMALL, LARGE = 100, 400
CHECKPOINT = 10**6
Files = dict[str, list[DataFile]]


def new_tables(count: int) -> tuple[list[SchemaFile], Files]:
    schemas = [schema_file(f"d.t{number}", 10 + number) for number in range(count)]
    return schemas, {file.root: [data_file(1, file.root, file.version)] for file in schemas}


def dropped_with_their_database(count: int) -> tuple[list[SchemaFile], Files]:
    schemas, files = new_tables(count)
    return [*schemas, schema_file("d", 10 + count, Action.DROP_SCHEMA, "DROP DATABASE `d`")], files


def older_tables(count: int) -> tuple[list[SchemaFile], Files]:
    """Each is first seen when an earlier statement is pending, which could have named it."""
    comments = [
        schema_file(f"d.t{n}", 10 + n, Action.MODIFY_TABLE_COMMENT, f"ALTER TABLE `t{n}` COMMENT 'x'")
        for n in range(count)
    ]
    return comments, {}


def truncated_again_and_again(count: int) -> tuple[list[SchemaFile], Files]:
    truncates = [schema_file("d.t", 11 + n, Action.TRUNCATE_TABLE, "TRUNCATE TABLE `t`") for n in range(count)]
    return [schema_file("d.t", 10), *truncates], {}


def log_rotation(count: int) -> tuple[list[SchemaFile], Files]:
    schemas = [schema_file("d.log", 10)]
    for n in range(0, count, 2):
        rename = f"RENAME TABLE `d`.`log` TO `d`.`log{n}`"
        schemas += [schema_file(f"d.log{n}", 11 + n, Action.RENAME_TABLE, rename), schema_file("d.log", 12 + n)]
    return schemas, {}


def lines_run(work: Callable[[], None]) -> int:
    """How many lines of Python `work` runs: the same on every machine, whatever else it does."""
    count = 0

    def traced(_frame: FrameType, event: str, _value: object) -> Any:
        nonlocal count
        count += event == "line"
        return traced

    before = sys.gettrace()
    sys.settrace(traced)
    try:
        work()
    finally:
        sys.settrace(before)
    return count


def play(schemas: list[SchemaFile], files: Files) -> None:
    assembly = Assembly.of(Listing(CHECKPOINT, schemas, files), Progress(), lambda name: True)
    assert list(assembly.errors(Progress(), accept_gap=lambda _: False)) == []
    states = {
        name: TableInRound(name, 0, unread_files(assembly.files.get(name, ()), {}), 1 << 30) for name in assembly.tables
    }
    round_ = assembly.round(states, FileOptions(Dialect()), Batches(1 << 30))
    before, ran = -1, 0
    while round_.changes != before:
        before = round_.changes
        for statement in round_.ready_statements():
            ddl_step(statement)
            assert round_.overtaken(statement) == []
            round_.applied(statement)
            ran += 1
        round_.learned({file.path: Bounds(CHECKPOINT, CHECKPOINT, True) for file in round_.wants_bounds()})
        for load in round_.ready_loads():
            round_.loaded(load, {planned.file.path: 0 for planned in load.files})
    assert (ran, list(round_.waiting())) == (len(schemas), [])


@pytest.mark.parametrize(
    "shape", [new_tables, dropped_with_their_database, older_tables, truncated_again_and_again, log_rotation]
)
def test_a_round_costs_as_much_as_there_is_in_it(shape: Callable[[int], tuple[list[SchemaFile], Files]]) -> None:
    small, large = (lines_run(partial(play, *shape(count))) for count in (SMALL, LARGE))
    assert large < 1.5 * small * LARGE / SMALL
