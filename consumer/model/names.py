"""Names of databases, tables, columns and indexes: which are the same, and how they are quoted."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple, Protocol, TypeVar

NAME_LIMIT = 64
"""The most characters of a database's, table's, column's or consumer's name."""


class TableName(NamedTuple):
    """A table as upstream spells it. A database alone has ``table == ""``. It is a tuple, because rounds look up many
    of them."""

    database: str
    table: str

    def __str__(self) -> str:
        return f"{self.database}.{self.table}" if self.table else self.database

    @property
    def folded(self) -> TableName:
        """A key that is equal for names that TiDB treats as the same."""
        return TableName(same_name(self.database), same_name(self.table))


def without_table_name(table: TableName, sentence: str) -> str:
    """Returns `sentence` of an error, to be printed after the table's name, without repeating that name."""
    return sentence.removeprefix(f"{table}: ")


def same_name(name: str) -> str:
    """Returns a key that is equal for names that a server treats as the same: each character in lower case. ``straße``
    and ``strasse`` are two names."""
    return name.lower() if name.isascii() else "".join(character.lower()[0] for character in name)


def same_names(names: Iterable[str]) -> frozenset[str]:
    """Returns the `same_name` of each."""
    return frozenset(map(same_name, names))


def quote(name: str) -> str:
    """Returns the name as a quoted identifier of MySQL and TiDB."""
    return "`" + name.replace("`", "``") + "`"


def qualified(*names: str) -> str:
    """Returns ``database.table``, quoted."""
    return ".".join(map(quote, names))


def literal(text: str) -> str:
    """Returns `text` as a literal of MySQL and TiDB, for an sql_mode in which backslashes count."""
    return "'" + text.replace("\\", "\\\\").replace("'", "''") + "'"


class _Named(Protocol):
    """A column, an index, or anything else that has a name within a table."""

    @property
    def name(self) -> str: ...


_N = TypeVar("_N", bound=_Named)


def by_name(things: Iterable[_N]) -> dict[str, _N]:
    """Returns each of `things` under the `same_name` of its name."""
    return {same_name(thing.name): thing for thing in things}
