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


def test_tables_that_change_names_in_one_statement_keep_their_lives() -> None:
    made = [
        schema_file(f"d.{table}", version, Action.CREATE_TABLE, f"CREATE TABLE `{table}` (`id` INT PRIMARY KEY)")
        for version, table in ((10, "a"), (11, "b"))
    ]
    beside = [renamed("a", "b", 12), renamed("b", "a", 12)]
    through_another = [renamed("a", "x", 12), renamed("b", "a", 12), renamed("x", "b", 12)]
    for order in (beside, beside[::-1], through_another):
        found = lives([*made, *(file for file, _ in order)], {file.path: old for file, old in order})
        assert {name: life.birth for name, life in found.items()} == {B: made[0], A: made[1]}
        assert (found[A].names, found[B].names[0]) == ([B, A], A)
