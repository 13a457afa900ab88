"""Tables of upstream, each from the statement that made it to the one that took it away.

A name can have had several tables, one after the other. Whoever makes a table again, or says where its rows begin, asks
here which of them it is, and whether the storage holds it from its beginning.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from consumer.ddl.changes import Told, changes_of
from consumer.model.actions import RENAME_ACTIONS, Action
from consumer.model.columns import Column
from consumer.model.files import SchemaFile
from consumer.model.names import TableName, same_name
from consumer.model.progress import Progress
from consumer.model.times import MAX_TSO


def makes_temporary(file: SchemaFile) -> bool:
    """Whether the statement makes a global temporary table: each session has rows of its own there, TiCDC none."""
    return file.query[:80].upper().split()[:3] == ["CREATE", "GLOBAL", "TEMPORARY"]


@dataclass(slots=True, eq=False)
class Incarnation:
    """One table of upstream."""

    birth: SchemaFile | None
    """The statement that made it, None for one that is older than the changefeed."""
    names: list[TableName]
    """All that it has had; the last is its own now."""
    since: list[int]
    """The versions that gave them, 0 for one that is older than the changefeed."""
    files: list[SchemaFile] = field(default_factory=list)
    """The schema files that tell its columns, in upstream order, those of its statements among them."""
    end: SchemaFile | None = None
    """The DROP that took it away."""
    columns: tuple[Column, ...] = ()
    """As the last file tells them, one above the checkpoint too."""
    told: Told | None = None
    """What its statements declare, those above the checkpoint too; None where there were none."""

    @property
    def name(self) -> TableName:
        return self.names[-1]

    @property
    def statements(self) -> list[SchemaFile]:
        """Those about it, its birth among them, its end not."""
        return [file for file in self.files if file.query]

    @property
    def is_view(self) -> bool:
        return self.birth is not None and self.birth.type == Action.CREATE_VIEW

    @property
    def is_temporary(self) -> bool:
        return self.birth is not None and makes_temporary(self.birth)

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

    def place(self, file: SchemaFile) -> int:
        """The place among its names of the one that the statement of `file` gave it."""
        pairs = list(zip(self.names, self.since, strict=True))
        return pairs.index((file.name, file.version))

    def name_at(self, version: int) -> TableName:
        """The name that it has from `version` on."""
        pairs = zip(self.names, self.since, strict=True)
        return next((name for name, since in reversed(list(pairs)) if since <= version), self.names[0])

    def has_had(self, name: TableName, end: int) -> bool:
        """Whether it was given the name up to that moment."""
        return any(own == name and since <= end for own, since in zip(self.names, self.since, strict=True))

    def given_at(self, progress: Progress) -> int:
        """The commit-ts at which the target was given just this table; 0 where it was not."""
        times = zip(self.names, self.since, (*self.since[1:], MAX_TSO), strict=True)
        starts = ((progress.starts.get(name, -1), since, end) for name, since, end in times)
        return max((ts for ts, since, end in starts if since <= ts < end), default=0)

    def until_it_waits(self, name: TableName, since: int, ran: Callable[[SchemaFile], bool]) -> Incarnation | None:
        """The table where it has `name`, from the statement of version `since` or from the beginning (0), and what did
        not `ran` is still to come; None where nothing tells of it. Before `since` everything counts: who gave a table
        its name by hand has done that too. What was done to it under a name that it does not have yet does not count:
        of left-out names nothing waits."""
        given = list(zip(self.names, self.since, strict=True))
        place = given.index((name, since)) if since else 0
        renames = (f for f in self.files if f.action in RENAME_ACTIONS and (f.name, f.version) in given)
        rename = next((f for f in renames if f.version > since and not ran(f)), None)
        if rename is not None and (rename.name, rename.version) == given[0]:
            return None
        files = self.files if rename is None else self.files[: self.files.index(rename)]
        files = [file for file in files if not file.query or file.version <= since or ran(file)]
        if len(files) == len(self.files) and self.end is None:
            return self
        names, times = self.names[: place + 1], self.since[: place + 1]
        return Incarnation(self.birth, names, times, files, None, self.columns, self.told) if files else None


class LiveTables:
    """The tables that exist at one moment of a history, by name. TiDB compares names without case, and remembers how
    they were spelled."""

    def __init__(self) -> None:
        self._tables: dict[TableName, Incarnation] = {}
        self._by_table: defaultdict[str, dict[TableName, None]] = defaultdict(dict)
        self._replaced: dict[TableName, tuple[int, Incarnation | None, TableName | None]] = {}

    def __contains__(self, name: TableName) -> bool:
        return name in self._tables

    def __iter__(self) -> Iterator[TableName]:
        return iter(self._tables)

    def __getitem__(self, name: TableName) -> Incarnation:
        return self._tables[name]

    def get(self, name: TableName | None) -> Incarnation | None:
        return None if name is None else self._tables.get(name)

    def put(self, name: TableName, table: Incarnation) -> None:
        """The table has this name."""
        self._tables[name] = table
        self._by_table[same_name(name.table)][name] = None

    def remove(self, name: TableName) -> Incarnation | None:
        """The table that had the name, if there was one; none has it any more."""
        found = self._tables.pop(name, None)
        if found is not None:
            del self._by_table[same_name(name.table)][name]
        return found

    def move(self, old: TableName | None, new: TableName, version: int) -> Incarnation | None:
        """The table that the RENAME of `version` takes from `old` (None: nobody knows from where), None where none is
        known; the caller puts it to `new`. Tables that exchange their names in one statement, whose files have one
        version, move beside one another: what came to `old` in the same statement stays there."""
        moved = None
        if old is not None:
            before, replaced, source = self._replaced.get(old, (0, None, None))
            # Of a name that nothing is known of, what came there in the same statement goes on, but not back.
            beside = before == version and (replaced is not None or source == new)
            moved = replaced if beside else self.remove(old)
        self._replaced[new] = (version, self._tables.get(new), old)
        return moved

    def called(self, table: str, database: str | None = None) -> Sequence[TableName]:
        """The tables of this name, in one database or in all of them."""
        same = sorted(self._by_table.get(same_name(table), ()))
        return same if database is None else [name for name in same if same_name(name.database) == same_name(database)]
