"""The unique keys that a table's statements declare, for targets that keep none themselves."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from consumer.ddl.definitions import ColumnDefinition, Index, Member, Statement, statement_of
from consumer.ddl.index_names import automatic_name
from consumer.ddl.lineage import Origin, state_after
from consumer.ddl.references import name_at, skip_if_exists
from consumer.ddl.tokens import Tokens, starts
from consumer.model.files import SchemaFile


@dataclass(slots=True)
class _Keys:
    """The indexes of one table, by lower-case name; None: one that is no key (not unique, a prefix, an expression).
    Column names are lower case. `guessed` are indexes whose names were TiDB's to choose, `virtual` the columns that
    rows do not carry. `created`: all of the table's indexes are known, from its CREATE TABLE on."""

    indexes: dict[str, tuple[str, ...] | None] = field(default_factory=dict)
    guessed: set[str] = field(default_factory=set)
    virtual: set[str] = field(default_factory=set)
    created: bool = False

    def add(self, index: Index, reserved: Collection[str] = ()) -> None:
        """Take an index in; one without a name gets TiDB's, around the names that are taken or `reserved`."""
        if index.kind == "PRIMARY":
            return
        whole = all(part.column is not None and not part.prefix for part in index.parts)
        key = tuple((part.column or "").lower() for part in index.parts)
        self._put(index.name, index.stem, key if index.kind == "UNIQUE" and whole and key else None, reserved)

    def add_column(self, column: ColumnDefinition, reserved: Collection[str] = ()) -> None:
        if column.has("AS", "(") and not column.has("STORED"):
            self.virtual.add(column.name.lower())
        if column.has("UNIQUE"):
            self._put(None, column.name, (column.name.lower(),), reserved)

    def _put(self, name: str | None, stem: str, key: tuple[str, ...] | None, reserved: Collection[str]) -> None:
        given = name or automatic_name(stem, {*self.indexes, *reserved})
        self.indexes[given.lower()] = key
        if name is None:
            self.guessed.add(given.lower())

    def drop(self, index: str) -> None:
        """Where the name is not known, one of the guessed names is wrong: none of those keys can be relied on."""
        if index in self.indexes:
            del self.indexes[index]
            return
        for name in self.guessed & set(self.indexes):
            self.indexes[name] = None

    def rename_index(self, old: str, new: str) -> None:
        if old not in self.indexes:
            self.drop(old)
            return
        self.indexes = {(new if name == old else name): key for name, key in self.indexes.items()}
        self.guessed.discard(old)

    def drop_column(self, column: str) -> None:
        for name, key in self.indexes.items():
            self.indexes[name] = None if key and column in key else key
        self.virtual.discard(column)

    def rename_columns(self, new_names: Mapping[str, str]) -> None:
        for name, key in self.indexes.items():
            self.indexes[name] = key and tuple(new_names.get(column, column) for column in key)
        self.virtual = {new_names.get(column, column) for column in self.virtual}


def unique_keys(history: Sequence[SchemaFile], origin: Origin) -> tuple[tuple[str, ...], ...]:
    """The NOT NULL unique keys (column names, the primary key left out) of the table that `history` describes.

    `history` are a table's schema files by version. Keys with the fewest columns come first, then in the order of their
    making. A key that the statements do not state beyond doubt is not in the answer.
    """
    columns = next((file.columns for file in reversed(history) if file.columns), ())
    keys = state_after(history, origin, _Keys, _execute)
    required = {column.name.lower(): column for column in columns if not column.nullable}
    found = [
        tuple(required[column].name for column in key)
        for key in keys.indexes.values()
        if key and all(column in required and column not in keys.virtual for column in key)
    ]
    return tuple(sorted(dict.fromkeys(found), key=len))


def declared_indexes(history: Sequence[SchemaFile], origin: Origin) -> frozenset[str | frozenset[str]] | None:
    """Every index of the table that `history` describes: its name, and of a unique one the set of its columns, all in
    lower case. None where the statements do not begin with its CREATE TABLE."""
    keys = state_after(history, origin, _Keys, _execute)
    return frozenset([*keys.indexes, *map(frozenset, filter(None, keys.indexes.values()))]) if keys.created else None


def _execute(keys: _Keys, file: SchemaFile) -> _Keys:
    statement = statement_of(file.query)
    keys.created |= statement.kind == "CREATE TABLE"
    if statement.kind in ("CREATE TABLE", "CREATE INDEX"):
        _define(keys, statement)
    elif statement.kind == "DROP INDEX":
        keys.drop(_name(statement.tokens, 2).lower())
    elif statement.is_alter:
        _alter(keys, statement)
    return keys


def _define(keys: _Keys, statement: Statement) -> None:
    """TiDB first looks at the names that were given, and takes a table's own indexes before its columns'."""
    indexes = statement.indexes()
    reserved = [index.name.lower() for index in indexes if index.name]
    for index in indexes:
        keys.add(index, reserved)
    for column in statement.columns():
        keys.add_column(column, reserved)


def _alter(keys: _Keys, statement: Statement) -> None:
    keys.rename_columns(dict(_renamed_columns(statement.members)))
    for member in statement.members:
        tokens = member.tokens
        if any(starts(tokens, "DROP", noun) for noun in ("INDEX", "KEY")):
            keys.drop(_name(tokens, 2).lower())
        elif any(starts(tokens, "RENAME", noun) for noun in ("INDEX", "KEY")):
            at = skip_if_exists(tokens, 2)
            keys.rename_index(_name(tokens, 2).lower(), _name(tokens, at + 2).lower())
        elif starts(tokens, "DROP", "COLUMN"):
            keys.drop_column(_name(tokens, 2).lower())
    _define(keys, statement)


def _renamed_columns(members: Sequence[Member]) -> Iterator[tuple[str, str]]:
    for member in members:
        tokens = member.tokens
        if starts(tokens, "RENAME", "COLUMN"):
            yield _name(tokens, 2).lower(), _name(tokens, 4).lower()
        elif starts(tokens, "CHANGE"):
            at = skip_if_exists(tokens, 1 + starts(tokens, "COLUMN", at=1))
            yield _name(tokens, at).lower(), _name(tokens, at + 1).lower()


def _name(tokens: Tokens, at: int) -> str:
    """The name at position `at`, behind an ``IF EXISTS``; "" for none."""
    name, _ = name_at(tokens, skip_if_exists(tokens, at), "table")
    return name.table if name else ""
