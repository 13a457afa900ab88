"""A table's life: the statement that made it, the names that it has had, and what has been done to it since.

A name can have had several tables, one after the other. Whoever makes a table anew, or says where its rows begin, asks
here which of them it is, and whether the storage holds it from its beginning.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from consumer.ddl.changes import changes_of
from consumer.model.actions import CREATE_ACTIONS, DROP_ACTIONS, RENAME_ACTIONS, Action
from consumer.model.files import SchemaFile
from consumer.model.names import TableName
from consumer.model.progress import Progress
from consumer.model.times import MAX_TSO
from consumer.plan.catalog import Catalog
from consumer.plan.renames import Renames
from consumer.plan.statement import action_of


@dataclass(slots=True, eq=False)
class Life:
    """One table. `birth` is the statement that made it, None for one that is older than the changefeed; `names` are
    those that it has had, the last is its own now, and `since` the versions that gave them (0: older than the
    changefeed); `statements` are about it, the birth among them; `end` is the DROP that took it away."""

    birth: SchemaFile | None
    names: list[TableName]
    since: list[int]
    statements: list[SchemaFile] = field(default_factory=list)
    end: SchemaFile | None = None

    @property
    def is_view(self) -> bool:
        return self.birth is not None and self.birth.type == Action.CREATE_VIEW

    @property
    def not_anew(self) -> str | None:
        """Why the storage alone cannot make this table again with all its rows, None where it can."""
        if self.birth is None:
            return "the storage holds no CREATE TABLE for it: the table is older than the changefeed"
        if self.is_view:
            return "what the target has under this name is a view, without rows of its own"
        if self.birth.type == Action.RECOVER_TABLE:
            return f"it came back with rows that TiCDC does not write again ({self.birth.query})"
        if len(self.names) > 1:
            return f"it began under another name, {self.names[0]}, so its rows are not all under this one"
        if changes_of(self.birth).named("like") is not None:
            return f"it began as a copy of a table that may have changed since ({self.birth.query})"
        return None


def given_at(life: Life, progress: Progress) -> int:
    """The commit-ts at which the target was given just this table; 0 where it was not."""
    times = zip(life.names, life.since, (*life.since[1:], MAX_TSO), strict=True)
    starts = ((progress.starts.get(name, -1), since, end) for name, since, end in times)
    return max((ts for ts, since, end in starts if since <= ts < end), default=0)


class Lives:
    """The tables that exist, by name, as statements are followed in upstream order."""

    def __init__(self) -> None:
        self.alive: dict[TableName, Life] = {}
        self._renames = Renames(self.alive)

    def follow(self, file: SchemaFile, origin: TableName | None) -> Life | None:
        """Take the statement in. The table that it is about, None for a database; `origin` is the one that a RENAME
        moves."""
        action, name = action_of(file), file.name
        if action == Action.DROP_SCHEMA:
            for gone in [table for table in self.alive if table.database == file.database]:
                self.alive.pop(gone).end = file
            return None
        if action in DROP_ACTIONS:
            ended = self.alive.pop(name, None)
            if ended is not None:
                ended.end = file
            return ended
        if action in RENAME_ACTIONS and file.query:
            return self._renamed(file, origin)
        if action in CREATE_ACTIONS:
            self.alive[name] = Life(file, [name], [file.version], [file])
        elif name.table:
            life = self.alive.setdefault(name, Life(None, [name], [0]))
            if file.query:
                life.statements.append(file)
        return self.alive.get(name)

    def _renamed(self, file: SchemaFile, origin: TableName | None) -> Life:
        life = self._renames.take(origin, file.name, file.version)
        if life is None:
            life = Life(None, [], []) if origin is None else Life(None, [origin], [0])
        life.names.append(file.name)
        life.since.append(file.version)
        life.statements.append(file)
        self.alive[file.name] = life
        return life


def lives(files: Iterable[SchemaFile], origins: Mapping[str, TableName]) -> dict[TableName, Life]:
    """The tables that exist after `files`, which are in upstream order, by name. `origins` is the timeline's."""
    found = Lives()
    for file in files:
        found.follow(file, origins.get(file.path))
    return found.alive


def exchanges(catalog: Catalog, life: Life, checkpoint: int) -> Iterable[SchemaFile]:
    """The statements up to `checkpoint` that moved rows between the table and another's files."""
    own = {name.folded for name in life.names}
    since = life.birth.version if life.birth is not None else 0
    for file in catalog.files:
        if file.type != Action.EXCHANGE_PARTITION or not file.query or not since < file.version <= checkpoint:
            continue
        other = changes_of(file).named("exchange")
        moved = [file.name] + ([other.within(file.database)] if other else [])
        if not own.isdisjoint(name.folded for name in moved):
            yield file
