"""Follows foreign keys between tables, as the statements declare them: which statements of the other table must not run
while a key exists, and which tables can no longer be created again because of one. Servers compare the two definitions
even if they check no keys."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator
from itertools import pairwise

from consumer.ddl.changes import statement_changes
from consumer.ddl.tokens import tokenize
from consumer.model.actions import CREATE_ACTIONS, DATABASE_ACTIONS, DROP_ACTIONS, RENAME_ACTIONS, Action
from consumer.model.files import SchemaFile
from consumer.model.names import TableName, same_name
from consumer.plan.catalog import Catalog
from consumer.plan.statement import Statement

_COLUMN_ACTIONS = frozenset({Action.DROP_COLUMN, Action.DROP_COLUMNS, Action.MODIFY_COLUMN})
"""These change the columns that they name."""
_UNFIT_ACTIONS = (
    CREATE_ACTIONS
    | RENAME_ACTIONS
    | _COLUMN_ACTIONS
    | {
        Action.DROP_INDEX,
        Action.DROP_PRIMARY_KEY,
        Action.MODIFY_TABLE_CHARSET,
        Action.MULTI_SCHEMA_CHANGE,
        Action.ALTER_TABLE_PARTITIONING,
    }
)
"""After these the table of a name may no longer have what a foreign key to it needs."""
_REFUSED_ACTIONS = _UNFIT_ACTIONS | {Action.EXCHANGE_PARTITION}
"""These can be refused while another table has a foreign key to the one that they are about."""
_REBUILDING_ACTIONS = frozenset(
    {Action.MODIFY_TABLE_CHARSET, Action.ALTER_TABLE_PARTITIONING, Action.REMOVE_PARTITIONING}
)
_UNTYING_ACTIONS = frozenset({Action.DROP_FOREIGN_KEY, Action.MULTI_SCHEMA_CHANGE})


class ForeignKeys:
    """Records, while the statements are walked in upstream order, which tables have keys to which. If a pending
    statement drops a key, a later one about the other table is refused until then. It may name too many tables: keys
    are not distinguished, and former names of tables stay recorded."""

    def __init__(self) -> None:
        self._made: dict[TableName, list[SchemaFile]] = {}
        self._born: set[TableName] = set()
        self._renames: list[tuple[int, TableName, TableName]] = []
        self._children: defaultdict[TableName, set[TableName]] = defaultdict(set)
        self._unknown: set[TableName] = set()

    def preceding_tables(self, statement: Statement) -> set[TableName]:
        """Returns the tables whose earlier statements the server must have executed, because they drop keys to the
        statement's own table."""
        if not (self._children or self._unknown) or statement.action not in _REFUSED_ACTIONS:
            return set()
        names = statement.touches if statement.action is Action.EXCHANGE_PARTITION else (statement.file.name,)
        children = {child for name in names for child in self._children.get(name.folded, ())}
        if statement.creates is None and not all(name.folded in self._born for name in names):
            children |= self._unknown
        return children - {statement.file.name}

    def follow(self, statement: Statement, pending: bool) -> None:
        """Records the statement. `pending` means that it is still to run."""
        file, action = statement.file, statement.action
        if action in RENAME_ACTIONS:
            self._rename(file, statement.old_name)
        elif action in DROP_ACTIONS or action in DATABASE_ACTIONS:
            for name in statement.drops:
                self._untie(name, pending)
                self._made.pop(name.folded, None)
        elif pending and action in _UNTYING_ACTIONS and "FOREIGN" in file.query.upper():
            self._untie(file.name, pending)
            self._unknown |= set() if file.name.folded in self._born else {file.name}
        if action in CREATE_ACTIONS:
            self._born.add(file.name.folded)
            self._made.pop(file.name.folded, None)
        if "REFERENCES" in file.query.upper():
            self._made.setdefault(file.name.folded, []).append(file)

    def _rename(self, file: SchemaFile, old_name: TableName | None) -> None:
        """Records a rename. Tables can exchange their names in one statement, so nothing of the old name is
        forgotten."""
        if old_name is None:
            return
        old, new = old_name.folded, file.name.folded
        self._renames.append((file.version, old, new))
        self._born |= {new} if old in self._born else set()
        if old in self._made:
            self._made[new] = [*self._made.get(new, ()), *self._made[old]]
        if old in self._children:
            self._children[new] |= self._children[old]

    def _untie(self, name: TableName, pending: bool) -> None:
        for file in self._made.get(name.folded, ()) if pending else ():
            for parent in self._parents(file) - {name.folded}:
                self._children[parent].add(name)

    def _parents(self, file: SchemaFile) -> set[TableName]:
        """Returns the tables to which the statement creates keys, under the names that they had then and since."""
        parents = {other for other, _ in _made_by(file)}
        for version, old, new in self._renames:
            if version > file.version and old in parents:
                parents.add(new)
        return parents


def outgrown_references(
    catalog: Catalog, statements: Iterable[SchemaFile], table: TableName, checkpoint: int
) -> Iterable[tuple[SchemaFile, SchemaFile]]:
    """Returns those of the table's `statements` that create a foreign key to another table, each with a later
    statement, up to `checkpoint`, after which that table may not fit it."""
    made: dict[TableName, tuple[SchemaFile, set[str]]] = {}
    for file in statements:
        for other, columns in _made_by(file):
            if other != table.folded:
                made.setdefault(other, (file, set()))[1].update(columns)
    for file in catalog.files if made else ():
        first, columns = made.get(file.name.folded, (file, set()))
        if not first.version < file.version <= checkpoint or file.action not in _UNFIT_ACTIONS:
            continue
        if file.action not in _COLUMN_ACTIONS or not columns.isdisjoint(_words(file.query)):
            yield first, file


def changed_under_keys(statements: Iterable[SchemaFile], referred: Collection[str]) -> SchemaFile | None:
    """Returns the first of a table's `statements`, those after its birth, that a server may refuse once other tables
    have keys to the columns `referred`, or before which the table did not fit them."""
    for file in statements:
        if file.action in _REBUILDING_ACTIONS or not _words(file.query).isdisjoint(referred):
            return file
    return None


def _made_by(file: SchemaFile) -> Iterator[tuple[TableName, set[str]]]:
    """Yields the tables to which the statement creates keys, with a set of words that includes the names of their
    columns."""
    for reference in statement_changes(file).names if "REFERENCES" in file.query.upper() else ():
        if reference.role == "foreign":
            other = reference.within(file.database).folded
            yield other, _words(file.query[reference.end :])


def _words(text: str) -> set[str]:
    """Returns every name in the text, and words that may be one, except columns after AFTER."""
    places = pairwise(tokenize(text))
    return {same_name(token.name) for before, token in places if token.is_name and before.word != "AFTER"}
