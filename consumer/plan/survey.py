"""Derives from paths and schema files of a storage its tables and the options of its changefeed, and checks which
settings are missing or cannot be correct."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence

from consumer.codec import PROTOCOLS, protocol_of, protocols_of_file
from consumer.codec.protocol import Undecided
from consumer.ddl.changes import statement_changes
from consumer.errors import BadConfig
from consumer.layout.paths import date_level
from consumer.layout.schema_file import is_table_id
from consumer.model.actions import Action
from consumer.model.columns import Column, Family
from consumer.model.files import DataFile, Folder, SchemaFile
from consumer.model.load import Dialect
from consumer.model.names import TableName
from consumer.model.progress import Progress
from consumer.model.table_rules import TableRules
from consumer.model.texts import nearest, some_of
from consumer.plan.assembly import Assembly
from consumer.plan.catalog import Catalog
from consumer.results import Detected, InspectedTable

CLASSIC, NEW = "classic", "new"
OLD_NAME = "/schema.json"
"""The end of the paths of schema files that v6.5.0 to v6.5.2, v6.6.0 and v7.0.0 write."""


def survey_tables(assembly: Assembly) -> tuple[InspectedTable, ...]:
    """Returns every table that has a schema file or data files."""
    names = {name for name in (*assembly.catalog.by_table, *assembly.files) if name.table and assembly.wanted(name)}
    return tuple(_table(assembly, name) for name in sorted(names))


def survey_options(catalog: Catalog, files: Sequence[DataFile]) -> Detected:
    """Returns the options that the paths show, without the rows."""
    folders = {file.folder for file in files}
    years = _years(catalog, folders)
    levels = Counter("year" if folder in years else date_level(folder.date) for folder in folders)
    doubtful = not years and _all_could_be_years(folders)
    across = any(folder.dispatcher for folder in folders) if folders else None
    table_ids = any(file.table and is_table_id(file.root) for file in catalog.files)
    widths = Counter(len(file.path.rpartition(".")[0]) - len(_without_digits(file.path)) for file in files)
    return Detected(
        date_separator=levels.most_common(1)[0][0] if levels else None,
        file_index_digit=min(widths) if widths else None,
        partition_separator=_partition_separator(catalog, folders - years),
        across_nodes=across,
        table_ids=table_ids,
        architecture=_architecture(catalog, bool(across) or table_ids),
        unproven=("date-separator", "enable-partition-separator") if doubtful else (),
    )


def sample(files: Sequence[DataFile], catalog: Catalog, most: int) -> Iterator[tuple[DataFile, SchemaFile]]:
    """Yields up to `most` files whose table is known, the newest and the oldest of each table first."""
    tables: dict[str, list[DataFile]] = {}
    for file in files:
        tables.setdefault(file.folder.root, []).append(file)
    newest, oldest = ([group[place] for group in tables.values()] for place in (-1, 0))
    chosen = list(dict.fromkeys([*newest[: most // 2], *oldest[: most // 2], *newest, *oldest]))
    files_with_schema = ((file, catalog.schema(file.folder)) for file in chosen)
    yield from [(file, schema) for file, schema in files_with_schema if schema is not None][:most]


def _table(assembly: Assembly, name: TableName) -> InspectedTable:
    history, files = assembly.catalog.by_table.get(name, ()), assembly.files.get(name, ())
    folders = {file.folder for file in files}
    dates = sorted(folder.date for folder in folders if folder.date)
    table = assembly.history.alive.get(name)
    return InspectedTable(
        table=name,
        exists=table is not None,
        older=table is not None and table.birth is None,
        versions=len(history),
        ddl=sum(1 for file in history if file.query),
        files=len(files),
        bytes=sum(file.size for file in files),
        partitions=len({folder.partition for folder in folders if folder.partition}),
        dispatchers=len({folder.dispatcher for folder in folders if folder.dispatcher}),
        first_date=dates[0] if dates else "",
        last_date=dates[-1] if dates else "",
        keyed=not history or not history[-1].columns or any(column.is_pk for column in history[-1].columns),
    )


def _without_digits(path: str) -> str:
    """Returns `path` without its extension and the number before it."""
    return path.rpartition(".")[0].rstrip("0123456789")


def _years(catalog: Catalog, folders: Collection[Folder]) -> set[Folder]:
    """Returns the folders whose partition is the year of a ``date-separator = "year"``: their table's statements
    declare no partitions. The paths alone do not show the difference."""
    years = set()
    for group in catalog.by_table.values():
        if declares_partitions(group) and not is_partitioned(group):
            roots = {file.root for file in group}
            years |= {folder for folder in folders if folder.root in roots and _could_be_year(folder)}
    return years


def _could_be_year(folder: Folder) -> bool:
    return bool(folder.partition) and not folder.date and date_level(folder.partition) == "year"


def _all_could_be_years(folders: Collection[Folder]) -> bool:
    """Returns whether all of the folders could be years. A changefeed has one date level, so a folder that can have no
    year shows that no other one is a year."""
    return bool(folders) and all(map(_could_be_year, folders))


def _partition_separator(catalog: Catalog, folders: Collection[Folder]) -> bool | None:
    """Returns whether partitions have folders of their own, None if that is unknown: only a partitioned table shows
    it."""
    if any(folder.partition for folder in folders):
        return True
    written = {folder.root for folder in folders}
    partitioned = (group[-1].root in written and is_partitioned(group) for group in catalog.by_table.values())
    return False if any(partitioned) else None


def _architecture(catalog: Catalog, is_new: bool) -> str:
    if is_new or is_new_architecture(catalog):
        return NEW
    columns = (column for file in catalog.files if file.query for column in file.columns)
    labelless = any(column.type in (Family.ENUM.upper(), Family.SET.upper()) for column in columns)
    old = any(file.path.endswith(OLD_NAME) for file in catalog.files)
    return CLASSIC if labelless or old else ""


def check_protocol(protocol: str, assembly: Assembly) -> None:
    """Raises BadConfig if every file's name shows that it holds another protocol's rows."""
    if protocol not in PROTOCOLS:
        return  # an export: Dumpling has its own names
    others: dict[str, DataFile] = {}
    for file in itertools.chain.from_iterable(assembly.files.values()):
        protocols = [protocol_class.name for protocol_class in protocols_of_file(file.path)]
        if protocol in protocols:
            return  # usually true of the first file; the names of the others do not matter
        others |= dict.fromkeys(protocols, file)
    for other, file in others.items():
        raise BadConfig(
            f"the settings say protocol {protocol}, and {file.path} has the name of a {other} file, as all others have",
            hint=f"give protocol={other} in --upstream-uri or in the file of --config; inspect prints what such a file"
            " must hold",
        )


def check_selected(assembly: Assembly, progress: Progress, rules: TableRules, may_come: bool = False) -> None:
    """Raises BadConfig if the table rules include nothing that the storage has, or that the target had. A later run is
    refused only if no rule asks for such a table, because its rules may exclude everything. It is not refused if rounds
    follow and a table `may_come`."""
    names = sorted(name for name in assembly.catalog.by_table if name.table)
    had = (*progress.tables, *(TableName(ddl.database, ddl.table) for ddl in progress.ddls))
    names_in_question = (*names, *(name for name in had if name.table))
    if not names or any(map(rules.wanted, names_in_question)):
        return
    if not progress.is_new and (may_come or any(map(rules.asked_for, names_in_question))):
        return
    meant = dict.fromkeys(filter(None, (_meant(rule, names) for rule in rules.filter)))
    raise BadConfig(
        f"--tables lets no table of the storage through; it has {some_of(names)}"
        + (f"; did you mean {some_of(list(meant))}?" if meant else ""),
        hint="rules are about upstream's names, as shop.* or shop.orders; `inspect` lists the tables",
    )


def _meant(rule: str, names: Sequence[TableName]) -> str:
    """Returns the table, or all those of a database, that the rule resembles most."""
    every = [*map(str, names), *(f"{name.database}.*" for name in names)]
    return "" if rule.startswith("!") else nearest(rule, every)


def check_decided(undecided: Sequence[Undecided], assembly: Assembly) -> None:
    """Raises BadConfig if rows of a table cannot be read without an option of `undecided`."""
    for option in undecided:
        for table, column in itertools.islice(_columns(assembly, option.needs), 1):
            message = option.message.format(column=f"{table}.{column}")
            raise BadConfig(message, hint=option.hint, table=str(table))


def check_old_keys(dialect: Dialect, assembly: Assembly) -> None:
    """Raises BadConfig if the path of a schema file shows that its release does not split updates of keys, and rows do
    not have the old ones. The path that v7.1.0 writes, which does not split them either, shows nothing."""
    newer = "a release from v6.5.3 or v7.1.1 on"
    if protocol_of(dialect).key_loss(dialect, "", newer) is None:
        return
    wanted = (file for name, files in assembly.files.items() if assembly.wanted(name) for file in files)
    folders = dict.fromkeys(file.folder for file in wanted)
    old = (schema for schema in map(assembly.catalog.schema, folders) if schema and schema.path.endswith(OLD_NAME))
    for schema in old:
        unsplit = f"by TiCDC v6.5.0 to v6.5.2, v6.6.0 or v7.0.0, one of which wrote {schema.path},"
        loss = protocol_of(dialect).key_loss(dialect, unsplit, newer)
        if loss is not None:
            raise loss.about(str(schema.name))


def _columns(assembly: Assembly, needs: Callable[[Column], bool]) -> Iterator[tuple[TableName, str]]:
    """Yields the columns of tables with files for which `needs` returns True."""
    for name in assembly.files:
        if assembly.wanted(name):
            for schema in assembly.catalog.by_table.get(name, ()):
                yield from ((name, column.name) for column in schema.columns if needs(column))


def is_new_architecture(catalog: Catalog) -> bool:
    """Returns whether the schema files can only be those of TiCDC's new architecture: it alone writes ENUM and SET
    labels."""
    return any(column.elements for file in catalog.files for column in file.columns)


def shares_partitions(history: Sequence[SchemaFile], files: Sequence[DataFile]) -> bool:
    """Returns whether all partitions of the table write to one folder, with one counter each, in the classic
    architecture."""
    marked = any(file.folder.partition or file.folder.dispatcher for file in files)
    return bool(files) and not marked and is_partitioned(history)


def is_partitioned(history: Sequence[SchemaFile]) -> bool:
    """Returns whether the table is partitioned, by the last statement that declares it."""
    partitioned = False
    for file in history:
        if file.type in (Action.CREATE_TABLE, Action.CREATE_TABLES, Action.ALTER_TABLE_PARTITIONING):
            partitioned = "PARTITION" in file.query.upper() and statement_changes(file).partitions.divides
        elif file.type == Action.REMOVE_PARTITIONING:
            partitioned = False
    return partitioned


def declares_partitions(history: Sequence[SchemaFile]) -> bool:
    """Returns whether a statement of the history declares whether the table is partitioned."""
    telling = (Action.CREATE_TABLE, Action.CREATE_TABLES, Action.ALTER_TABLE_PARTITIONING, Action.REMOVE_PARTITIONING)
    return any(file.type in telling and file.query for file in history)
