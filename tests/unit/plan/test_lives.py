"""Whose life a name has, behind statements that move tables."""

from __future__ import annotations

from consumer.model.actions import Action
from consumer.model.files import SchemaFile
from consumer.model.names import TableName
from consumer.plan.lives import lives
from tests.support.build import schema_file

A, B = TableName("d", "a"), TableName("d", "b")


def renamed(old: str, new: str, version: int) -> tuple[SchemaFile, TableName]:
    query = f"RENAME TABLE `d`.`{old}` TO `d`.`{new}`"
    return schema_file(f"d.{new}", version, Action.RENAME_TABLE, query), TableName("d", old)


def test_tables_that_change_names_in_one_statement_keep_their_lives_though_no_statement_names_one_before() -> None:
    made = schema_file("d.a", 10, Action.CREATE_TABLE, "CREATE TABLE `a` (`id` INT PRIMARY KEY)")
    moves = [renamed("a", "b", 12), renamed("b", "a", 12)]
    for order in (moves, moves[::-1]):
        found = lives([made, *(file for file, _ in order)], {file.path: old for file, old in order})
        assert (found[B].birth, found[B].names) == (made, [A, B])
        assert (found[A].birth, found[A].names) == (None, [B, A])


def test_a_table_that_passes_through_another_name_in_one_statement_keeps_its_life() -> None:
    made = [
        schema_file(f"d.{table}", version, Action.CREATE_TABLE, f"CREATE TABLE `{table}` (`id` INT PRIMARY KEY)")
        for version, table in ((10, "a"), (11, "b"))
    ]
    order = [renamed("a", "x", 12), renamed("b", "a", 12), renamed("x", "b", 12)]
    found = lives([*made, *(file for file, _ in order)], {file.path: old for file, old in order})
    assert {name: (life.birth, life.names) for name, life in found.items()} == {
        A: (made[1], [B, A]),
        B: (made[0], [A, TableName("d", "x"), B]),
    }
