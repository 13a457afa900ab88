"""What older rows have in the columns of now: upstream executed the statements, so what it made of them counts.

In a change a value is what it was then: it only has to be a value of the type of now, too. In the state of a table it
is what the statements have made of it.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import tzinfo
from functools import partial

from consumer.ddl.declared import Definition, NotExact, backfill_text
from consumer.model.columns import Column
from consumer.model.files import SchemaFile
from consumer.model.types.conversions import Conversion, Way
from consumer.model.types.texts import number
from consumer.model.types.values import NoValue
from consumer.source.options import Mode
from consumer.verify.known import UNKNOWN, Followed, Made, made_upstream


def followed(mode: Mode, zone: tzinfo) -> Followed:
    """`zone` is the changefeed's."""
    return Followed(_held if mode is Mode.CHANGES else made_upstream, partial(_default, zone=zone))


def _held(old: Column, new: Column) -> Made:
    """What a value of `old` is as one of `new`: it is written alike, but for the number of a label."""
    new = replace(new, nullable=True)  # it could be NULL then
    means_the_same = Conversion(old, new).way in (Way.KEPT, Way.SAME)
    if old.labelled or new.labelled:
        return made_upstream(old, new) if means_the_same else None
    return () if means_the_same or old.family is new.family else None


def _default(statement: SchemaFile, column: Column, definition: Definition, zone: tzinfo) -> str | None:
    if definition.generated:
        return UNKNOWN
    column = replace(column, elements=definition.elements or column.elements)
    try:
        text = backfill_text(column, definition, statement.version, zone)
        return text if text is None or not column.labelled else number(column, text)
    except (NotExact, NoValue):
        return UNKNOWN
