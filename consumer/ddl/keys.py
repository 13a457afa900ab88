"""The unique keys that a table's statements declare, for targets that keep none themselves."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from consumer.ddl.definitions import Statement, statement_of
from consumer.ddl.indexes import after, renamed_columns
from consumer.ddl.lineage import Origin, state_after
from consumer.model.files import SchemaFile
from consumer.model.indexes import UNTOLD, TableIndexes


@dataclass(frozen=True, slots=True)
class _Keys:
    """`virtual` are the columns that rows do not carry, in lower case."""

    indexes: TableIndexes = UNTOLD
    virtual: frozenset[str] = frozenset()


def unique_keys(history: Sequence[SchemaFile], origin: Origin) -> tuple[tuple[str, ...], ...]:
    """The NOT NULL unique keys (column names, the primary key left out) of the table that `history` describes.

    `history` are a table's schema files by version. Keys with the fewest columns come first, then in the order of their
    making. A key that the statements do not state beyond doubt is not in the answer.
    """
    columns = next((file.columns for file in reversed(history) if file.columns), ())
    keys = state_after(history, origin, _Keys, _execute)
    required = {column.name.lower(): column for column in columns if not column.nullable}
    found = [
        tuple(required[column].name for column in index.columns)
        for index in keys.indexes.indexes
        if index.kind == "UNIQUE" and index.columns and not index.doubtful
        if all(column in required and column not in keys.virtual for column in index.columns)
    ]
    return tuple(sorted(dict.fromkeys(found), key=len))


def declared_indexes(history: Sequence[SchemaFile], origin: Origin) -> frozenset[str | frozenset[str]] | None:
    """Every index of the table that `history` describes: its name, and of a unique one the set of its columns, all in
    lower case. None where the statements do not begin with its CREATE TABLE."""
    known = state_after(history, origin, _Keys, _execute).indexes
    if not known.whole:
        return None
    names = (index.name.lower() for index in known.indexes if index.kind != "PRIMARY")
    return frozenset([*names, *_told_unique(known)])


def told_unique(history: Sequence[SchemaFile], origin: Origin) -> frozenset[frozenset[str]]:
    """The column sets, in lower case, of the unique indexes that the statements in `history` tell beyond doubt."""
    return frozenset(_told_unique(state_after(history, origin, _Keys, _execute).indexes))


def _told_unique(known: TableIndexes) -> Iterator[frozenset[str]]:
    unique = (index for index in known.indexes if index.kind == "UNIQUE" and not index.doubtful)
    return (frozenset(index.columns) for index in unique if index.columns)


def _execute(keys: _Keys, file: SchemaFile) -> _Keys:
    statement = statement_of(file.query)
    return _Keys(after(keys.indexes, file.query, file.version), _virtual_after(keys.virtual, statement))


def _virtual_after(virtual: frozenset[str], statement: Statement) -> frozenset[str]:
    names = dict(renamed_columns(statement.members))
    made = {column.name.lower() for column in statement.columns() if column.has("AS", "(") and not column.has("STORED")}
    plain = {column.name.lower() for column in statement.columns()} - made
    return frozenset({names.get(name, name) for name in virtual} - plain | made)
