"""A table's life: the statement that made it, the names that it has had, and what has been done to it since.

A name can have had several tables, one after the other. Whoever makes a table anew, or says where its rows begin, asks
here which of them it is, and whether the storage holds it from its beginning.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from consumer.ddl.references import exchange_table, like_source
from consumer.model.actions import CREATE_ACTIONS, DROP_ACTIONS, RENAME_ACTIONS, Action
from consumer.model.files import SchemaFile
from consumer.model.names import MAX_TSO, TableName
from consumer.plan.catalog import Catalog
from consumer.plan.statement import action_of


@dataclass(slots=True)
class Life:
    """One table. `birth` is the statement that made it, None for one that is older than the changefeed; `names` are
    those that it has had, the last is its own now, and `since` the versions that gave them (0: older than the
    changefeed); `statements` are about it, the birth among them."""

    birth: SchemaFile | None
    names: list[TableName]
    since: list[int]
    statements: list[SchemaFile] = field(default_factory=list)

    @property
    def not_anew(self) -> str | None:
        """Why the storage alone cannot make this table again with all its rows, None where it can."""
        if self.birth is None:
            return "the storage holds no CREATE TABLE for it: the table is older than the changefeed"
        if self.birth.type == Action.RECOVER_TABLE:
            return f"it came back with rows that TiCDC does not write again ({self.birth.query})"
        if len(self.names) > 1:
            return f"it began under another name, {self.names[0]}, so its rows are not all under this one"
        if like_source(self.birth.query) is not None:
            return f"it began as a copy of a table that may have changed since ({self.birth.query})"
        return None


def lives(files: Iterable[SchemaFile], origins: Mapping[str, TableName]) -> dict[TableName, Life]:
    """The tables that exist after `files`, which are in upstream order, by name. `origins` is the timeline's."""
    alive: dict[TableName, Life] = {}
    for file in files:
        _follow(alive, file, origins.get(file.path))
    return alive


def all_lives(files: Iterable[SchemaFile], origins: Mapping[str, TableName]) -> list[Life]:
    """The tables that there ever were up to the end of `files`, also those that are gone."""
    alive: dict[TableName, Life] = {}
    found: dict[int, Life] = {}
    for file in files:
        _follow(alive, file, origins.get(file.path))
        if (life := alive.get(file.name)) is not None:
            found[id(life)] = life
    return list(found.values())


def lives_at(
    moments: Mapping[TableName, int], files: Iterable[SchemaFile], origins: Mapping[str, TableName]
) -> Iterator[tuple[TableName, Life]]:
    """The tables that had the names of `moments` at these versions. A life is as it was then only until the next one is
    asked for."""
    waiting = deque(sorted(moments.items(), key=lambda moment: moment[1]))
    alive: dict[TableName, Life] = {}

    def reached(version: int) -> Iterator[tuple[TableName, Life]]:
        while waiting and waiting[0][1] < version:
            name, _ = waiting.popleft()
            if name in alive:
                yield name, alive[name]

    for file in files:
        yield from reached(file.version)
        _follow(alive, file, origins.get(file.path))
    yield from reached(MAX_TSO)


def exchanges(catalog: Catalog, life: Life, checkpoint: int) -> Iterable[SchemaFile]:
    """The statements up to `checkpoint` that moved rows between the table and another's files."""
    own = {(name.database.lower(), name.table.lower()) for name in life.names}
    since = life.birth.version if life.birth is not None else 0
    for file in catalog.files:
        if file.type != Action.EXCHANGE_PARTITION or not file.query or not since < file.version <= checkpoint:
            continue
        other = exchange_table(file.query)
        moved = [(file.database, file.table)] + ([(other.database or file.database, other.table)] if other else [])
        if not own.isdisjoint((database.lower(), table.lower()) for database, table in moved):
            yield file


def _follow(alive: dict[TableName, Life], file: SchemaFile, origin: TableName | None) -> None:
    action, name = action_of(file), file.name
    if action == Action.DROP_SCHEMA:
        for gone in [table for table in alive if table.database == file.database]:
            del alive[gone]
    elif action in DROP_ACTIONS:
        alive.pop(name, None)
    elif action in RENAME_ACTIONS and file.query:
        older = Life(None, [origin], [0]) if origin is not None else Life(None, [], [])
        life = alive.pop(origin, older) if origin is not None else older
        life.names.append(name)
        life.since.append(file.version)
        life.statements.append(file)
        alive[name] = life
    elif action in CREATE_ACTIONS:
        alive[name] = Life(file, [name], [file.version], [file])
    elif name.table:
        life = alive.setdefault(name, Life(None, [name], [0]))
        if file.query:
            life.statements.append(file)
