"""Which table a RENAME moved, and in which order the renames of one statement go."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from consumer.ddl.changes import changes_of
from consumer.ddl.live_tables import LiveTables
from consumer.model.files import SchemaFile
from consumer.model.names import TableName


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


def _own_pairs(file: SchemaFile) -> list[RenamePair]:
    return [pair for pair in rename_pairs(file) if pair.new.folded == file.name.folded]
