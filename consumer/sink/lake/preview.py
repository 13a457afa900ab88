"""Shows what statements would do to a lake, as text. Changes nothing."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from datetime import tzinfo
from functools import partial

from consumer.errors import DdlRefused
from consumer.model.layout import Layout
from consumer.model.names import TableName
from consumer.model.steps import ApplyDdl, TargetDdl
from consumer.sink.columnar.statements import TableOperations
from consumer.sink.lake.formats import layout_clauses
from consumer.sink.lake.progress import LakeTable
from consumer.sink.lake.statements import alteration_in_place, ends_rows, lake_replica, moved_tables, plan_operations
from consumer.sink.lake.types import column_definition, spark_name


def previewed(
    steps: Sequence[ApplyDdl],
    lake_tables: Mapping[TableName, LakeTable],
    zone: tzinfo,
    layout: Callable[[ApplyDdl, LakeTable], Layout],
    fixed: Callable[[str], Collection[str]],
) -> list[TargetDdl]:
    """Returns the answer for each step, after the steps before it. Where rows decide, it assumes that there are some.
    `fixed` returns the columns by which the table at a location is laid out."""
    tables, answers = dict(lake_tables), []
    for step in steps:
        try:
            done = plan_operations(step, tables, zone, filled=True)
            answers.append(TargetDdl(tuple(_described(step, done, tables, layout, fixed)), done.note))
        except DdlRefused as error:
            answers.append(TargetDdl(error=error.message))
    return answers


def _described(
    step: ApplyDdl,
    done: TableOperations,
    tables: dict[TableName, LakeTable],
    layout: Callable[[ApplyDdl, LakeTable], Layout],
    fixed: Callable[[str], Collection[str]],
) -> Iterator[str]:
    """Yields the statements as text, and applies the step to `tables`."""
    if ends_rows(step):
        yield f"ends the rows of {spark_name(step.name.database)}.{spark_name(step.name.table)}"
        return
    before, moved = dict(tables), moved_tables(step, done, tables)
    for name, replica in done.changed_tables.items():
        written = f"{spark_name(name.database)}.{spark_name(name.table)}"
        if replica is None:
            tables.pop(name.folded, None)
            if not moved:
                yield f"DROP TABLE {written}"
            continue
        old = before.get(name.folded)
        table = LakeTable(lake_replica(replica, old), old.location if old is not None else "")
        tables[name.folded] = table
        if name in moved:
            source = moved[name].replica.name
            yield f"ALTER TABLE {spark_name(source.database)}.{spark_name(source.table)} RENAME TO {written}"
        elif old is None or done.moved is not None:
            columns = ", ".join(map(column_definition, table.columns))
            yield f"CREATE TABLE {written} ({columns}){layout_clauses(layout(step, table))}"
        elif done.emptied:
            yield f"DELETE FROM {written}"
        else:
            alteration = alteration_in_place(done.columns or (), old, table, partial(fixed, table.location))
            for clause in alteration.clauses() if alteration is not None else ():
                yield f"ALTER TABLE {written} {clause}"
            if alteration is None:
                yield f"writes the rows of {written} anew, as ({', '.join(map(column_definition, table.columns))})"
