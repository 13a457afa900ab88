"""Tables of upstream, each from the statement that created it to the one that dropped it.

A name can have had several tables, one after the other. Code that creates a table again, or determines where its rows
begin, asks here which of them it is, and whether the storage holds it from its beginning.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from consumer.ddl.changes import TableState, statement_changes
from consumer.model.actions import RENAME_ACTIONS, Action
from consumer.model.columns import Column
from consumer.model.files import SchemaFile
from consumer.model.names import TableName, same_name
from consumer.model.progress import Progress
from consumer.model.times import MAX_TSO


def makes_temporary(file: SchemaFile) -> bool:
    """Returns whether the statement creates a global temporary table: each session has rows of its own there, TiCDC has
    none."""
    return file.query[:80].upper().split()[:3] == ["CREATE", "GLOBAL", "TEMPORARY"]


@dataclass(slots=True, eq=False)
class Incarnation:
    """One table of upstream."""

    birth: SchemaFile | None
    """The statement that created it, None for a table that is older than the changefeed."""
    names: list[TableName]
    """All names that it has had; the last is its present one."""
    since: list[int]
    """The versions that gave these names, 0 for one that is older than the changefeed."""
    files: list[SchemaFile] = field(default_factory=list)
    """The schema files with its columns, in upstream order, including those of its statements."""
    end: SchemaFile | None = None
    """The DROP that removed it."""
    columns: tuple[Column, ...] = ()
    """The columns in the last file, even if that is above the checkpoint."""
    declared: TableState | None = None
    """What its statements declare, including those above the checkpoint; None if there were none."""

    @property
    def name(self) -> TableName:
        return self.names[-1]

    @property
    def statements(self) -> list[SchemaFile]:
        """Its statements, with its birth and without its end."""
        return [file for file in self.files if file.query]

    @property
    def is_view(self) -> bool:
        return self.birth is not None and self.birth.type == Action.CREATE_VIEW

    @property
    def is_temporary(self) -> bool:
        return self.birth is not None and makes_temporary(self.birth)

    @property
    def why_not_rebuildable(self) -> str | None:
        """Why the storage alone cannot create this table again with all its rows, None if it can."""
        if self.birth is None:
            return "the storage holds no CREATE TABLE for it: the table is older than the changefeed"
        if self.is_view:
            return "what the target has under this name is a view, without rows of its own"
        if self.birth.type == Action.RECOVER_TABLE:
            return f"it came back with rows that TiCDC does not write again ({self.birth.query})"
        if len(self.names) > 1:
            return f"it began under another name, {self.names[0]}, so its rows are not all under this one"
        if statement_changes(self.birth).named("like") is not None:
            return f"it began as a copy of a table that may have changed since ({self.birth.query})"
        return None

    def name_index(self, file: SchemaFile) -> int:
        """Returns the position in `names` of the name that the statement in `file` gave."""
        pairs = list(zip(self.names, self.since, strict=True))
        return pairs.index((file.name, file.version))

    def name_at(self, version: int) -> TableName:
        """Returns the name that it has from `version` on."""
        pairs = zip(self.names, self.since, strict=True)
        return next((name for name, since in reversed(list(pairs)) if since <= version), self.names[0])

    def had_name(self, name: TableName, end: int) -> bool:
        """Returns whether it was given the name up to that moment."""
        return any(
            given_name == name and since <= end for given_name, since in zip(self.names, self.since, strict=True)
        )

    def preloaded_at(self, progress: Progress) -> int:
        """Returns the --start-ts that is recorded for this table alone, if it had the name then; 0 if there is none."""
        times = zip(self.names, self.since, (*self.since[1:], MAX_TSO), strict=True)
        starts = ((progress.starts.get(name, -1), since, end) for name, since, end in times)
        return max((ts for ts, since, end in starts if since <= ts < end), default=0)

    def as_executed(self, name: TableName, since: int, ran: Callable[[SchemaFile], bool]) -> Incarnation | None:
        """Returns the table as the target has it under `name`, without statements that did not run there. `since` is
        the version of the statement that gave the name, 0 if it is the first name. Returns None if no schema file
        remains.

        1. Statements up to `since` count even if they did not run: whoever gave the table its name by hand has done
           those too.
        2. From the first later RENAME that did not run, nothing counts; if that RENAME gave the first known name, None
           is returned.
        """
        names_given = list(zip(self.names, self.since, strict=True))
        name_index = names_given.index((name, since)) if since else 0
        renames = (f for f in self.files if f.action in RENAME_ACTIONS and (f.name, f.version) in names_given)
        rename = next((f for f in renames if f.version > since and not ran(f)), None)
        if rename is not None and (rename.name, rename.version) == names_given[0]:
            return None
        files = self.files if rename is None else self.files[: self.files.index(rename)]
        files = [file for file in files if not file.query or file.version <= since or ran(file)]
        if len(files) == len(self.files) and self.end is None:
            return self
        if not files:
            return None
        names, times = self.names[: name_index + 1], self.since[: name_index + 1]
        return replace(self, names=names, since=times, files=files, end=None)


class Replaced(NamedTuple):
    """What the RENAME of `version` did to the name that it gave: `table` had the name before, and `source` is the
    renamed table's old name. Each is None if it is not known."""

    version: int
    table: Incarnation | None
    source: TableName | None


class LiveTables:
    """The tables that exist at one moment of a history, by name. TiDB compares names without case, and keeps their
    spelling."""

    def __init__(self) -> None:
        self._tables: dict[TableName, Incarnation] = {}
        self._by_table: defaultdict[str, dict[TableName, None]] = defaultdict(dict)
        self._replaced: dict[TableName, Replaced] = {}

    def __contains__(self, name: TableName) -> bool:
        return name in self._tables

    def __iter__(self) -> Iterator[TableName]:
        return iter(self._tables)

    def __getitem__(self, name: TableName) -> Incarnation:
        return self._tables[name]

    def get(self, name: TableName | None) -> Incarnation | None:
        return None if name is None else self._tables.get(name)

    def put(self, name: TableName, table: Incarnation) -> None:
        """Gives the name to `table`."""
        self._tables[name] = table
        self._by_table[same_name(name.table)][name] = None

    def remove(self, name: TableName) -> Incarnation | None:
        """Removes the table that had the name, and returns it, None if there was none."""
        removed = self._tables.pop(name, None)
        if removed is not None:
            del self._by_table[same_name(name.table)][name]
        return removed

    def move(self, old: TableName | None, new: TableName, version: int) -> Incarnation | None:
        """Takes the table out of `old` for the RENAME of `version` to `new`, and returns it; the caller calls `put`.
        Returns None if no table is known there. The RENAMEs of one statement happen at the same time: if another table
        got the name `old` in it, the table that it replaced is returned."""
        moved = None
        if old is not None:
            last = self._replaced.get(old, Replaced(0, None, None))
            # If `old` had no known table: in `a TO b, b TO c` the table that came to b moves on to c. In the swap
            # `a TO b, b TO a` it does not, because the other table is unknown.
            at_the_same_time = last.version == version and (last.table is not None or last.source == new)
            moved = last.table if at_the_same_time else self.remove(old)
        self._replaced[new] = Replaced(version, self._tables.get(new), old)
        return moved

    def called(self, table: str, database: str | None = None) -> Sequence[TableName]:
        """Returns the tables of this name, in one database or in all of them."""
        same = sorted(self._by_table.get(same_name(table), ()))
        return same if database is None else [name for name in same if same_name(name.database) == same_name(database)]
