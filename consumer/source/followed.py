"""What older rows have in the columns of now: upstream executed the statements, so what it made of them counts.

In a change a value is what it was then: it only has to be a value of the type of now, too. In the state of a table it
is what the statements have left of it, which is known where they keep each value.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import tzinfo
from functools import partial

import pyarrow as pa

from consumer.codec.typed import typed_type
from consumer.ddl.declared import Definition, NotExact, backfill_text
from consumer.model.columns import Column, Family
from consumer.model.files import SchemaFile
from consumer.model.load import LoadTarget
from consumer.source.options import Mode
from consumer.verify.known import UNKNOWN, Followed, keeps

_AS_TEXT = frozenset({Family.INTEGER, Family.DECIMAL, Family.TIME, Family.DATE, Family.DATETIME, Family.JSON})
"""What is written as a text of it is."""
_WHOLE = frozenset({Family.INTEGER, Family.BIT})
_NUMBERS = _WHOLE | {Family.DECIMAL, Family.DOUBLE}
_WITH_DIGITS = frozenset({Family.DECIMAL, Family.DATETIME, Family.TIMESTAMP})


def followed(mode: Mode, zone: tzinfo, target: LoadTarget) -> Followed:
    """`zone` is the changefeed's, `target` the table as it is at the end."""

    def keeps(old: Column, new: Column, position: int) -> bool:
        if mode is Mode.CHANGES:
            return _holds(old, new)
        return _keeps(old, new) and (_is_written_alike(old, new) or not _is_told_by_text(target, position))

    return Followed(keeps, partial(_default, zone=zone))


def _is_written_alike(old: Column, new: Column) -> bool:
    """Whether `new` has as many digits behind the point, where its values have these."""
    return new.family not in _WITH_DIGITS or (old.scale or 0) == (new.scale or 0)


def _is_told_by_text(target: LoadTarget, position: int) -> bool:
    """Whether how a value is written counts: it is given as a text, or it tells rows apart."""
    return not target.key or position in target.key or pa.types.is_string(typed_type(target.columns[position]))


def _holds(old: Column, new: Column) -> bool:
    """Whether a value of `old` is written as the same value of `new` is."""
    if old.family is new.family:
        return not old.labelled or _keeps_labels(old, new)
    if new.family is Family.TEXT:
        return old.family in _AS_TEXT
    return old.family in _WHOLE and new.family in _NUMBERS


def _keeps(old: Column, new: Column) -> bool:
    """Whether the statement leaves every value that it lets through. A NULL where the column has become NOT NULL is
    found later."""
    if old.family is not new.family or keeps(replace(old, nullable=new.nullable), new):
        return _holds(old, new)
    before, after = (column.scale or 0 for column in (old, new))
    match old.family:
        case Family.ENUM | Family.SET | Family.TIME:
            return False
        case Family.TEXT:
            return not (new.type == "CHAR" != old.type)  # which loses blanks at the end
        case Family.BINARY:
            return new.type != "BINARY"  # which fills with zeros
        case Family.DATETIME | Family.TIMESTAMP | Family.DECIMAL:
            return after >= before
        case _:
            return True


def _keeps_labels(old: Column, new: Column) -> bool:
    return keeps(replace(old, nullable=new.nullable), new)


def _default(statement: SchemaFile, column: Column, definition: Definition, zone: tzinfo) -> str | None:
    if definition.generated:
        return UNKNOWN
    column = replace(column, elements=definition.elements or column.elements)
    try:
        text = backfill_text(column, definition, statement.version, zone)
    except NotExact:
        return UNKNOWN
    return text if text is None or not column.labelled else _number(column, text)


def _number(column: Column, text: str) -> str:
    """As change tables have labels."""
    if column.family is Family.ENUM:
        return str(column.elements.index(text) + 1) if text in column.elements else UNKNOWN
    wanted = [label for label in text.split(",") if text]
    known = all(label in column.elements for label in wanted)
    return str(sum(1 << column.elements.index(label) for label in wanted)) if known else UNKNOWN
