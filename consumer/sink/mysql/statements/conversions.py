"""Columns that a statement converts to another type."""

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
"""A server reads a text that becomes one of these as upstream does, or refuses it."""


@dataclass(frozen=True, slots=True)
class ConvertedColumn:
    """A column of the target's table that a statement converts, by its names before and after the statement."""

    before: str
    after: str
    conversion: Conversion

    @property
    def rewritten_before(self) -> bool:
        """Returns whether its texts are rewritten before the statement, in the form in which upstream reads them."""
        old, new = self.conversion.old.family, self.conversion.new.family
        return self.conversion.way is Way.COMPUTED and old is Family.TEXT and new not in _TEXT_STAYS

    def rewritten_after(self, flavor: FlavorName) -> bool:
        """Returns whether its values are rewritten after the statement, as TiDB writes JSON."""
        old, new = self.conversion.old.family, self.conversion.new.family
        if flavor == "mariadb":  # which stores JSON as text
            return old is Family.TEXT and new is Family.JSON
        return old is Family.JSON and new in (Family.TEXT, Family.BINARY)


def column_conversions(step: ApplyDdl, before: Sequence[Column]) -> tuple[ConvertedColumn, ...]:
    """Returns the columns that an ALTER TABLE converts, of a table that has the columns `before`. In a mirror, these
    are columns that the statement declares. In any other table, every changed column counts."""
    mode_ddl = step.mode_ddl
    after = mode_ddl.after if mode_ddl else step.file.columns
    parsed = declared_columns(step.file, mode_ddl.mode if mode_ddl else None, before)
    columns_before = by_name(before)
    conversions = list[ConvertedColumn]()
    for column in after:
        old, definition = (
            columns_before.get(parsed.old_name(column.name) or ""),
            parsed.columns.get(same_name(column.name)),
        )
        if old is None or (definition is None and mode_ddl is None) or (definition and definition.generated):
            continue
        declared_labels = definition.elements if definition else ()
        conversion = Conversion(old, replace(column, elements=column.elements or declared_labels))
        if old.family is not column.family or conversion.way is not Way.KEPT or conversion.refuses_null:
            conversions.append(ConvertedColumn(old.name, column.name, conversion))
    return tuple(conversions)
