"""What a writer must know of one table of the server."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from consumer.model.load import LoadTarget
from consumer.model.names import TableName, qualified
from consumer.sink.mysql.server.connection import FlavorName


@dataclass(frozen=True, slots=True)
class TargetColumn:
    """A column, as information_schema shows it."""

    name: str
    data_type: str
    """DATA_TYPE in lower case: ``int``."""
    type: str
    """COLUMN_TYPE, in lower case but for labels: ``int(11) unsigned``."""
    collation: str
    """"" for what is no text."""
    nullable: bool
    generated: bool
    """Whether the server computes it."""
    default: str | None
    extra: str
    expression: str
    """"" for what is not generated."""

    @property
    def counts(self) -> bool:
        """Whether the server can number it itself."""
        return "auto_increment" in self.extra.lower()

    @property
    def filled(self) -> bool:
        """Whether NULL becomes a number or the time there, without a word."""
        return not self.nullable and (self.data_type == "timestamp" or self.counts)

    @property
    def required(self) -> bool:
        """Whether a new row must give it a value."""
        return not self.nullable and self.default is None and not self.counts

    @property
    def rounded(self) -> tuple[int, int] | None:
        """M and D of a DOUBLE(M,D), which the server rounds by an arithmetic of its own.

        What it stores can be some units in the last place off the double nearest to the decimal number, so a value is
        not found by `=`. Up to 15 digits two of the column's numbers are never nearer to each other than 10**-D, and
        what is stored is far nearer than that to the number meant, so it is found by a range.
        """
        found = re.match(r"double\((\d+),(\d+)\)", self.type)
        return (int(found[1]), int(found[2])) if found else None

    @property
    def virtual(self) -> bool:
        """Whether it is a generated column that is computed when it is read."""
        return "VIRTUAL" in self.extra.upper()


@dataclass(frozen=True, slots=True)
class Server:
    """What a writer must know of the server."""

    flavor: FlavorName
    local_infile: bool = False
    """It takes LOAD DATA LOCAL, and loses no row of it."""
    logs_statements: bool = False
    """Its binary log has statements as they are, which ask for more locks."""


@dataclass(frozen=True, slots=True)
class MySqlTarget:
    """A target table, as LoadTarget.settings.

    A delete matches the very bytes of a text key, beside its collation (keys that differ in trailing blanks
    only are equal to the server, but they are two keys to the fold).
    """

    server: Server
    name: TableName
    """As the target spells it."""
    columns: tuple[TargetColumn, ...]
    """Those of LoadTarget.columns."""
    own: tuple[TargetColumn, ...] = ()
    """Those of LoadTarget.own."""
    secondary_unique: bool = False
    """There is a unique key beside the handle key."""
    checked: bool = False
    """A unique key may take rows for one that upstream tells apart, so no other row may go where one is written."""
    padded: tuple[int, ...] = ()
    """The text columns, as positions, of unique keys that pass over trailing blanks."""
    looked: bool = False
    """What is recorded of texts there that end in a blank holds: rows are written with no look at the table."""
    stage: int = 0
    """Tells the session's stages of several tables apart."""

    @property
    def computed(self) -> tuple[str, ...]:
        """Columns that the server computes itself: the rows' values only tell which rows are meant."""
        return tuple(column.name for column in self.columns if column.generated)

    @property
    def is_staged(self) -> bool:
        """Whether puts go through a stage of the session (see `rows.staged`)."""
        return self.checked or bool(self.own) or any(column.generated for column in self.columns)

    def staged(self, name: TableName, columns: Sequence[TargetColumn]) -> MySqlTarget:
        """A stage of the session, which takes `columns` as the rows have them."""
        plain = tuple(replace(column, generated=False) for column in columns)
        return replace(self, name=name, columns=plain, own=(), checked=False, padded=())


def mysql_target(target: LoadTarget) -> MySqlTarget:
    """The sink's own part of `target`."""
    assert isinstance(target.settings, MySqlTarget)
    return target.settings


def table_of(target: LoadTarget) -> str:
    """Its table's name in statements."""
    return qualified(*mysql_target(target).name)
