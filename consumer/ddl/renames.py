"""Which table a RENAME moved, among those that exist then, and in which order the renames of one statement go."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from consumer.ddl.changes import changes_of
from consumer.model.columns import Column
from consumer.model.files import SchemaFile
from consumer.model.names import TableName, qualified, same_name


@dataclass(frozen=True, slots=True)
class RenamePair:
    """One table's rename as typed. `database` is None where the old name stands alone; `same_database` says that the
    new name stands alone too, so both are relative to one database, the new table's."""

    database: str | None
    table: str
    new: TableName
    same_database: bool = False

    @property
    def old(self) -> TableName | None:
        """The old name, where the text tells its database."""
        database = self.new.database if self.same_database and self.database is None else self.database
        return None if database is None else TableName(database, self.table)


def rename_pairs(file: SchemaFile) -> list[RenamePair]:
    """The renames in the file's statement; the file's own new name is spelled as the file spells it."""
    found = changes_of(file).names
    pairs = []
    for old, new in zip(found[::2], found[1::2], strict=False):
        if (old.role, new.role) != ("old", "new"):
            continue
        name = new.within(file.database)
        name = file.name if name.folded == file.name.folded else name
        pairs.append(RenamePair(old.database, old.table, name, new.database is None))
    return pairs


def find_old_name(file: SchemaFile, live: LiveTables) -> TableName | None:
    """The table that `file` renamed, among the `live` ones (those before the statement); None where it cannot be told.

    The classic architecture writes old names as typed, relative to a database that the file does not name: then the
    only table of that name with the new table's columns is meant.
    """
    pair = next(iter(_own_pairs(file)), None)
    if pair is None:
        return None
    if pair.old is not None:
        return next(iter(live.called(pair.old.table, pair.old.database)), pair.old)
    candidates = [
        name
        for name in live.called(pair.table)
        if live.columns[name] == file.columns and name.folded != file.name.folded
    ]
    return candidates[0] if len(candidates) == 1 else None


def order_same_version(files: Sequence[SchemaFile]) -> list[list[SchemaFile]]:
    """Renames of one version as groups to execute one after the other: who frees a name goes before who takes it.

    Tables that exchange their names form one group, each after the one whose name it takes, as far as a circle can.
    """
    frees = {pair.old.folded: file for file in files for pair in _own_pairs(file) if pair.old}
    done: set[int] = set()
    groups: list[list[SchemaFile]] = []
    for file in files:
        chain: list[SchemaFile] = []
        link: SchemaFile | None = file
        while link is not None and id(link) not in done and all(link is not other for other in chain):
            chain.append(link)
            link = frees.get(link.name.folded)
        chain.reverse()
        is_circle = link is not None and id(link) not in done and len(chain) > 1
        circle = 1 + next(at for at, other in enumerate(chain) if other is link) if is_circle else 0
        groups += [chain[:circle]] if circle else []
        groups += [[other] for other in chain[circle:]]
        done |= {id(other) for other in chain}
    return groups


def overwritten_rename(
    files: Sequence[SchemaFile], known: Collection[TableName], live_before: Callable[[], LiveTables]
) -> list[SchemaFile]:
    """The rename that is missing among `files`, the renames of one version. `known` are the names, as keys, of tables
    with earlier files; `live_before` looks which of them exist then.

    ``RENAME TABLE a TO x, b TO a, x TO b`` moves a table twice. Both of its files are named by its last name, so the
    second is written over the first. What is left takes a name (a) that a table has, and moves a table (x) that is not
    there. If there is one of each, with the same columns, the former became the latter.
    """
    pairs = [(file, pair.old) for file in files for pair in _own_pairs(file) if pair.old is not None]
    freed, given = {old.folded for _, old in pairs}, {file.name.folded for file, _ in pairs}
    taken = [file.name for file, _ in pairs if file.name.folded in known and file.name.folded not in freed]
    moved = [(file, old) for file, old in pairs if old.folded not in given]
    if not taken or not moved:
        return []
    live = live_before()
    former = [there for name in taken for there in live.called(name.table, name.database)]
    missing = [(file, old) for file, old in moved if not live.called(old.table, old.database)]
    if len(former) != 1 or len(missing) != 1:
        return []
    (there,), ((last, name),) = former, missing
    if last.name.folded == there.folded or last.columns != live.columns[there]:
        return []
    query = f"RENAME TABLE {qualified(*there)} TO {qualified(*name)}"
    path = f"{last.path} (overwritten)"
    return [replace(last, path=path, root=path, database=name.database, table=name.table, query=query)]


def _own_pairs(file: SchemaFile) -> list[RenamePair]:
    return [pair for pair in rename_pairs(file) if pair.new.folded == file.name.folded]


class LiveTables:
    """Tables and their columns. TiDB compares names without case, and remembers how they were spelled."""

    def __init__(self, tables: Mapping[TableName, tuple[Column, ...]] | None = None) -> None:
        self.columns: dict[TableName, tuple[Column, ...]] = {}
        self._by_table: defaultdict[str, dict[TableName, None]] = defaultdict(dict)
        for name, columns in (tables or {}).items():
            self.put(name, columns)

    def __contains__(self, name: TableName) -> bool:
        return name in self.columns

    def __iter__(self) -> Iterator[TableName]:
        return iter(self.columns)

    def put(self, name: TableName, columns: tuple[Column, ...]) -> None:
        """The table exists, with these columns."""
        self.columns[name] = columns
        self._by_table[same_name(name.table)][name] = None

    def remove(self, name: TableName) -> None:
        """The table is gone, if it was there."""
        if self.columns.pop(name, None) is not None:
            del self._by_table[same_name(name.table)][name]

    def called(self, table: str, database: str | None = None) -> Sequence[TableName]:
        """The tables of this name, in one database or in all of them."""
        same = sorted(self._by_table.get(same_name(table), ()))
        return same if database is None else [name for name in same if same_name(name.database) == same_name(database)]
