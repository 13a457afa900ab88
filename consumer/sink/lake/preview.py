"""What statements would do to a lake, as text. Nothing is changed."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from datetime import tzinfo
from functools import partial

from consumer.errors import DdlRefused
from consumer.model.layout import Layout
from consumer.model.names import TableName
from consumer.model.steps import ApplyDdl, TargetDdl
from consumer.sink.columnar.statements import Operations
from consumer.sink.lake.formats import laid_out
from consumer.sink.lake.progress import LakeTable
from consumer.sink.lake.statements import ends_rows, in_place, lake_replica, moved_tables, planned
from consumer.sink.lake.types import declared, quoted


def previewed(
    steps: Sequence[ApplyDdl],
    there: Mapping[TableName, LakeTable],
    zone: tzinfo,
    layout: Callable[[ApplyDdl, LakeTable], Layout],
    fixed: Callable[[str], Collection[str]],
) -> list[TargetDdl]:
    """Each behind those before it. Where rows decide, as if there were some. `fixed` tells by which columns the table
    of a place is laid out."""
    tables, answers = dict(there), []
    for step in steps:
        try:
            done = planned(step, tables, zone, filled=True)
            answers.append(TargetDdl(tuple(_told(step, done, tables, layout, fixed)), done.note))
        except DdlRefused as error:
            answers.append(TargetDdl(error=error.message))
    return answers


def _told(
    step: ApplyDdl,
    done: Operations,
    tables: dict[TableName, LakeTable],
    layout: Callable[[ApplyDdl, LakeTable], Layout],
    fixed: Callable[[str], Collection[str]],
) -> Iterator[str]:
    """Also follows what it does in `tables`."""
    if ends_rows(step):
        yield f"ends the rows of {quoted(step.name.database)}.{quoted(step.name.table)}"
        return
    before, moved = dict(tables), moved_tables(step, done, tables)
    for name, replica in done.there.items():
        written = f"{quoted(name.database)}.{quoted(name.table)}"
        if replica is None:
            tables.pop(name.folded, None)
            if not moved:
                yield f"DROP TABLE {written}"
            continue
        old = before.get(name.folded)
        table = LakeTable(lake_replica(replica, old), old.place if old is not None else "")
        tables[name.folded] = table
        if name in moved:
            source = moved[name].replica.name
            yield f"ALTER TABLE {quoted(source.database)}.{quoted(source.table)} RENAME TO {written}"
        elif old is None or done.moved is not None:
            columns = ", ".join(map(declared, table.columns))
            yield f"CREATE TABLE {written} ({columns}){laid_out(layout(step, table))}"
        elif done.emptied:
            yield f"DELETE FROM {written}"
        else:
            alteration = in_place(done.columns or (), old, table, partial(fixed, table.place))
            for clause in alteration.clauses() if alteration is not None else ():
                yield f"ALTER TABLE {written} {clause}"
            if alteration is None:
                yield f"writes the rows of {written} anew, as ({', '.join(map(declared, table.columns))})"
