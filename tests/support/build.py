"""Short ways to make model values for tests."""

from __future__ import annotations

from consumer.model.columns import Column
from consumer.model.files import DataFile, Folder, SchemaFile

ID = Column("id", "INT", nullable=False, is_pk=True)
VALUE = Column("v", "INT")


def data_file(
    index: int, root: str = "d/t", version: int = 10, size: int = 100, stamp: str = "a", **more: str
) -> DataFile:
    folder = Folder(root, version, **more)
    name = f"CDC{index:06d}.json"
    place = "/".join(filter(None, (root, str(version), folder.partition, folder.date, name)))
    return DataFile(folder, index, place, size, stamp)


def schema_file(
    name: str, version: int, type_: int = 3, query: str | None = None, columns: tuple[Column, ...] = (ID, VALUE)
) -> SchemaFile:
    """`name` is ``db.t`` or ``db``. The default is a CREATE TABLE; ``query=""`` a file that only describes columns."""
    database, _, table = name.partition(".")
    root = f"{database}/{table}" if table else database
    text = f"CREATE TABLE `{table}` (`id` INT PRIMARY KEY,`v` INT)" if query is None else query
    path = f"{root}/meta/schema_{version}_0000000001.json"
    return SchemaFile(path, root, database, table, version, 1, text, type_ if text else 0, columns if table else ())
