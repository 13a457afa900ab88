"""What upstream's statements do to a table that is no mirror. They are made of the columns before and behind it: the
text is about keys, indexes and defaults that such a table does not have."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from consumer.ddl.changes import declared_columns
from consumer.ddl.declared import Definition, Definitions, NotExact, backfill_text
from consumer.errors import DdlRefused
from consumer.model.actions import CREATE_ACTIONS, Action
from consumer.model.columns import Column, Family
from consumer.model.names import by_name, literal, qualified, quote, same_name
from consumer.model.steps import ApplyDdl
from consumer.model.table_modes import FormedDdl
from consumer.model.times import zone_of
from consumer.sink.closing import closing
from consumer.sink.mysql.statements.merged import Merged, merged_statements, times_stay
from consumer.sink.mysql.tables.types import column_type

_WITHOUT_DEFAULT = ("TINYTEXT", "TEXT", "MEDIUMTEXT", "LONGTEXT", "JSON", "VECTOR", "TIMESTAMP")
_ZERO_DATE = "0000-00-00"
_BLOBS = ("TINYBLOB", "BLOB", "MEDIUMBLOB", "LONGBLOB")


def formed_statements(step: ApplyDdl, formed: FormedDdl, zone: str) -> list[str]:
    """None for a statement about what such a table does not have. `zone` is the changefeed's. Raises DdlRefused."""
    there = qualified(step.name.database, step.name.table)
    for column in formed.after:
        if column.labelled and not column.elements:
            raise DdlRefused(f"nothing tells the labels of column {column.name}")
    if formed.mode.merges:
        return merged_statements(merged_of(step, formed, zone))
    if step.action in CREATE_ACTIONS:
        return [_created(formed, there)]
    if step.action == Action.TRUNCATE_TABLE and not formed.mode.keeps_ended:
        return [f"TRUNCATE TABLE {there}"]
    if step.action == Action.TRUNCATE_TABLE:
        stays = times_stay(formed.after[: -len(formed.mode.added)])
        return [closing(formed, there, step.table, step.file.version, quote, literal, _bytewise, stays)]
    return list(_altered(step, formed, there, zone))


def merged_of(step: ApplyDdl, formed: FormedDdl, zone: str) -> Merged:
    """A statement about a table that others are merged with."""
    said = declared_columns(step.file, formed.mode, formed.before)
    return Merged(step, formed, _declared, lambda column: _assigned(step, column, said, zone))


def _created(formed: FormedDdl, there: str) -> str:
    """TiDB's own collation tells apart whatever upstream does."""
    key = ", ".join(quote(column.name) for column in formed.after if column.is_pk)
    lines = [*map(_declared, formed.after), f"PRIMARY KEY ({key})"]
    return f"CREATE TABLE {there} ({', '.join(lines)}) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin"


def _declared(column: Column) -> str:
    # A server gives a TIMESTAMP that is NOT NULL values of its own, unless it has a default.
    default = " DEFAULT '2000-01-01 00:00:00'" if column.type == "TIMESTAMP" else ""
    # Rows carry vectors as text, as in a mirror.
    kind = "LONGTEXT" if column.family is Family.VECTOR else column_type(column)
    return f"{quote(column.name)} {kind} {f'NOT NULL{default}' if column.is_pk else 'NULL'}"


def _altered(step: ApplyDdl, formed: FormedDdl, there: str, zone: str) -> Iterator[str]:
    said = declared_columns(step.file, formed.mode, formed.before)
    before = by_name(formed.before)
    clauses, fills, stayed, same = list[str](), list[str](), set[str](), list[Column]()
    place = "FIRST"
    for column in formed.after:
        old = _old(column, said, formed)
        if old is None or old not in before:
            default, fill = _backfill(step, column, said, zone)
            clauses.append(f"ADD COLUMN {_declared(column)}{default} {place}")
            fills += fill
        else:
            stayed.add(old)
            same += [column] if column not in formed.mode.added else []
            if _declared(before[old]) != _declared(column):
                clauses.append(f"CHANGE COLUMN {quote(before[old].name)} {_declared(column)}")
        place = f"AFTER {quote(column.name)}"
    clauses += [f"DROP COLUMN {quote(column.name)}" for name, column in before.items() if name not in stayed]
    if clauses:
        yield f"ALTER TABLE {there} {', '.join(clauses)}"
    if fills:
        yield f"UPDATE {there} SET {', '.join([*fills, *times_stay(same)])}"


def _old(column: Column, said: Definitions, formed: FormedDdl) -> str | None:
    """The name, in lower case, that the column had before."""
    return same_name(column.name) if column in formed.mode.added else said.old_name(column.name)


def _assigned(step: ApplyDdl, column: Column, said: Definitions, zone: str) -> str:
    """The assignment that gives the rows that are there a new column's value."""
    default, fill = _backfill(step, column, said, zone)
    return next(iter(fill), f"{quote(column.name)} = {default.removeprefix(' DEFAULT ') or 'NULL'}")


def _backfill(step: ApplyDdl, column: Column, said: Definitions, zone: str) -> tuple[str, Sequence[str]]:
    """What gives the rows that are there a new column's value: a default, or an assignment."""
    definition = said.columns.get(same_name(column.name), Definition())
    try:
        text = backfill_text(column, definition, step.file.version, zone_of(zone))
    except NotExact as error:
        raise DdlRefused(
            f"the rows that are there cannot be given the values of column {column.name}: {error}"
        ) from error
    if text is None:
        return "", ()
    value = _value(column, text)
    if column.type == "TIMESTAMP":
        zero = text.startswith(_ZERO_DATE)  # it is the same in every zone, and CONVERT_TZ takes it for none
        moment = value if zero else f"CONVERT_TZ({value}, '+00:00', @@session.time_zone)"
        return "", [f"{quote(column.name)} = {moment}"]
    if column.type in _WITHOUT_DEFAULT or column.type in _BLOBS:
        return "", [f"{quote(column.name)} = {value}"]
    return f" DEFAULT {value}", ()


def _value(column: Column, text: str) -> str:
    match column.family:
        case Family.BINARY:
            return f"x'{text.encode().hex()}'"
        case Family.BIT:
            return text
        case Family.YEAR:
            return str(int(text))  # as a text, 0 is the year 2000
        case _:
            return literal(text)


def _bytewise(column: Column) -> str:
    return f"CAST({quote(column.name)} AS BINARY)" if column.family is Family.TEXT else quote(column.name)
