"""Forms of tables: which columns the target's tables have, what statements do to them, and what is refused."""

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
    """The columns of the target's table of `table`: those of `columns` that rows have, with ``is_pk`` for upstream's
    key, and those that the mode adds. Raises CannotBeExact."""
    key = shape.handle_key(columns) or ()
    rules = "the route" if mode.merges else "[[consumer.table-modes]]"
    if not key:
        raise CannotBeExact(
            f"it has no key, so nothing tells a change from the same change sent again, and the mode {mode} needs that",
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
    found = (replace(column, name=chosen.name(column.name), is_pk=column.name in key) for column in kept)
    return (*found, *added)


def stored_columns(columns: Sequence[Column], shape: Shape) -> Iterator[Column]:
    """Those of `columns` that rows have."""
    for column in columns:
        if not column.hidden and not shape.columns.get(same_name(column.name), Definition()).virtual:
            yield _labelled(column, shape)


def mode_ddl(statement: Statement) -> ModeDdl | None:
    """What the statement does to a table with a mode; None for a mirror, and for what means the same for all modes.
    Raises DdlRefused, without the statement's text."""
    file, mode = statement.file, statement.naming.mode(statement.file.name)
    if mode is not None and mode.merges and statement.action in _REMOVING:
        return ModeDdl(mode, (), mode.added)
    if mode is None or statement.action in _AS_WRITTEN or statement.shapes is None:
        return None
    before, after = statement.shapes(file)
    creates, columns = statement.action in CREATE_ACTIONS, statement.known.columns
    if not creates and columns is None:
        raise DdlRefused(
            f"nothing tells what the table was before, which has the table mode {mode} in the target",
            code=Code.RULES_CONFLICT,
        )
    if mode.chosen is not None:
        _check_chosen(mode.chosen, file, () if creates or columns is None else columns, creates)
    try:
        found = ModeDdl(
            mode,
            () if creates or columns is None else mode_columns(mode, file.name, columns, before),
            mode_columns(mode, file.name, file.columns, after),
        )
    except CannotBeExact as error:
        raise DdlRefused(error.message, hint=error.hint, code=error.code) from error
    if not creates and _moves_key(found, file):
        raise DdlRefused(
            f"it changes the key, by which a table with the mode {mode} finds its rows", code=Code.RULES_CONFLICT
        )
    if not creates and mode.merges:
        _check_columns(found, file)
    return found


def _check_chosen(chosen: Chosen, file: SchemaFile, before: Sequence[Column], creates: bool) -> None:
    """Raises DdlRefused where the target's columns would not be upstream's behind the statement."""
    if creates and (lost := chosen.lacking([column.name for column in file.columns])):
        raise DdlRefused(
            f"[[consumer.columns]] gives columns of it that it does not have ({', '.join(lost)})",
            hint="correct the name, or write it with a * where the column comes later",
            code=Code.RULES_CONFLICT,
        )
    old_name = declared_columns(file, None, before).old_name
    left = same_names(c.name for c in before if not chosen.keeps(c.name))
    for column in file.columns:
        if chosen.keeps(column.name) and (old := old_name(column.name)) in left:
            raise DdlRefused(
                f"it renames column {old}, of which the target has no values, to {column.name}, of which it has",
                hint="leave the new name out too (fill the table again under another --name), or the table (--tables)",
                code=Code.RULES_CONFLICT,
            )


def _check_columns(found: ModeDdl, file: SchemaFile) -> None:
    """Other tables have the columns of a merged one too, and not at the same time as this one."""
    said = declared_columns(file, found.mode, found.before)
    before = {same_name(column.name): column for column in found.before}
    for column in found.after[: -len(found.mode.added)]:
        old = before.get(said.old_name(column.name) or "")
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


def check_beside(statement: Statement) -> None:
    """Raises DdlRefused for a statement that cannot mean beside tables with modes what it means upstream, without its
    text."""
    file, naming, action = statement.file, statement.naming, statement.action
    if naming.modes is None or action in DATABASE_ACTIONS:
        return
    own = None if action in (Action.CREATE_VIEW, Action.DROP_VIEW) else naming.mode(file.name)
    _check_merged(statement)
    if action in RENAME_ACTIONS or action == Action.RECOVER_TABLE:
        source = recovered_table(file) if action == Action.RECOVER_TABLE else statement.old_name
        other = None if source is None else naming.mode(source)
        if other != own:
            raise DdlRefused(
                f"{source} is {_said(other)} in the target, and {file.name} {_said(own)}", code=Code.RULES_CONFLICT
            )
    elif own is not None:
        if takes_rows(file):
            raise DdlRefused(
                f"which rows are in a partition is not known of a table with the mode {own}", code=Code.RULES_CONFLICT
            )
    elif (named := _named(statement)) is not None:
        kind = kind_of(action)
        raise DdlRefused(
            f"it names {named}, which is {_said(naming.mode(named))} in the target, and not what upstream has",
            hint="do by hand what the statement should mean there, then: "
            + skip_ddl_command(file.name, file.version)
            + (f"; or let [consumer.ddl] ignore {kind} for such tables" if kind not in NEVER_IGNORED else ""),
            code=Code.RULES_CONFLICT,
        )


def _check_merged(statement: Statement) -> None:
    """What is done to one of several merged tables as a whole must be about its rows only."""
    file, naming, action = statement.file, statement.naming, statement.action
    moved: set[TableName] = {had.name for had in statement.former}
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
    """Another table with a mode that the statement is about."""
    file = statement.file
    others = sorted({*statement.touches, *written_tables(file)}.difference(statement.behind, [file.name]))
    return next((name for name in others if statement.naming.mode(name) is not None), None)


def keeping(policy_of: PolicyOf, naming: Naming) -> PolicyOf:
    """`policy_of`, but for tables with a mode, which no statement takes away: a DROP TABLE keeps them under a trash
    name. A TRUNCATE TABLE leaves them where they are, as it is only the end of rows."""
    if naming.modes is None:
        return policy_of

    def policy(action: Action, table: TableName, query: str = "") -> DdlPolicy:
        found = policy_of(action, table, query)
        if naming.merges(table):
            # A column that another table has brought would be there, and this one's rows without their values.
            lost = found is DdlPolicy.IGNORE and action in _BRINGING
            return DdlPolicy.FAIL if lost else found
        mode = naming.mode(table)
        if mode is None or not mode.keeps_ended:
            return found
        if action == Action.DROP_TABLE and found is DdlPolicy.EVOLVE:
            return DdlPolicy.RENAME
        return DdlPolicy.EVOLVE if action == Action.TRUNCATE_TABLE and found is DdlPolicy.RENAME else found

    return policy


def recorded(naming: Naming, tables: Iterable[TableName]) -> str:
    """What the progress keeps of the modes of `tables`."""
    if naming.modes is None:
        return ""
    found = [[*name, str(mode)] for name in sorted(tables) if (mode := naming.mode(name)) is not None]
    return json.dumps(found) if found else ""


def check_modes(naming: Naming, known: str, begun: Iterable[TableName]) -> None:
    """Raises BadConfig where one of the tables `begun` has another mode than the progress has it in, `known`."""
    before: Mapping[TableName, str] = {
        TableName(database, table).folded: mode for database, table, mode in json.loads(known or "[]")
    }
    for name in begun:
        mode = naming.mode(name)
        was, now = before.get(name.folded, ""), "" if mode is None else str(mode)
        if name.table and was != now:
            raise BadConfig(
                f"{name} is {_text(was)} in the target, and the settings say {_text(now)}",
                hint="give what the target was filled with, in [[consumer.table-modes]], with --table-mode or as the"
                " route that merges it; for another table mode fill it again under another --name and a route",
            )


def _moves_key(found: ModeDdl, file: SchemaFile) -> bool:
    old_name = declared_columns(file, found.mode, found.before).old_name
    before = same_names(column.name for column in found.before if column.is_pk)
    added = {column.name for column in found.mode.added}
    key = (column.name for column in found.after if column.is_pk)
    after = {same_name(name) if name in added else old_name(name) for name in key}
    return before != after


def _labelled(column: Column, shape: Shape) -> Column:
    if not column.labelled or column.elements:
        return column
    return replace(column, elements=shape.columns.get(same_name(column.name), Definition()).elements)


def _renaming(mode: TableMode, own: str) -> str:
    usual = next(usual for usual in mode.usual if same_name(mode.name(usual)) == same_name(own))
    return f'columns = {{ {usual} = "..." }} in its [[consumer.table-modes]]'


def _said(mode: TableMode | None) -> str:
    return _text("" if mode is None else str(mode))


def _text(mode: str) -> str:
    return f"of the table mode {mode}" if mode else "a mirror"
