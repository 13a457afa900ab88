"""Orders the schema files as upstream ran their statements: which table a RENAME moved, and in which order renames of
one version ran."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

from consumer.ddl.changes import statement_changes
from consumer.history.incarnations import LiveTables
from consumer.history.upstream_session import upstream_session
from consumer.model.actions import RENAME_ACTIONS
from consumer.model.files import SchemaFile
from consumer.model.names import TableName, qualified


@dataclass(frozen=True, slots=True)
class RenamePair:
    """One table's rename as typed. `database` is None if the old name has no database. `same_database` means that the
    new name has none either, so both are relative to one database, the new table's."""

    database: str | None
    table: str
    new: TableName
    same_database: bool = False

    @property
    def old(self) -> TableName | None:
        """The old name, None if the text does not determine its database."""
        database = self.new.database if self.same_database and self.database is None else self.database
        return None if database is None else TableName(database, self.table)


def rename_pairs(file: SchemaFile) -> list[RenamePair]:
    """Returns the renames in the file's statement. The file's own new name is spelled as in the file."""
    names = statement_changes(file).names
    pairs = []
    for old, new in zip(names[::2], names[1::2], strict=False):
        if (old.role, new.role) != ("old", "new"):
            continue
        name = new.within(file.database)
        name = file.name if name.folded == file.name.folded else name
        pairs.append(RenamePair(old.database, old.table, name, new.database is None))
    return pairs


def find_old_name(file: SchemaFile, live: LiveTables) -> TableName | None:
    """Returns the table that `file` renamed, among the `live` ones (those before the statement); None if it cannot be
    determined: the classic architecture writes old names as typed, and a RENAME that was replayed can have lost its
    own."""
    pair = next(iter(_own_pairs(file)), None)
    if pair is None or pair.old == file.name:
        return None
    database = upstream_session(file, live).database if pair.old is None else pair.old.database
    return None if database is None else next(iter(live.called(pair.table, database)), TableName(database, pair.table))


def upstream_order(files: Iterable[SchemaFile], known: Collection[TableName], live: LiveTables) -> Iterator[SchemaFile]:
    """Yields `files`, which are sorted by version, with the renames of one version in the order in which they ran, and
    with a rename among them that TiCDC has overwritten. `known` are the names, as keys, of all tables with earlier
    files. `live` are the tables that exist. The caller updates both before it takes the next file."""
    for _, group in groupby(files, key=lambda file: file.version):
        same = list(group)
        if len(same) > 1:
            renames = [file for file in same if file.query and file.type in RENAME_ACTIONS]
            lost = overwritten_rename(renames, known, live)
            others = (file for file in same if file not in renames)
            same = [*others, *lost, *(file for cycle in order_same_version(renames) for file in cycle)]
        yield from same


def order_same_version(files: Sequence[SchemaFile]) -> list[list[SchemaFile]]:
    """Returns renames of one version as groups to execute one after the other: the one that frees a name comes before
    the one that takes it.

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
        circle = 1 + next(index for index, other in enumerate(chain) if other is link) if is_circle else 0
        groups += [chain[:circle]] if circle else []
        groups += [[other] for other in chain[circle:]]
        done |= {id(other) for other in chain}
    return groups


def overwritten_rename(files: Sequence[SchemaFile], known: Collection[TableName], live: LiveTables) -> list[SchemaFile]:
    """Returns the rename that is missing among `files`, the renames of one version. `known` are the names, as keys, of
    tables with earlier files, `live` those that exist before the statement.

    ``RENAME TABLE a TO x, b TO a, x TO b`` moves a table twice. Both of its files are named by its last name, so the
    second overwrites the first. The remaining files take a name (a) that a table has, and move a table (x) that does
    not exist. If there is one of each, with the same columns, the former became the latter.
    """
    pairs = [(file, pair.old) for file in files for pair in _own_pairs(file) if pair.old is not None]
    freed, new_names = {old.folded for _, old in pairs}, {file.name.folded for file, _ in pairs}
    taken = [file.name for file, _ in pairs if file.name.folded in known and file.name.folded not in freed]
    moved = [(file, old) for file, old in pairs if old.folded not in new_names]
    if not taken or not moved:
        return []
    former = [there for name in taken for there in live.called(name.table, name.database)]
    missing = [(file, old) for file, old in moved if not live.called(old.table, old.database)]
    if len(former) != 1 or len(missing) != 1:
        return []
    (there,), ((last, name),) = former, missing
    if last.name.folded == there.folded or last.columns != live[there].columns:
        return []
    query = f"RENAME TABLE {qualified(*there)} TO {qualified(*name)}"
    path = f"{last.path} (overwritten)"
    return [replace(last, path=path, root=path, database=name.database, table=name.table, query=query)]


def _own_pairs(file: SchemaFile) -> list[RenamePair]:
    return [pair for pair in rename_pairs(file) if pair.new.folded == file.name.folded]
