"""The formats of the progress schema, and what each brought: the same on every target that speaks SQL.

`acquire` brings an older layout forward, step by step; `status` and `plan` read it as it is. To change the layout
(raise FORMAT_VERSION in consumer/model/progress.py first, unless no release has the present one yet):

1. Put the table or column into progress_layout.py. A new column is the last of its table, and on a server its
   definition (mysql/progress/schema.py) has a DEFAULT unless the type's own empty value ('' or 0) is right for rows
   that are there.
2. Name a new column in ADDED below, with what it is in rows that were there before, as SQL. That is all that a new
   column needs: the step adds it, and whoever reads an older layout gets that value. A new table needs no line.
3. Anything else (an index, another type, values that are computed) is a line in `_to_N` of both targets' migrate.py.
   On a server each statement commits by itself, and a step that was cut short runs again from its beginning: a
   line must do nothing where its work is done already.
4. Have tests/contract/test_progress_formats.py see it. It holds a migrated schema equal to a new one.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from consumer.errors import BadConfig
from consumer.model.progress import FORMAT_VERSION
from consumer.model.times import MAX_TSO
from consumer.sink.progress_layout import SCHEMA

ADDED: Mapping[int, Mapping[tuple[str, str], str]] = {
    2: {
        ("consumer", "written_by"): "''",
        ("consumer", "time_zone"): "''",
        ("consumer", "routes"): "''",
        ("consumer", "modes"): "''",
        ("consumer", "filters"): "''",
        ("consumer", "starts"): "''",
        ("folder_progress", "index_stamp"): "''",
        ("folder_progress", "first_ts"): "0",
        ("folder_progress", "last_ts"): str(MAX_TSO),
        ("folder_progress", "gone_ts"): "0",
    },
}
"""Format -> (table, column) -> what it is, as SQL, in rows that are older."""

Layout = Collection[tuple[str, str]]
"""The (table, column) pairs that a schema has."""


def readable(layout: Layout, table: str, columns: str) -> str | None:
    """`columns`, as in a SELECT list, with those that `layout` lacks as what they are in its rows; None where it lacks
    the table."""
    if not any(name == table for name, _ in layout):
        return None
    older = {key: value for brought in ADDED.values() for key, value in brought.items()}
    names = columns.split(", ")
    return ", ".join(name if (table, name) in layout else older[table, name] for name in names)


def damaged(why: str) -> BadConfig:
    """The error of progress that no release has left so: somebody changed it by hand."""
    return BadConfig(
        f"the progress in the target is not as any release leaves it: {why}",
        hint=f"put {SCHEMA} back as it was, with the tables of the same moment, from a backup of the target; or fill an"
        " empty target",
    )


def check_format(found: int, written_by: str) -> None:
    """Raises BadConfig for progress that a later release wrote."""
    if found > FORMAT_VERSION:
        raise BadConfig(
            f"the progress in the target has format {found}, written by release {written_by}; "
            f"this release reads formats up to {FORMAT_VERSION}",
            hint=f"run release {written_by} or a later one",
        )
