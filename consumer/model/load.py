"""Values that travel between driver and executors: small, frozen, picklable."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from typing import Protocol

from consumer.errors import ConsumerError
from consumer.model.bad_rows import BadRow, Quarantine
from consumer.model.columns import Column, Family
from consumer.model.names import TableName, same_name
from consumer.model.rules import Shaping
from consumer.model.steps import Window
from consumer.model.table_modes import COMMIT_TS, IS_CURRENT, VALID_TO, ModeKind, TableMode
from consumer.model.times import UTC_CLOCK, Clock

_LARGE = ("MEDIUMTEXT", "LONGTEXT", "MEDIUMBLOB", "LONGBLOB", "JSON")
"""Types with values of more than 64 KB."""


class Options(Protocol):
    """A protocol's own options, as far as code outside the protocol needs them."""

    @property
    def timeless(self) -> bool:
        """Whether rows have no time. Then only their place in the files orders them."""


@dataclass(frozen=True, slots=True)
class Dialect:
    """How the changefeed writes rows. `terminator` ends each row. `options` is None for a protocol that has none.
    `clock` is the one by which TIMESTAMPs are written."""

    protocol: str = "canal-json"
    terminator: bytes = b"\r\n"
    options: Options | None = None
    clock: Clock = UTC_CLOCK

    @property
    def timeless(self) -> bool:
        """Whether rows have no time, see `Options`."""
        return self.options is not None and self.options.timeless


class Purpose(enum.Enum):
    """For what the rows of a table are requested."""

    LOAD_IN_PARTS = enum.auto()
    """They are written, by several writers if they are many."""
    LOAD_AT_ONCE = enum.auto()
    """They are written, and are so few that one writer gets all of them anyway."""
    LOAD_COLLIDED = enum.auto()
    """They are written by one writer, because several writers with parts of them got RowsCollide."""
    COMPARE = enum.auto()
    """They are compared. Columns that the target computes and keeps are wanted too."""
    MEND = enum.auto()
    """They are repaired, one by one: no other row may be touched, even if the target's unique keys are as fine as
    upstream's. A delete removes its row in any mode of the table."""


@dataclass(frozen=True, slots=True)
class TableLoad:
    """A load of one table, as far as it is known before the target is asked."""

    table: TableName
    """Upstream's name, by which progress and messages know the table."""
    routed: TableName | None = None
    """The target's name, None if it is the same."""
    mode: TableMode | None = None
    """The table's mode, None for a mirror of upstream's rows."""
    purpose: Purpose = Purpose.LOAD_IN_PARTS
    absent: tuple[str, ...] = ()
    """Columns of upstream that no row of the load may have, because other rows lack them."""
    unselected: tuple[str, ...] = ()
    """Columns that the changefeed's selectors exclude, if TiCDC follows these on storage. Older releases write whole
    rows."""
    shaping: Shaping | None = None
    """The rules about its changes."""
    quarantine: Quarantine | None = None
    """What happens to bad rows, None if a bad row stops the table."""

    @property
    def name(self) -> TableName:
        """The target's name of the table."""
        return self.routed or self.table


@dataclass(frozen=True, slots=True)
class Ending:
    """The positions of the columns that are written when a version of a row ends."""

    began: int
    """The commit-ts at which the version began; it is part of the key."""
    ended: int
    """The time at which it ended, NULL while it is the current one."""
    current: int
    """Whether it is the current one."""


@dataclass(frozen=True, slots=True)
class LoadTarget:
    """What an executor must know of a table: how the changes of a load are decoded, and how they are written."""

    load: TableLoad
    columns: tuple[Column, ...]
    """The columns to decode, in the target's order. All are written, except columns of a key that the target computes
    itself."""
    names: tuple[str, ...]
    """The target's name of each of `columns`."""
    key: tuple[int, ...]
    """Positions in `columns` of the handle key; () for a table with no key."""
    extra_columns: tuple[str, ...] = ()
    """Columns of the target that the rows do not have. A row keeps its values there, a new row gets the defaults."""
    defaults: bool = True
    """Whether the target has the defaults of its columns. If it has none, nothing can stand for upstream's."""
    computed: tuple[str, ...] = ()
    """Columns of upstream that no row may have, because the target computes them when it is read: their values would be
    lost."""
    virtual: tuple[str, ...] = ()
    """Columns that the target has as virtual generated ones, in upstream's or its own spelling."""
    in_one_call: bool = False
    """Whether one session gets all changes of the load in one call: the target must check all rows before it writes
    one."""
    settings: object | None = None
    """The sink's own frozen value."""
    events: bool = False
    """Whether each change is decoded as it was, not only as what it leaves. Then it has a commit-ts, all values even
    for a deleted row, and shows whether it is part of an UPDATE."""
    bare_deletes: bool = False
    """With `events`: whether a DELETE can have its key alone. Its other values are NULL then."""
    befores: bool = False
    """With `events`: whether the row before an UPDATE comes too, as a deleted row, even if its key has not changed, and
    the place of each change."""

    @property
    def table(self) -> TableName:
        """Upstream's name of the table."""
        return self.load.table

    @property
    def name(self) -> TableName:
        """The target's name of the table."""
        return self.load.name

    @property
    def barred(self) -> tuple[str, ...]:
        """The columns that no row may have."""
        return (*self.load.absent, *self.computed)

    @property
    def ending(self) -> Ending | None:
        """Set if a delete removes no row. The delete then ends the version of its row that is current and began before
        its commit-ts. It may have the key of a put: the version that begins then."""
        mode = self.load.mode
        if mode is None or mode.kind is not ModeKind.HISTORY or self.load.purpose is Purpose.MEND:
            return None
        places = {same_name(name): position for position, name in enumerate(self.names)}
        began, ended, current = (places[same_name(mode.name(name))] for name in (COMMIT_TS, VALID_TO, IS_CURRENT))
        return Ending(began, ended, current)

    @property
    def in_runs(self) -> bool:
        """Whether rows with neighbouring keys may be kept together: the keys are numbers, and no rows are so large that
        some of these runs would be much larger than others."""
        numbered = bool(self.key) and self.columns[self.key[-1]].family is Family.INTEGER
        return numbered and not any(column.type in _LARGE for column in self.columns)


@dataclass(frozen=True, slots=True)
class ModeLoad:
    """How a table's changes become rows of a target that is no mirror."""

    source: LoadTarget
    """The target for which changes are decoded: it has upstream's columns and key."""
    places: tuple[int, ...]
    """The positions in `source` of the written target's columns. Positions after the last stand for the columns that
    the mode adds, in their order."""
    versions: tuple[int, ...]
    """The table's versions, ascending."""

    @property
    def mode(self) -> TableMode:
        assert self.source.load.mode is not None
        return self.source.load.mode


POSITION_BITS = 40
"""The bits of the byte offset in a position within a series: file number << 40 | byte offset, so positions grow in file
order."""


@dataclass(frozen=True, slots=True)
class FileSlice:
    """A byte range of a file: the lines that begin in ``[offset, offset + length)``. `size` is the size of the file.

    `position` is above every position of the earlier slices in its series. `layout` is the index in the task's
    `layouts` of the columns that the file's rows have. `stamp` is the listing's. `seen` are stretches of commit-ts
    (begin, end, ..): no row may be outside of them, because it should have been there before; () if this is not
    checked. `ts` is the commit-ts of all rows of the file, 0 if each row has its own.
    """

    path: str
    offset: int
    length: int
    size: int
    series: int
    position: int
    exact: Window
    coarse: Window
    layout: int = 0
    stamp: str = ""
    seen: tuple[int, ...] = ()
    ts: int = 0


Layout = tuple[Column, ...]
"""The columns of a CSV row's cells, in order, as the schema file of the row's folder describes them: without virtual
and hidden columns, which that file lists and rows omit. If files have a header, its names decide, and this is every
column that they may name."""


@dataclass(frozen=True, slots=True)
class LoadTask:
    """One table's load. `number` identifies it within a job. `layouts` are those of its CSV files.

    `parts` has by the number of a series which partition of the table it writes, `writers` who writes it: date folders
    of unknown order are series of one writer. `never_split` is the operator's assurance that no two writers share a
    partition. `mode_load` is set if rows are written in a table mode.
    """

    number: int
    target: LoadTarget
    window: Window
    slices: tuple[FileSlice, ...]
    dialect: Dialect
    layouts: tuple[Layout, ...] = ()
    parts: tuple[int, ...] = ()
    writers: tuple[int, ...] = ()
    never_split: bool = False
    mode_load: ModeLoad | None = None

    @property
    def source(self) -> LoadTarget:
        """The target for which rows are decoded, and by whose key they are folded."""
        return self.target if self.mode_load is None else self.mode_load.source

    def layout_of(self, piece: FileSlice) -> Layout:
        return self.layouts[piece.layout] if self.layouts else ()

    @property
    def bytes(self) -> int:
        return sum(piece.length for piece in self.slices)


@dataclass(frozen=True, slots=True)
class FileStat:
    """What was found by reading one slice. A time is 0 for none."""

    path: str
    rows: int
    """The number of all its rows, including quarantined ones."""
    dropped: int
    """The number of rows at or below the window."""
    next_ts: int
    """The lowest commit-ts that rows above the window can have; 0 if the slice is done."""
    coarse_ts: int = 0
    """The greatest ``es << 18`` of the rows inside the window that have no commit-ts."""
    coarse_quarantined: int = 0
    """The same of quarantined lines."""
    lost_texts: int = 0
    """The number of texts of the task in which TiCDC wrote U+FFFD for bytes; one of its statistics counts them."""
    doubled_times: int = 0
    """Likewise the number of TIMESTAMPs that are two moments on the changefeed's clock."""
    first_ts: int = 0
    """The least commit-ts of the rows that have one."""
    last_ts: int = 0
    """The greatest one up to the window's end."""
    unseen_ts: int = 0
    """The least commit-ts of a dropped row outside of the slice's `seen`."""
    checksum: int = 0
    """The CRC-32 of the content of a whole file whose rows have no time. It is 0 for other files: the time of a row
    shows whether it is new."""
    quarantined: tuple[BadRow, ...] = ()

    def __add__(self, other: FileStat) -> FileStat:
        """Returns the sum of two statistics of different rows of one slice."""
        sums = {name: getattr(self, name) + getattr(other, name) for name in _SUMS}
        least = {name: min(filter(None, (getattr(self, name), getattr(other, name))), default=0) for name in _LEAST}
        greatest = {name: max(getattr(self, name), getattr(other, name)) for name in _GREATEST}
        return FileStat(self.path, **sums, **least, **greatest, quarantined=self.quarantined + other.quarantined)


_SUMS, _LEAST = ("rows", "dropped", "lost_texts", "doubled_times"), ("next_ts", "first_ts", "unseen_ts")
_GREATEST = ("coarse_ts", "coarse_quarantined", "last_ts")


@dataclass(frozen=True, slots=True)
class Receipt:
    """One write that the target has accepted."""

    puts: int
    """The number of puts. It is below zero in a receipt that takes back puts which another one counted, after rows of
    it were refused."""
    deletes: int
    staged: str = ""
    """Identifies what the driver must still publish; "" for none."""
    defaulted: int = 0
    """The number of puts that were new in the target and got its defaults in columns that the rows lack."""
    proofs: tuple[int, ...] = field(default=(), compare=False)
    """What its transactions left in the target; it proves later that the target has not lost them."""
    quarantined: tuple[BadRow, ...] = ()
    """Rows that the target refuses, and that were quarantined."""
    seconds: float = field(default=0.0, compare=False)
    """The seconds that the target took to answer."""


@dataclass(frozen=True, slots=True)
class LoadPart:
    """What a part of a load has done while the rest is still running: bytes of change files (half of them count once
    they are read, half once they are written), row changes read, rows written."""

    bytes: int = 0
    changes: int = 0
    rows: int = 0

    def __add__(self, other: LoadPart) -> LoadPart:
        return LoadPart(self.bytes + other.bytes, self.changes + other.changes, self.rows + other.rows)


@dataclass(frozen=True, slots=True)
class LoadOutcome:
    """All results of one LoadTask. If `error` is set, no progress may be recorded from it. `unpublished` are staged
    rows, by their identities, that must not be published."""

    task: LoadTask
    files: tuple[FileStat, ...]
    receipts: tuple[Receipt, ...]
    error: ConsumerError | None = None
    unpublished: frozenset[int] = frozenset()

    @property
    def table(self) -> TableName:
        return self.task.target.table

    @property
    def rows(self) -> int:
        return sum(stat.rows for stat in self.files)

    @property
    def dropped_rows(self) -> int:
        return sum(stat.dropped for stat in self.files)

    @property
    def quarantined(self) -> dict[str, BadRow]:
        """The rows that were quarantined, by their ids."""
        groups = (*(part.quarantined for part in self.files), *(part.quarantined for part in self.receipts))
        return {row.id: row for rows in groups for row in rows}

    @property
    def puts(self) -> int:
        return sum(receipt.puts for receipt in self.receipts)

    @property
    def target_seconds(self) -> float:
        """The seconds that the target took to answer its writes, one after the other."""
        return sum(receipt.seconds for receipt in self.receipts)

    @property
    def deletes(self) -> int:
        return sum(receipt.deletes for receipt in self.receipts)
