"""What upstream's statements would be on this server, without executing any."""

from __future__ import annotations

from dataclasses import replace

import pymysql

from consumer.ddl.tokens import split_statements
from consumer.errors import DdlRefused
from consumer.model.actions import CREATE_ACTIONS, DATABASE_ACTIONS, DROP_ACTIONS, Action
from consumer.model.names import TableName
from consumer.model.result import TargetDdl
from consumer.model.steps import ApplyDdl
from consumer.sink.mysql.connection import FlavorName
from consumer.sink.mysql.ddl_text import ServerNames, rewritten
from consumer.sink.mysql.errors import translate
from consumer.sink.mysql.schema import is_reserved
from consumer.sink.mysql.trash import Found, find, left_to_do, statements


class DdlPreview:
    """Looks at the statements of a plan one after the other. A table that an earlier one changes is not as the server
    shows it, so it is taken as the statement expects it."""

    def __init__(self, cursor: pymysql.cursors.Cursor, flavor: FlavorName, zone: str) -> None:
        self._cursor, self._server, self._zone = cursor, ServerNames.ask(cursor, flavor), zone
        self._changed: set[TableName] = set()
        self._there = {_folded(name) for name in self._server.tables}

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
            self._changed |= {step.file.name, *step.touches, *filter(None, (step.trash, step.old_name))}

    def _look(self, step: ApplyDdl) -> TargetDdl:
        if is_reserved(step.file.database):
            return TargetDdl(error=f"the database {step.file.database} is the target's own")
        if (missing := self._missing(step)) is not None:
            return TargetDdl(error=f"the target has no table {missing}")
        if step.trash is not None and (moves := self._moves(step, step.trash)):
            return TargetDdl(tuple(moves))
        is_as_shown = step.file.name not in self._changed
        text = rewritten(self._cursor, step, self._server, self._changed, ask=is_as_shown, zone=self._zone)
        return TargetDdl(tuple(split_statements(text.text)), "; ".join(text.notes))

    def _missing(self, step: ApplyDdl) -> TableName | None:
        """The table that the statement changes, where it is not there and no statement before makes it."""
        if step.file.type in CREATE_ACTIONS | DROP_ACTIONS | DATABASE_ACTIONS:
            return None
        name = step.old_name or step.file.name
        return None if name in self._changed or _folded(name) in self._there else name

    def _moves(self, step: ApplyDdl, trash: TableName) -> list[str]:
        if step.file.type == Action.DROP_SCHEMA:
            return left_to_do(self._cursor, step, trash, self._server.flavor)
        found = find(self._cursor, step.file.name, trash, self._server.flavor)
        if step.file.name in self._changed:
            found = Found(kept=found.kept)
        return statements(step, trash, replace(found, kept=found.kept or trash in self._changed))


def _folded(name: TableName) -> tuple[str, str]:
    """Whether case tells two tables apart is up to the server: a name that differs in case alone may be the one."""
    return name.database.lower(), name.table.lower()
