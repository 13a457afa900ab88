"""The unique keys that a table's statements declare, for targets that keep none themselves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from consumer.ddl.definitions import Statement, statement_of
from consumer.ddl.indexes import after, renamed_columns
from consumer.ddl.lineage import Origin, state_after
from consumer.model.columns import Column
from consumer.model.files import SchemaFile
from consumer.model.indexes import UNTOLD, TableIndexes


@dataclass(frozen=True, slots=True)
class DeclaredKeys:
    """What a table's statements declare of its keys. `virtual` are the columns that rows do not carry, in lower
    case."""

    known: TableIndexes = UNTOLD
    virtual: frozenset[str] = frozenset()

    def unique(self, columns: Sequence[Column]) -> tuple[tuple[str, ...], ...]:
        """The NOT NULL unique keys (column names, the primary key left out) of a table that has `columns`.

        Keys with the fewest columns come first, then in the order of their making. A key that the statements do not
        state beyond doubt is not in the answer.
        """
        required = {column.name.lower(): column for column in columns if not column.nullable}
        found = [
            tuple(required[column].name for column in index.columns)
            for index in self.known.indexes
            if index.kind == "UNIQUE" and index.columns and not index.doubtful
            if all(column in required and column not in self.virtual for column in index.columns)
        ]
        return tuple(sorted(dict.fromkeys(found), key=len))

    @property
    def indexes(self) -> frozenset[str | frozenset[str]] | None:
        """Every index: its name, and of a unique one the set of its columns, all in lower case. None where the
        statements do not begin with the table's CREATE TABLE."""
        if not self.known.whole:
            return None
        names = (index.name.lower() for index in self.known.indexes if index.kind != "PRIMARY")
        return frozenset([*names, *self.told_unique])

    @property
    def told_unique(self) -> frozenset[frozenset[str]]:
        """The column sets, in lower case, of the unique indexes that the statements tell beyond doubt."""
        unique = (index for index in self.known.indexes if index.kind == "UNIQUE" and not index.doubtful)
        return frozenset(frozenset(index.columns) for index in unique if index.columns)


def declared_keys(history: Sequence[SchemaFile], origin: Origin) -> DeclaredKeys:
    """Of the table that `history`, its schema files by version, describes. See `lineage.state_after`."""
    return state_after(history, origin, DeclaredKeys, _execute)


def _execute(keys: DeclaredKeys, file: SchemaFile) -> DeclaredKeys:
    statement = statement_of(file.query)
    return DeclaredKeys(after(keys.known, file.query, file.version), _virtual_after(keys.virtual, statement))


def _virtual_after(virtual: frozenset[str], statement: Statement) -> frozenset[str]:
    names = dict(renamed_columns(statement.members))
    made = {column.name.lower() for column in statement.columns if column.has("AS", "(") and not column.has("STORED")}
    plain = {column.name.lower() for column in statement.columns} - made
    return frozenset({names.get(name, name) for name in virtual} - plain | made)
