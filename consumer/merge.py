"""Changes that Spark has read, merged into a table of one's own: ``from consumer.merge import merge_into``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from consumer.errors import BadConfig, CannotBeExact, ConsumerError
from consumer.model.names import same_name, same_names
from consumer.source.columns import COMMIT_TS, META_COLUMNS, NOTES, OP, ROW, SEQ
from consumer.source.reading import with_hint_in_message

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["merge_into"]


def merge_into(changes: DataFrame, table: str) -> None:
    """Apply changes of one upstream table, as the format ``ticdc`` reads them, to a Delta or Iceberg table: the last
    change of each key writes its row, or deletes it. All of them are one MERGE, and so one commit. The same changes
    applied once more leave the same rows, so a batch that a streaming query repeats does no harm.

    `changes` is what `foreachBatch` gives; `table` is a name, or a path as SQL writes it. The table
    has the columns of the changes by name. It may have ``_op``, ``_commit_ts``, ``_commit_time``, ``_version`` and
    ``_seq`` too. Its other columns keep their values.

    Raises BadConfig where the changes do not have the table's key, or the table lacks a column of them; CannotBeExact
    where a statement among the changes took rows away or moved the key, which no change shows.
    """
    try:
        _merge(changes, table)
    except ConsumerError as error:
        raise with_hint_in_message(error) from error


def _merge(changes: DataFrame, table: str) -> None:
    import pyspark.sql.functions as F  # noqa: N812 - as all who use PySpark call it

    notes, key = _key(changes)
    columns = [_quoted(name) for name in _columns(changes, table)]
    row = F.max_by(F.struct(*map(_quoted, changes.columns)), SEQ).alias("row")
    moments = F.min(COMMIT_TS).alias("first"), F.max(COMMIT_TS).alias("last")
    rows = changes.groupBy(*map(_quoted, key)).agg(row, *moments).persist()
    try:
        without_key = F.count_if(F.expr(" OR ".join(f"{_quoted(name)} IS NULL" for name in key)))
        ((first, last, unknown),) = rows.agg(F.min("first"), F.max("last"), without_key).collect()
        if first is None:
            return
        if unknown:
            raise CannotBeExact(
                f"{unknown} keys have a day of no calendar, which is NULL here",
                hint="read the changes with zero-dates = error",
                table=notes["table"],
            )
        _check_statements(notes, first, last)
        changes.sparkSession.sql(
            f"MERGE INTO {table} AS t USING {{rows}} AS c"
            f" ON {' AND '.join(f't.{_quoted(name)} = c.{_quoted(name)}' for name in key)}"
            f" WHEN MATCHED AND c.{OP} = 'D' THEN DELETE"
            f" WHEN MATCHED THEN UPDATE SET {', '.join(f't.{name} = c.{name}' for name in columns)}"
            f" WHEN NOT MATCHED AND c.{OP} <> 'D' THEN INSERT ({', '.join(columns)})"
            f" VALUES ({', '.join(f'c.{name}' for name in columns)})",
            rows=rows.select("row.*"),
        )
    finally:
        rows.unpersist()


def _key(changes: DataFrame) -> tuple[Mapping[str, Any], list[str]]:
    """What the format says of the changed table, and the columns of its key. Raises BadConfig."""
    notes: dict[str, Mapping[str, Any]] = {field.name: field.metadata.get(NOTES, {}) for field in changes.schema}
    if ROW in notes:
        raise BadConfig("the changes are of several tables", hint="read each table by itself, with the option table")
    if not notes.get(OP) or SEQ not in notes or COMMIT_TS not in notes:
        raise BadConfig(
            f"the DataFrame has no changes as the format ticdc reads them, with {OP}, {SEQ} and {COMMIT_TS}",
            hint="read in the mode changes, and leave these columns as they are",
        )
    of_table = notes[OP]
    key = [name for name, note in notes.items() if note.get("key")]
    if not of_table["key_columns"]:
        raise BadConfig("the table has no key, so a change does not say which row it is of", table=of_table["table"])
    if len(key) < of_table["key_columns"]:
        raise BadConfig("columns of the table's key were left out", hint="read them too", table=of_table["table"])
    return of_table, key


def _columns(changes: DataFrame, table: str) -> Sequence[str]:
    """Those that are written. Raises BadConfig."""
    has = same_names(changes.sparkSession.table(table).columns)
    if lacks := [name for name in changes.columns if same_name(name) not in has and name not in META_COLUMNS]:
        raise BadConfig(
            f"{table} has no column {', '.join(lacks)}",
            hint="add it as the upstream's statement did, also to the rows that are there, whose value is its DEFAULT;"
            " or leave it out of the changes",
        )
    return [name for name in changes.columns if same_name(name) in has]


def _check_statements(notes: Mapping[str, Any], first: int, last: int) -> None:
    """Raises CannotBeExact where changes from `first` to `last` do not say all that became of the rows."""
    start = max(notes["from"], notes["accept_moved_rows"])
    moved = [version for version in notes["moved_rows"] if min(start, first) < version <= last]
    if moved:
        raise CannotBeExact(
            f"the statement of version {moved[0]} took rows away, or brought some, and no change shows which",
            hint=f"merge the changes before it (to-ts {moved[0] - 1}), execute it in your table, then merge those after"
            f" it (from-ts {moved[0]})",
            table=notes["table"],
        )
    if first <= notes["other_key_until"]:
        raise CannotBeExact(
            f"the table had another key up to {notes['other_key_until']}",
            hint="write its state of then or later (mode state), and merge the changes after that (from-ts)",
            table=notes["table"],
        )


def _quoted(name: str) -> str:
    return f"`{name.replace('`', '``')}`"
