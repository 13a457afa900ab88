"""Columns that a statement turns into others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from consumer.ddl.changes import declared_columns
from consumer.model.columns import Column, Family
from consumer.model.names import by_name, same_name
from consumer.model.steps import ApplyDdl
from consumer.model.types.conversions import Conversion, Way
from consumer.sink.mysql.server.connection import FlavorName

_TEXT_STAYS = (Family.TEXT, Family.BINARY, Family.JSON, Family.ENUM, Family.SET)
"""A server reads the text that becomes one of these as upstream does, or refuses it."""


@dataclass(frozen=True, slots=True)
class Converted:
    """A column of the target's table that a statement turns into another one: its names before and behind it."""

    before: str
    behind: str
    conversion: Conversion

    @property
    def written_before(self) -> bool:
        """Whether its texts are written as upstream reads them, before the statement."""
        old, new = self.conversion.old.family, self.conversion.new.family
        return self.conversion.way is Way.COMPUTED and old is Family.TEXT and new not in _TEXT_STAYS

    def written_behind(self, flavor: FlavorName) -> bool:
        """Whether its values are written again behind the statement, as TiDB writes JSON."""
        old, new = self.conversion.old.family, self.conversion.new.family
        if flavor == "mariadb":  # to which JSON is a text
            return old is Family.TEXT and new is Family.JSON
        return old is Family.JSON and new in (Family.TEXT, Family.BINARY)


def converted_columns(step: ApplyDdl, before: Sequence[Column]) -> tuple[Converted, ...]:
    """Those that an ALTER TABLE turns into others, of a table that has the columns `before`. One of a table that is no
    mirror is changed wherever it is another one than upstream's, else one that the statement declares."""
    mode_ddl = step.mode_ddl
    after = mode_ddl.after if mode_ddl else step.file.columns
    parsed = declared_columns(step.file, mode_ddl.mode if mode_ddl else None, before)
    known = by_name(before)
    found = list[Converted]()
    for column in after:
        old, definition = known.get(parsed.old_name(column.name) or ""), parsed.columns.get(same_name(column.name))
        if old is None or (definition is None and mode_ddl is None) or (definition and definition.generated):
            continue
        told = definition.elements if definition else ()
        conversion = Conversion(old, replace(column, elements=column.elements or told))
        if old.family is not column.family or conversion.way is not Way.KEPT or conversion.refuses_null:
            found.append(Converted(old.name, column.name, conversion))
    return tuple(found)
