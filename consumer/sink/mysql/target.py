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
    """"" for a column that is not text."""
    nullable: bool
    generated: bool
    """Whether the server computes it."""
    default: str | None
    extra: str
    expression: str
    """"" for a column that is not generated."""

    @property
    def counts(self) -> bool:
        """Returns whether the server can number it itself (AUTO_INCREMENT)."""
        return "auto_increment" in self.extra.lower()

    @property
    def filled(self) -> bool:
        """Returns whether the server silently replaces NULL by a number or the current time."""
        return not self.nullable and (self.data_type == "timestamp" or self.counts)

    @property
    def required(self) -> bool:
        """Returns whether a new row must give it a value."""
        return not self.nullable and self.default is None and not self.counts

    @property
    def rounded(self) -> tuple[int, int] | None:
        """Returns M and D of a DOUBLE(M,D), which the server rounds by an arithmetic of its own. None for other types.

        What the server stores can be some units in the last place off the double nearest to the decimal number, so `=`
        may not find a value. Up to 15 digits, two numbers of the column always differ by at least 10**-D, and the
        stored value is far nearer than that to the intended number. So a range finds it.
        """
        match = re.match(r"double\((\d+),(\d+)\)", self.type)
        return (int(match[1]), int(match[2])) if match else None

    @property
    def virtual(self) -> bool:
        """Returns whether it is a generated column that is computed when it is read."""
        return "VIRTUAL" in self.extra.upper()


@dataclass(frozen=True, slots=True)
class Server:
    """What a writer must know of the server."""

    flavor: FlavorName
    local_infile: bool = False
    """It accepts LOAD DATA LOCAL, and loses no row of it."""
    logs_statements: bool = False
    """Its binary log contains statements as they are written. Such logging needs more locks."""


@dataclass(frozen=True, slots=True)
class MySqlTarget:
    """A target table, as LoadTarget.settings.

    A delete matches the exact bytes of a text key in addition to its collation. Keys that differ only in trailing
    blanks are equal to the server, but they are two keys in the fold.
    """

    server: Server
    name: TableName
    """The name in the target's spelling."""
    columns: tuple[TargetColumn, ...]
    """The target's columns for LoadTarget.columns, in the same order."""
    own_columns: tuple[TargetColumn, ...] = ()
    """The target's columns for LoadTarget.extra_columns."""
    secondary_unique: bool = False
    """The table has a unique key besides the handle key."""
    checked: bool = False
    """A unique key may treat two rows as equal that upstream distinguishes. So a row may only be written where it
    displaces no other row."""
    padded: tuple[int, ...] = ()
    """Positions of text columns in unique keys whose comparison ignores trailing blanks."""
    looked: bool = False
    """The record of texts in the table that end in a blank is still valid. Rows are written without another look at the
    table."""
    stage: int = 0
    """Distinguishes the session's stages of several tables."""

    @property
    def computed(self) -> tuple[str, ...]:
        """Returns the columns that the server computes itself. The rows' values only help to identify rows."""
        return tuple(column.name for column in self.columns if column.generated)

    @property
    def is_staged(self) -> bool:
        """Returns whether puts go through a stage of the session (see `rows.staged`)."""
        return self.checked or bool(self.own_columns) or any(column.generated for column in self.columns)

    def staged(self, name: TableName, columns: Sequence[TargetColumn]) -> MySqlTarget:
        """Returns a stage of the session, which accepts `columns` with the rows' own values."""
        plain = tuple(replace(column, generated=False) for column in columns)
        return replace(self, name=name, columns=plain, own_columns=(), checked=False, padded=())


def mysql_target(target: LoadTarget) -> MySqlTarget:
    """Returns the sink's own part of `target`."""
    assert isinstance(target.settings, MySqlTarget)
    return target.settings


def table_of(target: LoadTarget) -> str:
    """Returns the table's name for statements."""
    return qualified(*mysql_target(target).name)
