"""Applies table modes: which columns the target's tables have, what statements do to them, and what is refused."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from consumer.ddl.changes import Shape, declared_columns, recovered_table, takes_rows, written_tables
from consumer.ddl.declared import Definition
from consumer.errors import BadConfig, CannotBeExact, Code, DdlRefused
from consumer.model.actions import CREATE_ACTIONS, DATABASE_ACTIONS, DROP_ACTIONS, RENAME_ACTIONS, Action
from consumer.model.columns import Column
from consumer.model.ddl_policy import NEVER_IGNORED, DdlPolicy, PolicyOf, kind_of
from consumer.model.files import SchemaFile
from consumer.model.hints import skip_ddl_command
from consumer.model.names import TableName, same_name, same_names
from consumer.model.naming import Naming
from consumer.model.table_modes import Chosen, ModeDdl, TableMode
from consumer.plan.statement import Statement

_AS_WRITTEN = DATABASE_ACTIONS | RENAME_ACTIONS | DROP_ACTIONS | {Action.RECOVER_TABLE, Action.CREATE_VIEW}
"""Statements that mean the same for a table of every mode."""
_REMOVING = frozenset({Action.DROP_TABLE, Action.TRUNCATE_TABLE})
_BRINGING = frozenset({Action.ADD_COLUMN, Action.ADD_COLUMNS, Action.MULTI_SCHEMA_CHANGE})


def mode_columns(mode: TableMode, table: TableName, columns: Sequence[Column], shape: Shape) -> tuple[Column, ...]:
    """Returns the columns of the target's table of `table`: those of `columns` that rows have, with ``is_pk`` for
    upstream's key, and those that the mode adds. Raises CannotBeExact."""
    key = shape.handle_key(columns) or ()
    rules = "the route" if mode.merges else "[[consumer.table-modes]]"
    if not key:
        raise CannotBeExact(
            f"it has no key, so nothing distinguishes a change from the same change sent again, and the mode {mode}"
            " needs that",
            hint=f"give the table a primary key upstream, or leave it out of {rules}",
            table=str(table),
            code=Code.NO_KEY,
        )
    if mode.merges and "." in table.database + table.table:
        raise CannotBeExact(
            "its name has a dot, and in a merged table the names of two tables could be one text then",
            hint="leave it out of the route",
            table=str(table),
            code=Code.RULES_CONFLICT,
        )
    chosen = mode.chosen or Chosen()
    if lost := next((column.name for column in columns if column.name in key and not chosen.keeps(column.name)), None):
        raise CannotBeExact(
            f"[[consumer.columns]] leaves its column {lost} out, which is one of its key",
            hint="keep the columns of the key, or leave the table out of the rule or of the replica (--tables)",
            table=str(table),
            code=Code.RULES_CONFLICT,
        )
    added = mode.added
    taken = same_names(column.name for column in added)
    called = [chosen.name(column.name) for column in columns if chosen.keeps(column.name)]
    if (clash := next((name for name in called if same_name(name) in taken), None)) is not None:
        raise CannotBeExact(
            f"its column {clash} has the name of one that the table mode {mode} adds",
            hint="give the added column another name: "
            + ("merge in its [[consumer.routes]]" if mode.merges else _renaming(mode, clash)),
            table=str(table),
            code=Code.RULES_CONFLICT,
        )
    if twice := [name for name, count in Counter(map(same_name, called)).items() if count > 1]:
        raise CannotBeExact(
            f"[[consumer.columns]] gives two of its columns the name {twice[0]}",
            hint="give one of them another name, or leave it out",
            table=str(table),
            code=Code.RULES_CONFLICT,
        )
    kept = (column for column in stored_columns(columns, shape) if chosen.keeps(column.name))
    columns_of_mode = (replace(column, name=chosen.name(column.name), is_pk=column.name in key) for column in kept)
    return (*columns_of_mode, *added)


def stored_columns(columns: Sequence[Column], shape: Shape) -> Iterator[Column]:
    """Yields those of `columns` that rows have."""
    for column in columns:
        if not column.hidden and not shape.columns.get(same_name(column.name), Definition()).virtual:
            yield _labelled(column, shape)


def mode_ddl(statement: Statement) -> ModeDdl | None:
    """Returns what the statement does to a table with a mode; None for a mirror, and for statements that mean the same
    for all modes. Raises DdlRefused, without the statement's text."""
    file, mode = statement.file, statement.naming.mode(statement.file.name)
    if mode is not None and mode.merges and statement.action in _REMOVING:
        return ModeDdl(mode, (), mode.added)
    if mode is None or statement.action in _AS_WRITTEN or statement.shapes is None:
        return None
    before, after = statement.shapes(file)
    creates, columns = statement.action in CREATE_ACTIONS, statement.table_before.columns
    if not creates and columns is None:
        raise DdlRefused(
            f"nothing shows what the table was before, which has the table mode {mode} in the target",
            code=Code.RULES_CONFLICT,
        )
    if mode.chosen is not None:
        _check_chosen(mode.chosen, file, () if creates or columns is None else columns, creates)
    try:
        change = ModeDdl(
            mode,
            () if creates or columns is None else mode_columns(mode, file.name, columns, before),
            mode_columns(mode, file.name, file.columns, after),
        )
    except CannotBeExact as error:
        raise DdlRefused(error.message, hint=error.hint, code=error.code) from error
    if not creates and _moves_key(change, file):
        raise DdlRefused(
            f"it changes the key, by which a table with the mode {mode} finds its rows", code=Code.RULES_CONFLICT
        )
    if not creates and mode.merges:
        _check_columns(change, file)
    return change


def _check_chosen(chosen: Chosen, file: SchemaFile, before: Sequence[Column], creates: bool) -> None:
    """Raises DdlRefused if the target's columns would not be upstream's after the statement."""
    if creates and (lost := chosen.lacking([column.name for column in file.columns])):
        raise DdlRefused(
            f"[[consumer.columns]] gives columns of it that it does not have ({', '.join(lost)})",
            hint="correct the name, or write it with a * where the column comes later",
            code=Code.RULES_CONFLICT,
        )
    old_name = declared_columns(file, None, before).old_name
    excluded = same_names(c.name for c in before if not chosen.keeps(c.name))
    for column in file.columns:
        if chosen.keeps(column.name) and (old := old_name(column.name)) in excluded:
            raise DdlRefused(
                f"it renames column {old}, of which the target has no values, to {column.name}, of which it has",
                hint="leave the new name out too (fill the table again under another --name), or the table (--tables)",
                code=Code.RULES_CONFLICT,
            )


def _check_columns(change: ModeDdl, file: SchemaFile) -> None:
    """Raises DdlRefused for a change of columns that other tables of a merged table have too: these do not change at
    the same time."""
    declared = declared_columns(file, change.mode, change.before)
    before = {same_name(column.name): column for column in change.before}
    for column in change.after[: -len(change.mode.added)]:
        old = before.get(declared.old_name(column.name) or "")
        if old is None:
            continue
        if same_name(old.name) != same_name(column.name):
            raise DdlRefused(
                f"it renames column {old.name}, which other tables that are merged with this one have too",
                code=Code.RULES_CONFLICT,
            )
        if old.kind != column.kind:
            raise DdlRefused(
                f"it changes the type of column {column.name}, which other tables that are merged with this one have"
                " too",
                hint="once all of them have it upstream, change the column in the target by hand, then for each of"
                " them: " + skip_ddl_command(file.name, file.version),
                code=Code.RULES_CONFLICT,
            )


def check_mode_statement(statement: Statement) -> None:
    """Raises DdlRefused, without the statement's text, for a statement that cannot mean the same in a target that has
    tables with modes as upstream."""
    file, naming, action = statement.file, statement.naming, statement.action
    if naming.modes is None or action in DATABASE_ACTIONS:
        return
    mode = None if action in (Action.CREATE_VIEW, Action.DROP_VIEW) else naming.mode(file.name)
    _check_merged(statement)
    if action in RENAME_ACTIONS or action == Action.RECOVER_TABLE:
        source = recovered_table(file) if action == Action.RECOVER_TABLE else statement.old_name
        other = None if source is None else naming.mode(source)
        if other != mode:
            raise DdlRefused(
                f"{source} is {_mode_text(other)} in the target, and {file.name} {_mode_text(mode)}",
                code=Code.RULES_CONFLICT,
            )
    elif mode is not None:
        if takes_rows(file):
            raise DdlRefused(
                f"which rows are in a partition is not known of a table with the mode {mode}", code=Code.RULES_CONFLICT
            )
    elif (named := _named(statement)) is not None:
        kind = kind_of(action)
        raise DdlRefused(
            f"it names {named}, which is {_mode_text(naming.mode(named))} in the target, and not what upstream has",
            hint="do by hand what the statement should mean there, then: "
            + skip_ddl_command(file.name, file.version)
            + (f"; or let [consumer.ddl] ignore {kind} for such tables" if kind not in NEVER_IGNORED else ""),
            code=Code.RULES_CONFLICT,
        )


def _check_merged(statement: Statement) -> None:
    """Raises DdlRefused for a statement about one of several merged tables that is not only about its rows."""
    file, naming, action = statement.file, statement.naming, statement.action
    moved: set[TableName] = {former_name.name for former_name in statement.former}
    if action in RENAME_ACTIONS or action == Action.RECOVER_TABLE:
        moved |= {file.name, *filter(None, (statement.old_name,))}
    elif moved:
        moved.add(file.name)
    if (merged := next((name for name in sorted(moved) if naming.merges(name)), None)) is not None:
        raise DdlRefused(
            f"it moves {merged}, of which the rows are in {naming.target(merged)} of the target with those of others",
            hint="give the table another name or other rows there by hand, as the statement means it, then: "
            + skip_ddl_command(file.name, file.version)
            + "; or fill the target again under another --name, without that"
            " table in the route",
            code=Code.RULES_CONFLICT,
        )
    if naming.merges(file.name) and action in _REMOVING and statement.policy is DdlPolicy.RENAME:
        kind = kind_of(action)
        raise DdlRefused(
            f"[consumer.ddl] renames tables for {kind}, and {file.name} is a part of {naming.target(file.name)} in the"
            " target",
            hint=f"set evolve or ignore for {kind} of such tables in [consumer.ddl], and run again",
            code=Code.RULES_CONFLICT,
        )


def _named(statement: Statement) -> TableName | None:
    """Returns another table with a mode that the statement is about, None for none."""
    file = statement.file
    others = sorted({*statement.touches, *written_tables(file)}.difference(statement.follows, [file.name]))
    return next((name for name in others if statement.naming.mode(name) is not None), None)


def policy_keeping_ended(policy_of: PolicyOf, naming: Naming) -> PolicyOf:
    """Returns `policy_of`, changed for tables with a mode, which no statement removes: a DROP TABLE keeps them under a
    trash name. A TRUNCATE TABLE leaves them where they are, because it is only the end of rows."""
    if naming.modes is None:
        return policy_of

    def policy(action: Action, table: TableName, query: str = "") -> DdlPolicy:
        configured = policy_of(action, table, query)
        if naming.merges(table):
            # A column that another table has brought would exist, and this table's rows would lack their values.
            lost = configured is DdlPolicy.IGNORE and action in _BRINGING
            return DdlPolicy.FAIL if lost else configured
        mode = naming.mode(table)
        if mode is None or not mode.keeps_ended:
            return configured
        if action == Action.DROP_TABLE and configured is DdlPolicy.EVOLVE:
            return DdlPolicy.RENAME
        return DdlPolicy.EVOLVE if action == Action.TRUNCATE_TABLE and configured is DdlPolicy.RENAME else configured

    return policy


def modes_record(naming: Naming, tables: Iterable[TableName]) -> str:
    """Returns what the progress keeps of the modes of `tables`."""
    if naming.modes is None:
        return ""
    modes = [[*name, str(mode)] for name in sorted(tables) if (mode := naming.mode(name)) is not None]
    return json.dumps(modes) if modes else ""


def changed_modes(
    naming: Naming, recorded_modes: str, tables: Iterable[TableName]
) -> Iterator[tuple[TableName, str, str]]:
    """Yields those of `tables` that have another mode than in `recorded_modes`, the progress' text, with that one and
    the present one, both as texts."""
    before: Mapping[TableName, str] = {
        TableName(database, table).folded: mode for database, table, mode in json.loads(recorded_modes or "[]")
    }
    for name in tables:
        mode = naming.mode(name)
        was, now = before.get(name.folded, ""), "" if mode is None else str(mode)
        if name.table and was != now:
            yield name, was, now


def check_modes(naming: Naming, recorded_modes: str, begun: Iterable[TableName]) -> None:
    """Raises BadConfig if one of the tables `begun` has another mode than in `recorded_modes`, the progress' text."""
    for name, was, now in changed_modes(naming, recorded_modes, begun):
        raise BadConfig(
            f"{name} is {_text(was)} in the target, and the settings say {_text(now)}",
            hint="give what the target was filled with, in [[consumer.table-modes]], with --table-mode or as the"
            " route that merges it; for another table mode fill it again under another --name and a route",
        )


def _moves_key(change: ModeDdl, file: SchemaFile) -> bool:
    old_name = declared_columns(file, change.mode, change.before).old_name
    before = same_names(column.name for column in change.before if column.is_pk)
    added = {column.name for column in change.mode.added}
    key = (column.name for column in change.after if column.is_pk)
    after = {same_name(name) if name in added else old_name(name) for name in key}
    return before != after


def _labelled(column: Column, shape: Shape) -> Column:
    if not column.labelled or column.elements:
        return column
    return replace(column, elements=shape.columns.get(same_name(column.name), Definition()).elements)


def _renaming(mode: TableMode, added_name: str) -> str:
    usual = next(usual for usual in mode.usual if same_name(mode.name(usual)) == same_name(added_name))
    return f'columns = {{ {usual} = "..." }} in its [[consumer.table-modes]]'


def _mode_text(mode: TableMode | None) -> str:
    return _text("" if mode is None else str(mode))


def _text(mode: str) -> str:
    return f"of the table mode {mode}" if mode else "a mirror"
