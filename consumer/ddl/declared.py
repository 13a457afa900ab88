"""What only the statements' text shows of columns: generated ones, ENUM and SET labels, old names, bit defaults; and
what existing rows get for a new column."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, tzinfo

from consumer.ddl.definitions import ColumnDefinition, ParsedStatement, name_in, renamed_columns
from consumer.ddl.tokens import TokenKind, Tokens, closing, starts, string_value
from consumer.errors import DdlRefused
from consumer.model.columns import Column, Family, known_type
from consumer.model.names import same_name, same_names
from consumer.model.table_modes import Chosen
from consumer.model.times import tso_to_ms
from consumer.model.types.texts import SIZES


@dataclass(frozen=True, slots=True)
class Definition:
    """One column as a statement declares it. `bits` is its default if that is written as a number or bit string.
    `computed`: its default is an expression, which the schema file has as if it were a text. `literal` is a default
    other than NULL if that is a text, a whole number or the statement's moment, else MORE."""

    generated: bool = False
    virtual: bool = False
    elements: tuple[str, ...] = ()
    bits: int | None = None
    computed: bool = False
    literal: str | None = None


_PLAIN = Definition()

_HIDDEN = "_tidb_"
"""The beginning of the names of columns that TiDB creates and hides."""


@dataclass(frozen=True, slots=True)
class Definitions:
    """Everything that one CREATE TABLE or ALTER TABLE declares. Column names are in lower case.

    `renamed` maps a column's new name to its old one, `dropped` are removed columns, `added` are new ones; those of
    `unless_there` are only added if no column has the name.
    """

    columns: Mapping[str, Definition] = field(default_factory=dict)
    renamed: Mapping[str, str] = field(default_factory=dict)
    dropped: frozenset[str] = frozenset()
    added: frozenset[str] = frozenset()
    unless_there: frozenset[str] = frozenset()

    def old_name(self, column: str) -> str | None:
        """Returns the name, in lower case, that a column of the table had before the statement; None for one that it
        adds, even if it drops another of that name."""
        lowered = same_name(column)
        return None if lowered in self.added else self.renamed.get(lowered, lowered)

    def unnamed(self, before: Iterable[Column] | None, after: Iterable[Column]) -> list[Column]:
        """Returns the hidden columns that TiDB created in addition to those that the statement names, as
        `_tidb_softdelete_time` of a table with SOFTDELETE: nullable and without a default. The table has the columns
        `after` then, and had `before` (None: it is new). Any other column that no statement names comes from a
        statement that is not in the storage."""
        columns_before = self.columns.keys() if before is None else same_names(column.name for column in before)
        named = {*columns_before, *self.added, *self.renamed}
        hidden = [column for column in after if same_name(column.name).startswith(_HIDDEN)]
        return [c for c in hidden if same_name(c.name) not in named and c.nullable and c.default is None]

    def beside(self, table_columns: Iterable[str]) -> Definitions:
        """Returns what it declares for a table that has the columns `there`. A column that it adds IF NOT EXISTS, and
        neither drops nor renames, stays as it is."""
        stayed = (self.unless_there & self.added & same_names(table_columns)) - self.dropped - {*self.renamed.values()}
        if not stayed:
            return self
        kept = {name: definition for name, definition in self.columns.items() if name not in stayed}
        return replace(self, columns=kept, added=self.added - stayed)

    def called(self, chosen: Chosen) -> Definitions:
        """Returns the same in the names of a target that has the `chosen` columns."""

        def names(columns: Iterable[str]) -> Iterator[tuple[str, str]]:
            return ((name, same_name(chosen.name(name))) for name in columns if chosen.keeps(name))

        lost = (old for new, old in self.renamed.items() if not chosen.keeps(new))
        return Definitions(
            {new: self.columns[name] for name, new in names(self.columns)},
            {new: same_name(chosen.name(self.renamed[name])) for name, new in names(self.renamed)},
            frozenset(new for _, new in names({*self.dropped, *lost})),
            frozenset(new for _, new in names(self.added)),
            frozenset(new for _, new in names(self.unless_there)),
        )

    def after(self, before: Mapping[str, Definition]) -> dict[str, Definition]:
        """Returns what is known of the columns once the statement has run."""
        moved = {new: before[old] for new, old in self.renamed.items() if old in before}
        kept = {
            name: definition
            for name, definition in before.items()
            if name not in {*self.renamed.values(), *self.dropped}
        }
        return {**kept, **moved, **self.beside(before).columns}


def declared_definitions(statement: ParsedStatement) -> Definitions:
    """Returns what a CREATE TABLE or ALTER TABLE declares; any other statement declares nothing."""
    columns = {same_name(column.name): _definition(column) for column in statement.columns}
    renamed = {new: old for old, new in renamed_columns(statement.members)}
    return Definitions(
        columns,
        renamed,
        frozenset(same_name(name_in(m.tokens, 2)) for m in statement.members if starts(m.tokens, "DROP", "COLUMN")),
        # Upstream has executed it: a column that it adds under a name that it also gives existed before (IF NOT
        # EXISTS).
        same_names(statement.added_columns()) - renamed.keys(),
        same_names(statement.added_columns(unless_there=True)),
    )


def _definition(column: ColumnDefinition) -> Definition:
    tokens = column.tokens
    elements: tuple[str, ...] = ()
    if len(tokens) > 1 and tokens[1].word in ("ENUM", "SET"):
        # TiDB keeps labels without their trailing blanks.
        labels = tokens[3 : closing(tokens, 2)]
        elements = tuple(string_value(token).rstrip(" ") for token in labels if token.kind is TokenKind.STRING)
    generated = column.find("AS", "(") is not None
    virtual = generated and not (column.has("STORED") or column.has("PERSISTENT"))
    at = column.find("DEFAULT")
    default = () if at is None else tokens[at + 1 : at + 3]
    computed = at is not None and _is_computed(tokens, at + 1)
    definition = Definition(generated, virtual, elements, _bits(default), computed, _literal(tokens, at))
    return _PLAIN if definition == _PLAIN else definition  # most are plain, and share one object


MORE = "\0"
"""Stands in place of a default that is not recorded here."""


def _literal(tokens: Tokens, at: int | None) -> str | None:
    if at is None or at + 1 >= len(tokens) or tokens[at + 1].word == "NULL":
        return None
    first = tokens[at + 1]
    if first.kind is TokenKind.STRING:
        return string_value(first)
    text = "".join(token.text for token in tokens[at + 1 : at + 3]) if first.text == "-" else first.text
    return text if _NOW.fullmatch(text) or _WHOLE.fullmatch(text) else MORE


def _is_computed(tokens: Tokens, at: int) -> bool:
    """Returns whether an expression that is more than a literal stands in parentheses at `at`."""
    inside = tokens[at : closing(tokens, at)] if starts(tokens, "(", at=at) else ()
    return any(token.word and not token.word.startswith("_") for token in inside)


def _bits(tokens: Tokens) -> int | None:
    """Returns ``b'101'``, ``x'0f'``, ``0x0f``, ``0b11``, ``5`` as a number."""
    if not tokens:
        return None
    first = tokens[0].text.lower()
    if first in ("b", "x") and len(tokens) > 1 and tokens[1].kind is TokenKind.STRING:
        return int(string_value(tokens[1]) or "0", 2 if first == "b" else 16)
    if re.fullmatch(r"0x[0-9a-f]+|0b[01]+", first):
        return int(first, 0)
    return int(first) if first.isdecimal() else None


_NOW = re.compile(r"(current_timestamp|now|localtimestamp|localtime|current_date|curdate)(\(\d?\))?", re.IGNORECASE)
_WHOLE = re.compile(r"-?\d+")
_NUMBER = re.compile(r"-?[0-9]+(\.[0-9]*)?")
_TIMES = frozenset({Family.DATETIME, Family.TIMESTAMP})
_MOMENTS = _TIMES | {Family.DATE, Family.TIME}
_NUMERIC_ZERO = frozenset({Family.INTEGER, Family.BIT, Family.YEAR, Family.FLOAT, Family.DOUBLE})


class NoExactValue(Exception):
    """There is no value, or no expression, that gives what upstream has."""


def backfill_text(column: Column, definition: Definition, version: int, zone: tzinfo) -> str | None:
    """Returns the default of `column` as canal-JSON writes values, but with labels, and texts for bytes; or, as
    MySQL does, the zero of its type. None is NULL. CURRENT_TIMESTAMP is the time of `version` in `zone`. Raises
    NoExactValue."""
    if column.default is not None:
        return _default(column, definition, column.default, version, zone)
    if (text := definition.literal) is not None:  # TiCDC's schema files had no defaults before v6.5.3 and v7.1.1
        now = column.family in _TIMES and _NOW.fullmatch(text)
        is_integer = column.family is Family.INTEGER and _WHOLE.fullmatch(text)
        if text == MORE or not (now or is_integer or column.family is Family.TEXT or column.labelled):
            raise NoExactValue("its default, which the schema files of this release of TiCDC do not have")
        return _default(column, definition, text, version, zone)
    return None if column.nullable else _zero(column)


def _zero(column: Column) -> str:
    """Returns the value that MySQL gives the old rows of a NOT NULL column with no default."""
    if column.family in _NUMERIC_ZERO:
        return "0"
    fraction = f".{'0' * column.scale}" if column.scale else ""
    match column.family:
        case Family.DECIMAL:
            return f"0{fraction}"
        case Family.TEXT | Family.SET:
            return ""
        case Family.BINARY:
            return "\0" * (column.length or 0) if column.type == "BINARY" else ""
        case Family.ENUM:
            return column.elements[0] if column.elements else "1"
        case Family.DATE:
            return "0000-00-00"
        case Family.DATETIME | Family.TIMESTAMP:
            return f"0000-00-00 00:00:00{fraction}"
        case Family.TIME:
            return f"00:00:00{fraction}"
        case Family.JSON:
            return "null"
        case _:
            raise NoExactValue(f"a NOT NULL {column.type} with no default")


def is_moment(column: Column, definition: Definition) -> bool:
    """Returns whether the default of `column` is the time of the statement, or of a row."""
    text = column.default if column.default is not None else definition.literal
    return text is not None and column.family in _MOMENTS and _NOW.fullmatch(text) is not None


def _default(column: Column, definition: Definition, text: str, version: int, zone: tzinfo) -> str:
    if definition.computed and not is_moment(column, definition):
        raise NoExactValue(f"the default {text}, which upstream computed")
    match column.family:
        case Family.BIT:
            return str(_bits_of_text(definition, text))
        case Family.BINARY:
            if "\ufffd" in text:
                raise NoExactValue("a default that is not text; the schema file does not keep it")
            return text.ljust(column.length or 0, "\0") if column.type == "BINARY" else text
        case Family.DATETIME | Family.TIMESTAMP | Family.DATE | Family.TIME:
            return _time(column, text, version, zone)
        case _ if column.labelled and not column.elements:
            raise NoExactValue("a default of labels that no statement in the storage declares")
        case Family.DECIMAL if _NUMBER.fullmatch(text) and column.scale:
            integer_part, _, fraction = text.partition(".")
            return f"{integer_part}.{fraction.ljust(column.scale, '0')}"
        case _:
            return text


def _bits_of_text(definition: Definition, text: str) -> int:
    """Returns the bits. The schema file has the bytes; it has lost those that are no UTF-8, but the statement has
    them."""
    if definition.bits is not None:
        return definition.bits
    if "\ufffd" in text:
        raise NoExactValue("a BIT default that the schema file does not keep")
    return int.from_bytes(text.encode(), "big")


def _time(column: Column, text: str, version: int, zone: tzinfo) -> str:
    if _NOW.fullmatch(text):
        # The version has milliseconds; upstream's statement had microseconds, which the files do not keep.
        kept_in = UTC if column.family is Family.TIMESTAMP else zone
        text = _written(datetime.fromtimestamp(tso_to_ms(version) / 1000, kept_in))
    if column.family is Family.DATE:
        return text[:10]
    seconds, _, fraction = text.partition(".")
    return f"{seconds}.{fraction[: column.scale].ljust(column.scale, '0')}" if column.scale else seconds


def _written(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%d %H:%M:%S.%f")


_LENGTHS = {
    "FLOAT": 12, "DOUBLE": 22, "DECIMAL": 10, "BIT": 1, "YEAR": 4, "CHAR": 1, "BINARY": 1,
    **SIZES,
}  # fmt: skip
"""The lengths if the statement has none."""
_UNSIGNED = frozenset({Family.BIT, Family.YEAR})
_TIMES = frozenset({Family.TIME, Family.DATETIME, Family.TIMESTAMP})


def created_columns(statement: ParsedStatement) -> tuple[Column, ...]:
    """Returns the columns that a CREATE TABLE declares, in order, as TiCDC's schema files describe them, but without
    defaults. Raises DdlRefused for a type that TiDB does not have."""
    parts = (part for index in statement.indexes if index.kind == "PRIMARY" for part in index.parts)
    primary = same_names(part.column for part in parts if part.column is not None)
    labels = {name: definition.elements for name, definition in declared_definitions(statement).columns.items()}
    return tuple(_column(column, primary, labels[same_name(column.name)]) for column in statement.columns)


def _column(definition: ColumnDefinition, primary: Collection[str], elements: tuple[str, ...]) -> Column:
    kind = definition.tokens[1].word
    if not known_type(kind):
        raise DdlRefused(f"column {definition.name} has the type {definition.tokens[1].text}, which TiDB does not have")
    sizes = _sizes(definition.tokens)
    column = Column(definition.name, kind, elements=elements)
    is_key = same_name(definition.name) in primary or definition.has("PRIMARY", "KEY")
    unsigned = column.family in _UNSIGNED or definition.has("UNSIGNED") or definition.has("ZEROFILL")
    if column.family in _TIMES:
        length, scale = None, next(iter(sizes), None)
    else:
        length, scale = next(iter(sizes), _LENGTHS.get(kind)), next(iter(sizes[1:]), None)
    length = None if column.family is Family.VECTOR else length
    nullable = not is_key and not definition.has("NOT", "NULL")
    return replace(column, unsigned=unsigned, length=length, scale=scale, nullable=nullable, is_pk=is_key)


def _sizes(tokens: Tokens) -> list[int]:
    """Returns the numbers in parentheses after the type."""
    inside = tokens[3 : closing(tokens, 2)] if starts(tokens, "(", at=2) else ()
    return [int(token.text) for token in inside if token.kind is TokenKind.NUMBER]
