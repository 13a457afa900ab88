"""What upstream's statements would be on this server, without executing any."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pymysql

from consumer.ddl.changes import Changes, compiled
from consumer.ddl.definitions import statement_of
from consumer.ddl.indexes import after, copied
from consumer.errors import DdlRefused
from consumer.model.actions import CREATE_ACTIONS, DATABASE_ACTIONS, DROP_ACTIONS, INDEX_ACTIONS, RENAME_ACTIONS, Action
from consumer.model.names import TableName
from consumer.model.result import TargetDdl
from consumer.model.steps import ApplyDdl
from consumer.model.table_definition import UNTOLD, TableIndexes
from consumer.sink.mysql.progress.schema import is_reserved
from consumer.sink.mysql.server.connection import FlavorName
from consumer.sink.mysql.server.errors import translate
from consumer.sink.mysql.statements.text import ServerNames, StatementText, TargetNow, text_of
from consumer.sink.mysql.statements.trash import Found, find, left_to_do, statements


@dataclass(frozen=True, slots=True)
class _Table:
    """A table as the plan leaves it: where it is on the server `today` (None: not yet there), and what the plan's
    statements do to it. `likened`: it began as a copy of that."""

    today: TableName | None
    changes: tuple[Changes, ...] = ()
    likened: bool = False


class _PlannedTarget(TargetNow):
    """The server's tables as the statements looked at so far will have left them."""

    def __init__(self, cursor: pymysql.cursors.Cursor) -> None:
        super().__init__(cursor)
        self._tables: dict[TableName, _Table] = {}

    def indexes(self, table: TableName) -> TableIndexes:
        place = self._at(table)
        found = UNTOLD if place.today is None else super().indexes(place.today)
        for change in place.changes:
            found = after(found, change.indexes, 0)
        return copied(found) if place.likened else found

    def by_key(self, table: TableName) -> bool:
        today = self._at(table).today
        return today is not None and super().by_key(today)

    def follow(self, step: ApplyDdl, text: StatementText | None) -> None:
        """Take in a step; `text` is None for one that moves its table to the trash, or back."""
        name, action = step.name, step.file.type
        if action in RENAME_ACTIONS:
            self._move(step.old_name, name)
        elif action == Action.RECOVER_TABLE:
            self._move(step.trash, name)
        elif action in DROP_ACTIONS:
            self._move(name, step.trash if text is None else None)
        elif text is not None and action in CREATE_ACTIONS | INDEX_ACTIONS:
            done = tuple(compiled(statement_of(statement)) for statement in text.statements)
            place = _Table(None) if action in CREATE_ACTIONS else self._at(name)
            source = done[0].named("like") if done else None
            if source is not None:
                like = source.within(step.name.database)
                place, done = replace(self._at(like), likened=True), ()
            self._tables[name] = replace(place, changes=(*place.changes, *done))

    def _at(self, table: TableName) -> _Table:
        return self._tables.get(table, _Table(table))

    def _move(self, old: TableName | None, new: TableName | None) -> None:
        place = _Table(None) if old is None else self._at(old)
        if old is not None:
            self._tables[old] = _Table(None)
        if new is not None:
            self._tables[new] = place


class DdlPreview:
    """Looks at the statements of a plan one after the other, each where the earlier ones leave the target."""

    def __init__(self, cursor: pymysql.cursors.Cursor, flavor: FlavorName, zone: str) -> None:
        self._cursor, self._server, self._zone = cursor, ServerNames(cursor, flavor), zone
        self._target = _PlannedTarget(cursor)
        self._changed: set[TableName] = set()
        self._there = {name.folded for name in self._server.tables}

    def look(self, step: ApplyDdl) -> TargetDdl:
        """The statements of `step`. pymysql's errors pass through, but for those about the statement alone."""
        try:
            return self._look(step)
        except DdlRefused as refusal:
            return TargetDdl(error=refusal.message)
        except pymysql.MySQLError as error:
            known = translate(error, "ddl")
            if not isinstance(known, DdlRefused):
                raise
            return TargetDdl(error=known.message)
        finally:
            self._changed |= {step.name, *step.touches, *filter(None, (step.trash, step.old_name))}

    def _look(self, step: ApplyDdl) -> TargetDdl:
        if is_reserved(step.name.database):
            return TargetDdl(error=f"the database {step.name.database} is the target's own")
        if (missing := self._missing(step)) is not None:
            return TargetDdl(error=f"the target has no table {missing}")
        if step.trash is not None and (moves := self._moves(step, step.trash)):
            self._target.follow(step, None)
            return TargetDdl(tuple(moves))
        text = text_of(step, self._server, self._target, self._changed, zone=self._zone)
        self._target.follow(step, text)
        return TargetDdl(text.statements, "; ".join(text.notes))

    def _missing(self, step: ApplyDdl) -> TableName | None:
        """The table that the statement changes, where it is not there and no statement before makes it."""
        if step.file.type in CREATE_ACTIONS | DROP_ACTIONS | DATABASE_ACTIONS:
            return None
        name = step.old_name or step.name
        return None if name in self._changed or name.folded in self._there else name

    def _moves(self, step: ApplyDdl, trash: TableName) -> list[str]:
        if step.file.type == Action.DROP_SCHEMA:
            return left_to_do(self._cursor, step, trash, self._server.flavor)
        found = find(self._cursor, step.name, trash, self._server.flavor)
        if step.name in self._changed:
            found = Found(in_trash=found.in_trash)
        return statements(step, trash, replace(found, in_trash=found.in_trash or trash in self._changed))
