"""Indexes the schema files of a listing: which columns a folder's rows have, and to which table they belong."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from consumer.ddl.changes import Shape
from consumer.ddl.declared import Definition
from consumer.errors import SchemaMissing
from consumer.history.history import History
from consumer.history.incarnations import Incarnation
from consumer.layout.paths import schema_path
from consumer.layout.schema_file import is_table_id, root_of
from consumer.model.files import DataFile, Folder, SchemaFile
from consumer.model.names import TableName
from consumer.model.progress import Progress, State


def schema_missing(table: TableName, file: DataFile) -> SchemaMissing:
    """Returns the error of rows whose columns are unknown."""
    folder = file.folder
    return SchemaMissing(
        f"rows of version {folder.version}, but no schema file of that version in {folder.root}/meta/",
        hint="restore the schema file; TiCDC writes it before the first data file of a version",
        table=str(table),
        path=file.path,
        version=folder.version,
    )


def schemas_gone(table: TableName, root: str) -> SchemaMissing:
    """Returns the error of a table whose folder is missing."""
    return SchemaMissing(
        f"rows of it were read, and {root}/ has no schema file any more: its folder was taken away, or is not mounted",
        hint="put the folder back; or leave the table out with --tables, if TiCDC does not write it any more",
        table=str(table),
        path=f"{root}/",
    )


@dataclass(frozen=True, slots=True)
class Catalog:
    """The schema files of a listing, indexed.

    `files` are sorted by version. `by_folder` finds the schema file of ``(root, version)``. `history` has what
    statements declare. `damaged` are the checksums, taken from their names, of the files at ``(root, version)`` that
    cannot be read.
    """

    files: tuple[SchemaFile, ...]
    by_folder: Mapping[tuple[str, int], SchemaFile]
    by_table: Mapping[TableName, tuple[SchemaFile, ...]]
    by_root: Mapping[str, tuple[SchemaFile, ...]]
    damaged: Mapping[tuple[str, int], int] = field(default_factory=dict)
    history: History = field(default_factory=History, compare=False, repr=False)
    _reordered: dict[str, frozenset[str]] = field(default_factory=dict, repr=False, compare=False)

    @classmethod
    def of(cls, schemas: Iterable[SchemaFile], damaged: Iterable[str] = ()) -> Catalog:
        """Builds the catalog. `damaged` are the paths of schema files that cannot be read."""
        files = tuple(sorted(schemas, key=lambda file: (file.version, file.path)))
        by_table: defaultdict[TableName, list[SchemaFile]] = defaultdict(list)
        by_root: defaultdict[str, list[SchemaFile]] = defaultdict(list)
        for file in files:
            by_table[file.name].append(file)
            by_root[file.root].append(file)
        return cls(
            files,
            {(file.root, file.version): file for file in files if file.table},
            {name: tuple(group) for name, group in by_table.items()},
            {root: tuple(group) for root, group in by_root.items()},
            {(path.root, path.version): path.checksum for path in map(schema_path, damaged) if path and path.checksum},
        )

    def schema(self, folder: Folder) -> SchemaFile | None:
        """Returns the schema file that describes the rows of `folder`, None if the storage does not have it."""
        return self.by_folder.get((folder.root, folder.version))

    def is_over(self, folder: Folder, version: int) -> bool:
        """Returns whether no row above `version`, at which the table's rows began again, is in the older `folder`.

        TiCDC writes rows into the folder of the newest schema file with their columns. That is the one with which the
        table began again, the first from `version` on, if it has the folder's columns. Otherwise a statement that TiCDC
        filtered out can give the table the old columns again. Folders that are named by ids, and those of the old form,
        are never written again.
        """
        file = self.schema(folder)
        if is_table_id(folder.root) or (file is not None and file.path.endswith("/schema.json")):
            return True
        checksum = self.damaged.get((folder.root, folder.version)) if file is None else file.checksum
        history = self.by_root.get(folder.root, ())
        place = bisect_left(history, version, key=lambda file: file.version)
        return checksum is not None and place < len(history) and history[place].checksum == checksum

    def shape(self, file: SchemaFile) -> Shape:
        """Returns what the statements up to `file` declare of its table."""
        return self.history.shape(file)

    def declared(self, file: SchemaFile) -> Mapping[str, Definition]:
        """Returns what the statements declare about its columns, by lower-case name."""
        return self.shape(file).columns

    def reordered(self, file: SchemaFile) -> bool:
        """Returns whether an earlier schema file of the same root had the same columns in another order: the checksum
        does not show that."""
        if file.root not in self._reordered:
            self._reordered[file.root] = frozenset(_reordered(self.by_root.get(file.root, ())))
        return file.path in self._reordered[file.root]

    def owner(self, folder: Folder) -> TableName:
        """Returns the table whose rows are in `folder`. Without its schema file this is the last other owner of the
        root, else the path itself."""
        if (file := self.schema(folder)) is not None:
            return file.name
        for other in reversed(self.by_root.get(folder.root, ())):
            return other.name
        database, _, table = folder.root.rpartition("/")
        return TableName(database, table)

    def table_of(self, folder: Folder) -> Incarnation | None:
        """Returns the table that had the folder's name at the folder's version: what was read of the folder belongs to
        it. None if the storage shows none."""
        return self.history.at(self.owner(folder), folder.version)

    def missing_folders(self, progress: Progress) -> dict[str, TableName]:
        """Returns by root the tables of which rows were read, that were not dropped, and that have no schema file any
        more. TiCDC never deletes one. It is not known to which table a folder belonged that is named by an id."""
        read = {folder.root: folder for folder in progress.folders if folder.root not in self.by_root}
        if not read:
            return {}
        dropped = {root_of(*name) for name, place in progress.tables.items() if place.state is State.DROPPED}
        dropped.update(root for root, _ in self.damaged)
        return {
            root: self.owner(folder) for root, folder in read.items() if root not in dropped and not is_table_id(root)
        }

    def files_by_table(self, files: Mapping[str, Sequence[DataFile]]) -> dict[TableName, list[DataFile]]:
        """Returns the data files of each table, in file order of their series."""
        owners: dict[Folder, TableName] = {}
        tables: defaultdict[TableName, list[DataFile]] = defaultdict(list)
        for group in files.values():
            for file in group:
                owner = owners.get(file.folder)
                if owner is None:
                    owner = owners[file.folder] = self.owner(file.folder)
                tables[owner].append(file)
        for group in tables.values():
            group.sort()
        return dict(tables)


def _reordered(files: Sequence[SchemaFile]) -> Iterator[str]:
    """Yields the paths of those of the sorted `files` whose columns an earlier file has in another order."""
    orders: defaultdict[int, set[tuple[str, ...]]] = defaultdict(set)
    for file in files:
        order = tuple(column.name for column in file.columns)
        if orders[file.checksum] - {order}:
            yield file.path
        orders[file.checksum].add(order)
