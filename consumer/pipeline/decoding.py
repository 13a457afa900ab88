"""Decodes files of a table by their own schema files, without the target."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from consumer.ddl.declared import Definition
from consumer.errors import ConsumerError, CorruptFile, TableError
from consumer.model.files import DataFile
from consumer.model.load import FileStat, LoadTarget, LoadTask, TableLoad
from consumer.model.names import TableName, same_name
from consumer.model.steps import Window
from consumer.model.times import MAX_TSO
from consumer.pipeline.version_consumer import TableVersionConsumer
from consumer.plan.assembly import Assembly
from consumer.plan.late import Stretches
from consumer.plan.options import RoundOptions
from consumer.plan.unread import UnreadFile
from consumer.plan.windows import plan_load
from consumer.ports import StorageReader


def rows_were_read(
    reader: StorageReader,
    assembly: Assembly,
    options: RoundOptions,
    table: TableName,
    since: int,
    file: DataFile,
    seen: Stretches,
) -> bool:
    """Returns whether all rows of the file up to `since` have a commit-ts in the stretches `seen`. The file's first and
    last commit-ts do not show that, so it is read. Returns False if it cannot be decoded."""
    from consumer.changes.folding import decoded  # Arrow is loaded only where it is needed

    window, entry = Window(since, MAX_TSO), UnreadFile(file, 0, MAX_TSO)
    stats: list[FileStat] = []
    try:
        for task in decoding_tasks(table, window, [entry], assembly, options, {file.folder.partition: seen}):
            for _ in decoded(reader.range_reader(), task.slices, task, stats):
                pass
    except TableError:
        return False
    return not any(stat.unseen_ts for stat in stats)


def decoding_error(
    table: TableName,
    window: Window,
    unread: Sequence[UnreadFile],
    assembly: Assembly,
    options: RoundOptions,
    reader: StorageReader,
) -> ConsumerError | None:
    """Returns the error that a load of the window would meet in the files, None if they can be decoded. Whether the
    target accepts their columns, only the load itself can find out."""
    from consumer.changes.folding import decoded

    try:
        for task in decoding_tasks(table, window, unread, assembly, options):
            for _ in decoded(reader.range_reader(), task.slices, task, list[FileStat]()):
                pass
    except CorruptFile as error:
        return error
    except TableError:
        return None
    return None


def decoding_tasks(
    table: TableName,
    window: Window,
    unread: Sequence[UnreadFile],
    assembly: Assembly,
    options: RoundOptions,
    seen: Mapping[str, Stretches] | None = None,
) -> Iterator[LoadTask]:
    """Yields tasks that decode files by their own schema files, one task for each schema file, without the target.
    `seen` is as in `TableVersionConsumer`."""
    dialect, catalog = options.files.dialect, assembly.catalog
    load = plan_load(table, window, unread, {}, (), options.files)
    schemas = {file.path: file for p in load.files if (file := catalog.schema(p.file.folder)) is not None}
    for schema in schemas.values():
        own_load = replace(load, files=tuple(p for p in load.files if catalog.schema(p.file.folder) == schema))
        declared = catalog.declared(schema)
        columns = tuple(
            replace(column, elements=column.elements or definition.elements)
            for column in schema.columns
            if not column.hidden and not (definition := declared.get(same_name(column.name), Definition())).virtual
        )
        names = [column.name for column in columns]
        key = catalog.shape(schema).handle_key(columns) or ()
        virtual = tuple(sorted(name for name, definition in declared.items() if definition.virtual))
        table_load = TableLoad(table, shaping=options.rules.shaping_of(table))
        target = LoadTarget(table_load, columns, tuple(names), tuple(map(names.index, key)), virtual=virtual)
        yield TableVersionConsumer(own_load, catalog, dialect, options.rules, seen or {}).task(0, target, None)
