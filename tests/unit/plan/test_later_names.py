"""Which names a table will have, as the pending RENAMEs tell."""

from collections.abc import Sequence

from consumer.model.actions import Action
from consumer.model.files import SchemaFile
from consumer.model.names import TableName
from consumer.model.progress import Progress
from consumer.plan.catalog import Catalog
from consumer.plan.timeline import LaterName, LaterNames, Timeline, build_timeline
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
    assert _names([_rename("a", "b", 2)]).now == {A: (LaterName(B, 2),)}
    assert _names([schema_file("d.a", 1), _rename("a", "b", 2)]).now == {}


def _rename(old: str, new: str, version: int) -> SchemaFile:
    query = f"RENAME TABLE `d`.`{old}` TO `d`.`{new}`"
    return schema_file(f"d.{new}", version, Action.RENAME_TABLE, query)


def _timeline(files: Sequence[SchemaFile]) -> Timeline:
    return build_timeline(Catalog.of(files), Progress(), 100, lambda name: True)


def _names(files: Sequence[SchemaFile]) -> LaterNames:
    timeline = _timeline(files)
    return LaterNames(timeline.history, timeline.pending)


def _after(files: Sequence[SchemaFile]) -> list[dict[TableName, Sequence[LaterName]]]:
    """The later names after each of the statements."""
    timeline = _timeline(files)
    names = LaterNames(timeline.history, timeline.pending)
    return [dict(names.after(statement)) for statement in timeline.pending]
