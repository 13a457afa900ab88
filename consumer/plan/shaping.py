"""Protects the rows of a table with filters or masks: neither other rules nor statements may change which rows it must
have. For masks, no statement may show a value either, or divide rows by it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence

from consumer.ddl.changes import statement_changes, written_tables
from consumer.ddl.definitions import ParsedStatement, statement_of
from consumer.ddl.tokens import Tokens, starts
from consumer.errors import BadConfig, Code, DdlRefused
from consumer.model.actions import RENAME_ACTIONS, Action
from consumer.model.columns import Column, Family
from consumer.model.files import SchemaFile
from consumer.model.hints import statement_refused
from consumer.model.names import TableName, by_name
from consumer.model.progress import NOT_READ, DdlState, Progress
from consumer.model.rules import Shaping, ShapingOf, unshaped
from consumer.model.steps import ddl_id
from consumer.plan.catalog import Catalog
from consumer.plan.statement import Statement

_ROW_ACTIONS = RENAME_ACTIONS | {Action.EXCHANGE_PARTITION}


def filters_record(shaping_of: ShapingOf, tables: Iterable[TableName]) -> str:
    """Returns what the progress keeps: the rules of each table that has some, "" for none."""
    if shaping_of is unshaped:
        return ""
    records = {json.dumps(name): rules.record for name in tables if name.table and (rules := shaping_of(name))}
    return json.dumps(dict(sorted(records.items()))) if records else ""


def check_shaping(shaping_of: ShapingOf, progress: Progress, catalog: Catalog) -> None:
    """Raises BadConfig if a table that has rows has other rules now."""
    if shaping_of is unshaped and not progress.filters:
        return
    before: Mapping[str, str] = json.loads(progress.filters) if progress.filters else {}
    for name in dict.fromkeys(_with_rows(progress, catalog)):
        rules, had = shaping_of(name) if name.table else None, before.get(json.dumps(name), "")
        if (rules.record if rules else "") != had:
            raise BadConfig(
                f"the filters of {name} are not those that its rows in the target were written with: the rows would be"
                " neither what the former ones choose nor what these do",
                hint="take the filters back as they were, or fill the table again under another --name",
            )


def _with_rows(progress: Progress, catalog: Catalog) -> Iterator[TableName]:
    """Yields the tables of which rows were read, and those that a statement gave rows."""
    for folder, place in progress.folders.items():
        if place.done or place.last_ts or any(entry.size != NOT_READ for entry in place.open):
            yield catalog.owner(folder)
    for file in catalog.files:
        record = progress.ddls.get(ddl_id(file)) if file.type in _ROW_ACTIONS else None
        if record is not None and record.state is not DdlState.REFUSED:
            yield file.name
    if progress.start_ts and (progress.folders or progress.ddls):  # not the first run: those that it began with
        made = {TableName(i.database, i.table) for i in progress.ddls}
        yield from (name for name in catalog.by_table if name.table and name not in made)
    yield from progress.starts


def shaping_refusal(statement: Statement, shaping_of: ShapingOf) -> DdlRefused | None:
    """Returns why `statement` must not run: existing rows would no longer be the ones that the rules choose."""
    if shaping_of is unshaped or not statement.executed:
        return None
    file, old = statement.file, statement.old_name
    names = (*statement.tables, *((old,) if old is not None else ()))
    why = broken_rules(file, names, statement.table_before.columns, shaping_of, statement.creates is not None)
    if not why:
        return None
    return statement_refused(
        file,
        f"{why}; the statement: {file.query}",
        hint="fill the target again under another --name, with the same filters for all of these tables and on columns"
        " that stay, or leave the table out with --tables",
        code=Code.RULES_CONFLICT,
    )


def broken_rules(
    file: SchemaFile,
    others: Iterable[TableName],
    before: Sequence[Column] | None,
    shaping_of: ShapingOf,
    creates: bool = False,
) -> str:
    """Returns why rows do not keep the rules of their table past the statement of `file`, whoever executes or reads it;
    "" if they do.

    `others` are the names of tables that it also touches, including the earlier name of its own table. `before` are the
    columns of its table before it, None if they are not known. `creates` means that it gave the table its name.
    """
    if file.action in _ROW_ACTIONS:
        tables = dict.fromkeys((file.name, *others, *written_tables(file)))
        rules = {name: shaping_of(name) for name in tables if name.table}
        if len({shaping_of_table.record if shaping_of_table else "" for shaping_of_table in rules.values()}) > 1:
            return f"it moves rows between tables with different filters ({', '.join(map(str, rules))})"
        return ""
    shaping = shaping_of(file.name)
    if shaping is not None and shaping.masks and (why := unmasked_refusal(shaping, file) or mask_misfit(shaping, file)):
        return why
    columns = filter_columns(shaping.where) if shaping is not None and shaping.where else frozenset()
    if not columns or creates or not file.columns:
        return ""
    declared = statement_changes(file).columns
    after = by_name(file.columns)
    # For a column that is new no row was filtered before: a load without it stops.
    columns_before = by_name(before or file.columns)
    for name in sorted(columns & columns_before.keys()):
        is_declared = name in declared.columns if before is None else name in declared.renamed
        if is_declared or name not in after or not _same_values(columns_before[name], after[name]):
            return f"it changes column {name}, by which the row filter has chosen rows"
    return ""


def filter_columns(where: str) -> frozenset[str]:
    """Returns the columns, in lower case, by which a row filter chooses."""
    from consumer.changes.expressions import expression_columns  # its parser is loaded only where there are rules

    return expression_columns(where)


def _same_values(old: Column, new: Column) -> bool:
    """Returns whether an expression has the same value for every row."""
    if (old.family, old.unsigned, old.scale) != (new.family, new.unsigned, new.scale):
        return False
    return old.family not in (Family.TEXT, Family.BINARY) or old.type == new.type


def unmasked_refusal(shaping: Shaping, file: SchemaFile) -> str:
    """Returns why the file's statement must not run on a table with masks, "" if it may."""
    changes = statement_changes(file)
    if changes.named("like") is not None:
        return "it copies a definition, and columns of the table are masked: whether others depend on them is not seen"
    for new, old in changes.columns.renamed.items():
        if shaping.mask_of(new) != shaping.mask_of(old):
            return f"it renames column {old} to {new}, and these are not masked alike"
    statement = statement_of(file.query)
    for column in statement.columns:
        if column.find("AS", "(") is not None and (mask := shaping.mask_of(column.name)) is not None:
            return f"column {column.name} is masked ({mask.kind}) and generated: the target would compute its values"
    for what, tokens in _dependent(statement):
        for token in tokens:
            if token.is_name and (mask := shaping.mask_of(token.name)) is not None and token.text.upper() not in _WORDS:
                return f"{what} depends on column {token.name}, which is masked ({mask.kind})"
    return ""


def mask_misfit(shaping: Shaping, file: SchemaFile) -> str:
    """Returns why masked values would not fit the columns that an ALTER leaves, "" if they would: the target would cut
    existing values. The first load of a new table reports what cannot be masked there."""
    if not statement_of(file.query).is_alter:
        return ""
    from consumer.changes.masks import mask_fault  # Arrow is loaded only where there are masks

    why = mask_fault(shaping, file.columns or (), (), ())
    return f"columns are masked, and their values would not fit: {why}" if why else ""


_WORDS = ("AS", "PARTITION", "BY", "RANGE", "LIST", "HASH", "KEY", "COLUMNS", "VALUES", "STORED", "VIRTUAL")
"""Words of the clauses, which a pattern of columns can fit."""


def _dependent(statement: ParsedStatement) -> Iterator[tuple[str, Tokens]]:
    """Yields what the statement computes from columns, with its tokens."""
    for column in statement.columns:
        if (index_of_as := column.find("AS", "(")) is not None:
            yield f"column {column.name}", column.tokens[index_of_as:]
    for index in statement.indexes:
        if index.has_expression:
            yield index.label, index.tokens
    for index_of_as in range(len(statement.tokens)):
        if starts(statement.tokens, "PARTITION", "BY", at=index_of_as):
            yield "its partitioning", statement.tokens[index_of_as:]
