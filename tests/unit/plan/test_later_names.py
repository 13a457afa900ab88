"""Which names a table will have, as the pending RENAMEs tell."""

from collections.abc import Sequence

from consumer.model.actions import Action
from consumer.model.files import SchemaFile
from consumer.model.names import TableName
from consumer.model.progress import Progress
from consumer.plan.catalog import Catalog
from consumer.plan.later_names import LaterName, LaterNames
from consumer.plan.statement import Statement
from consumer.plan.timeline import build_timeline
from tests.support.build import schema_file

A, B, C = (TableName("d", name) for name in "abc")


def test_a_table_goes_on_under_each_of_its_later_names() -> None:
    names = _after([schema_file("d.a", 1), _rename("a", "b", 2), _rename("b", "c", 3)])
    assert names == [{A: (LaterName(B, 2), LaterName(C, 3))}, {B: (LaterName(C, 3),)}, {}]


def test_only_the_table_that_has_the_name_then_is_renamed() -> None:
    drop = schema_file("d.a", 2, Action.DROP_TABLE, "DROP TABLE `d`.`a`")
    names = _after([schema_file("d.a", 1), drop, schema_file("d.a", 3), _rename("a", "b", 4), schema_file("d.a", 5)])
    assert names == [{}, {}, {A: (LaterName(B, 4),)}, {}, {}]


def test_a_table_that_no_pending_statement_makes_has_later_names_now() -> None:
    assert LaterNames(_pending([_rename("a", "b", 2)])).now == {A: (LaterName(B, 2),)}
    assert LaterNames(_pending([schema_file("d.a", 1), _rename("a", "b", 2)])).now == {}


def _rename(old: str, new: str, version: int) -> SchemaFile:
    query = f"RENAME TABLE `d`.`{old}` TO `d`.`{new}`"
    return schema_file(f"d.{new}", version, Action.RENAME_TABLE, query)


def _pending(files: Sequence[SchemaFile]) -> tuple[Statement, ...]:
    return build_timeline(Catalog.of(files), Progress(), 100, lambda name: True).pending


def _after(files: Sequence[SchemaFile]) -> list[dict[TableName, Sequence[LaterName]]]:
    """The later names after each of the statements."""
    pending = _pending(files)
    names = LaterNames(pending)
    return [dict(names.after(statement)) for statement in pending]
