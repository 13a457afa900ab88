"""The schema files of a listing, indexed: which columns a folder's rows have, and whose rows they are."""

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
    """Rows whose columns are unknown."""
    folder = file.folder
    return SchemaMissing(
        f"rows of version {folder.version}, but no schema file of that version in {folder.root}/meta/",
        hint="restore the schema file; TiCDC writes it before the first data file of a version",
        table=str(table),
        path=file.path,
        version=folder.version,
    )


def schemas_gone(table: TableName, root: str) -> SchemaMissing:
    """A table whose folder is not there."""
    return SchemaMissing(
        f"rows of it were read, and {root}/ has no schema file any more: its folder was taken away, or is not mounted",
        hint="put the folder back; or leave the table out with --tables, if TiCDC does not write it any more",
        table=str(table),
        path=f"{root}/",
    )


@dataclass(frozen=True, slots=True)
class Catalog:
    """`files` are sorted by version; `by_folder` finds the schema file of ``(root, version)``. `history` tells what
    statements say. `damaged` are the checksums, as their names tell them, of the files at ``(root, version)`` that
    cannot be read."""

    files: tuple[SchemaFile, ...]
    by_folder: Mapping[tuple[str, int], SchemaFile]
    by_table: Mapping[TableName, tuple[SchemaFile, ...]]
    by_root: Mapping[str, tuple[SchemaFile, ...]]
    damaged: Mapping[tuple[str, int], int] = field(default_factory=dict)
    history: History = field(default_factory=History, compare=False, repr=False)
    _reordered: dict[str, frozenset[str]] = field(default_factory=dict, repr=False, compare=False)

    @classmethod
    def of(cls, schemas: Iterable[SchemaFile], damaged: Iterable[str] = ()) -> Catalog:
        """`damaged` are the paths of schema files that cannot be read."""
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
        """The schema file that describes the rows of `folder`, None where the storage does not hold it."""
        return self.by_folder.get((folder.root, folder.version))

    def is_over(self, folder: Folder, version: int) -> bool:
        """Whether no row above `version`, at which the table's rows began again, is in the older `folder`. TiCDC writes
        rows where the newest schema file with their columns is. That is the one with which the table began again, the
        first from `version` on, if it has the folder's columns. If not, a statement that TiCDC filtered out can give
        the table the old columns again. Folders that ids name, and those of the old form, are never written again."""
        file = self.schema(folder)
        if is_table_id(folder.root) or (file is not None and file.path.endswith("/schema.json")):
            return True
        checksum = self.damaged.get((folder.root, folder.version)) if file is None else file.checksum
        history = self.by_root.get(folder.root, ())
        at = bisect_left(history, version, key=lambda file: file.version)
        return checksum is not None and at < len(history) and history[at].checksum == checksum

    def shape(self, file: SchemaFile) -> Shape:
        """What the statements up to `file` tell of its table."""
        return self.history.shape(file)

    def declared(self, file: SchemaFile) -> Mapping[str, Definition]:
        """What they say about its columns, by lower-case name."""
        return self.shape(file).columns

    def reordered(self, file: SchemaFile) -> bool:
        """Whether an earlier schema file of the same root had the same columns in another order: the checksum does not
        know it."""
        if file.root not in self._reordered:
            self._reordered[file.root] = frozenset(_reordered(self.by_root.get(file.root, ())))
        return file.path in self._reordered[file.root]

    def owner(self, folder: Folder) -> TableName:
        """Whose rows lie in `folder`. Without its schema file: whoever else owns the root, else the path itself."""
        if (file := self.schema(folder)) is not None:
            return file.name
        for other in reversed(self.by_root.get(folder.root, ())):
            return other.name
        database, _, table = folder.root.rpartition("/")
        return TableName(database, table)

    def table_of(self, folder: Folder) -> Incarnation | None:
        """The table that had the folder's name at the folder's version: what was read of the folder is that table's.
        None where the storage tells of none."""
        return self.history.at(self.owner(folder), folder.version)

    def gone(self, progress: Progress) -> dict[str, TableName]:
        """By root, tables of which rows were read, that were not dropped, and that have no schema file any more. TiCDC
        never deletes one. Of a folder that an id names, nobody knows whose it was."""
        read = {folder.root: folder for folder in progress.folders if folder.root not in self.by_root}
        if not read:
            return {}
        left = {root_of(*name) for name, place in progress.tables.items() if place.state is State.DROPPED}
        left.update(root for root, _ in self.damaged)
        return {root: self.owner(folder) for root, folder in read.items() if root not in left and not is_table_id(root)}

    def files_by_table(self, files: Mapping[str, Sequence[DataFile]]) -> dict[TableName, list[DataFile]]:
        """The data files of each table, in file order of their series."""
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
    """The paths of those of `files`, which are sorted, that some file before has the columns of in another order."""
    orders: defaultdict[int, set[tuple[str, ...]]] = defaultdict(set)
    for file in files:
        order = tuple(column.name for column in file.columns)
        if orders[file.checksum] - {order}:
            yield file.path
        orders[file.checksum].add(order)
