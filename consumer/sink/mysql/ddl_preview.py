"""What upstream's statements would be on this server, without executing any."""

from __future__ import annotations

from dataclasses import replace

import pymysql

from consumer.ddl.tokens import split_statements
from consumer.errors import DdlRefused
from consumer.model.actions import Action
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
        if step.trash is not None and (moves := self._moves(step, step.trash)):
            return TargetDdl(tuple(moves))
        is_as_shown = step.file.name not in self._changed
        text = rewritten(self._cursor, step, self._server, self._changed, ask=is_as_shown, zone=self._zone)
        return TargetDdl(tuple(split_statements(text.text)), "; ".join(text.notes))

    def _moves(self, step: ApplyDdl, trash: TableName) -> list[str]:
        if step.file.type == Action.DROP_SCHEMA:
            return left_to_do(self._cursor, step, trash, self._server.flavor)
        found = find(self._cursor, step.file.name, trash, self._server.flavor)
        if step.file.name in self._changed:
            found = Found(kept=found.kept)
        return statements(step, trash, replace(found, kept=found.kept or trash in self._changed))
