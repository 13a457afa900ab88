"""Names of upstream tables, and TSO arithmetic.

In all packages, whole numbers called ``.._ts``, `version`, `watermark`, `checkpoint`, `after` and `end` are TSOs (see
`tso_to_ms`), and `bytes` and `size` are bytes; `seconds` are seconds, and `modified` is in ns since 1970.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import NamedTuple, Protocol, TypeVar

LOGICAL_BITS = 18
NAME_LIMIT = 64
"""Characters of a database's, table's, column's or consumer's name."""
MAX_TSO = (1 << 63) - 1
"""Above every commit-ts: "to the end of the storage"."""


class TableName(NamedTuple):
    """A table as upstream spells it. A database alone has ``table == ""``. A tuple, because rounds look up many of
    them."""

    database: str
    table: str

    def __str__(self) -> str:
        return f"{self.database}.{self.table}" if self.table else self.database

    @property
    def folded(self) -> TableName:
        """A key that is equal for names that TiDB treats as the same."""
        return TableName(same_name(self.database), same_name(self.table))


def behind_name(table: TableName, sentence: str) -> str:
    """`sentence` of an error to print behind the table's name, without repeating that name."""
    return sentence.removeprefix(f"{table}: ")


def tso_to_ms(tso: int) -> int:
    """The physical part of a TSO: milliseconds since 1970."""
    return tso >> LOGICAL_BITS


def ms_to_tso(milliseconds: int) -> int:
    """The first TSO of a millisecond."""
    return milliseconds << LOGICAL_BITS


def tso_to_time(tso: int) -> datetime:
    """The physical part of a TSO as a UTC time."""
    return datetime.fromtimestamp(tso_to_ms(tso) / 1000, UTC)


def tso_to_text(tso: int) -> str:
    """`tso_to_time` as SQL writes it, with microseconds."""
    return tso_to_time(tso).strftime("%Y-%m-%d %H:%M:%S.%f")


def same_name(name: str) -> str:
    """A key that is equal for names that a server treats as the same: each character in lower case. ``straße`` and
    ``strasse`` are two names."""
    return name.lower() if name.isascii() else "".join(character.lower()[0] for character in name)


def same_names(names: Iterable[str]) -> frozenset[str]:
    """The `same_name` of each."""
    return frozenset(map(same_name, names))


def quote(name: str) -> str:
    """As an identifier of MySQL and TiDB, quoted."""
    return "`" + name.replace("`", "``") + "`"


def qualified(*names: str) -> str:
    """``database.table``, quoted."""
    return ".".join(map(quote, names))


def literal(text: str) -> str:
    """`text` as a literal of MySQL and TiDB, under an sql_mode in which backslashes count."""
    return "'" + text.replace("\\", "\\\\").replace("'", "''") + "'"


class _Named(Protocol):
    """A column, an index, or whatever else has a name within a table."""

    @property
    def name(self) -> str: ...


_N = TypeVar("_N", bound=_Named)


def by_name(found: Iterable[_N]) -> dict[str, _N]:
    """Each of `found` under the `same_name` of its name."""
    return {same_name(one.name): one for one in found}
