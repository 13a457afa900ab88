"""Values that travel between driver and executors: small, frozen, picklable."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

from consumer.errors import ConsumerError
from consumer.model.bad_rows import BadRow, Quarantine
from consumer.model.columns import Column, Family
from consumer.model.names import TableName
from consumer.model.rules import Shaping
from consumer.model.steps import Window
from consumer.model.table_modes import TableMode
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
    """How the changefeed writes rows. `terminator` ends each row; `options` are None for a protocol that has none;
    TIMESTAMPs are by `clock`."""

    protocol: str = "canal-json"
    terminator: bytes = b"\r\n"
    options: Options | None = None
    clock: Clock = UTC_CLOCK

    @property
    def timeless(self) -> bool:
        """See `Options`."""
        return self.options is not None and self.options.timeless


@dataclass(frozen=True, slots=True)
class Ending:
    """How a version of a row ends, of a table that has each of them as a row. Positions of columns: `began` of the
    commit-ts at which a version began, which is of the key; `ended` of the time at which it ended, NULL while it is the
    current one; `current` of whether it is."""

    began: int
    ended: int
    current: int


@dataclass(frozen=True, slots=True)
class LoadTarget:
    """What an executor must know of one table's target.

    `columns` are the columns to decode, in the target's order, with the target's spelling of their names in `names`
    (same positions); all are written, except columns of a key that the target computes itself. `key` are positions in
    `columns` of the handle key; () for a table with no key. `ordered`: one task on one connection writes all changes of
    the load, deletes before puts: where the target compares keys more coarsely than bytes, or must look at all rows
    before it writes one. `whole`: the session must get all changes at once. `settings` is the sink's own frozen value,
    or None. `own` are columns of the target, in its spelling, that the rows do not have: a row keeps its values there,
    a new row gets the column's default. `absent` are columns of the upstream that no row of the load may have, as other
    rows lack them; `computed` those that none may have because the target computes them when it is read: what the row
    says would be lost. `virtual` are columns that the target has as virtual generated ones, in upstream's or its own
    spelling. `table` is
    the upstream's name, by which progress and messages know it; `routed` the target's, None where it is the same.
    `quarantined`: its bad rows are quarantined, None where they stop it. `events`: each change is wanted as it was,
    not only
    what it leaves: it has a commit-ts, all values also of a row that is gone, and says whether it is of an UPDATE.
    `shaping` are the rules about its changes. `ending`: a delete removes no row. It ends the version of its row that is
    current and began before the delete's commit-ts, and may have the key of a put: the version that begins then.
    """

    table: TableName
    columns: tuple[Column, ...]
    names: tuple[str, ...]
    key: tuple[int, ...]
    ordered: bool = False
    whole: bool = False
    settings: object | None = None
    own: tuple[str, ...] = ()
    absent: tuple[str, ...] = ()
    computed: tuple[str, ...] = ()
    virtual: tuple[str, ...] = ()
    routed: TableName | None = None
    quarantined: Quarantine | None = None
    events: bool = False
    shaping: Shaping | None = None
    ending: Ending | None = None

    @property
    def name(self) -> TableName:
        """The target's name of the table."""
        return self.routed or self.table

    @property
    def barred(self) -> tuple[str, ...]:
        """The columns that no row may have."""
        return (*self.absent, *self.computed)

    @property
    def in_runs(self) -> bool:
        """Whether rows with neighbouring keys may be kept together: they are numbers, and no rows are so large that
        some of these runs would be much larger than others."""
        numbered = bool(self.key) and self.columns[self.key[-1]].family is Family.INTEGER
        return numbered and not any(column.type in _LARGE for column in self.columns)


@dataclass(frozen=True, slots=True)
class Forming:
    """How a table's changes become rows of a target that is no mirror: they are decoded for `source`, which has
    upstream's columns and key. `places` are the positions there of the written target's columns; those behind the last
    are the columns that `form` adds, in their order. `versions` are the table's, rising."""

    mode: TableMode
    source: LoadTarget
    places: tuple[int, ...]
    versions: tuple[int, ...]


POSITION_BITS = 40
"""Positions within a series: file number << 40 | byte offset, so they grow in file order."""


@dataclass(frozen=True, slots=True)
class FileSlice:
    """A byte range of a file: the lines that begin in ``[offset, offset + length)``; `size` is the whole file's.

    `position` is above every position of the slices before it in its series. `layout` numbers, in the task's `layouts`,
    the columns that the file's rows have; `stamp` is the listing's. `seen` are stretches of commit-ts (begin, end, ..),
    no row may be outside of them, because it should have been there before; () if this is not checked.
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


Layout = tuple[Column, ...]
"""The columns of a CSV row's cells, in order, as the schema file of the row's folder describes them: without virtual
and hidden columns, which that file lists and rows omit. Where files have a header, its names decide, and this is every
column that they may name."""


@dataclass(frozen=True, slots=True)
class LoadTask:
    """One table's load: `number` identifies it within a job. `layouts` are those of its CSV files.

    `parts` is which partition of the table a series writes, by the series' number, `writers` who writes it: date
    folders of unknown order are series of one writer. `never_split`: the operator says that no two writers share a
    partition. `forming`: rows are written in a form of their own; None: as they are.
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
    forming: Forming | None = None

    @property
    def source(self) -> LoadTarget:
        """What rows are decoded for, and by whose key they are folded."""
        return self.target if self.forming is None else self.forming.source

    def layout_of(self, piece: FileSlice) -> Layout:
        return self.layouts[piece.layout] if self.layouts else ()

    @property
    def bytes(self) -> int:
        return sum(piece.length for piece in self.slices)


@dataclass(frozen=True, slots=True)
class FileStat:
    """What reading one slice found: rows in all, rows at or below the window (dropped), and `next_ts`, the lowest
    commit-ts above the window (0: none, the slice is done). `coarse_ts` is the greatest ``es << 18`` of the rows
    inside
    the window that have no commit-ts, 0 for none; `coarse_quarantined` is that of lines that were quarantined.
    `lost_texts` and
    `doubled_times` count values of a task's slices that cannot be proven, in one of its statistics: texts in which
    TiCDC wrote U+FFFD for bytes, TIMESTAMPs that are two moments on the changefeed's clock. `first_ts` and `last_ts`
    are the least and the greatest commit-ts up to the window's end, `unseen_ts` the least of a dropped row outside of
    the slice's `seen`; each 0 for none. `quarantined` are lines that were quarantined; `rows` counts them too.
    """

    path: str
    rows: int
    dropped: int
    next_ts: int
    coarse_ts: int = 0
    coarse_quarantined: int = 0
    lost_texts: int = 0
    doubled_times: int = 0
    first_ts: int = 0
    last_ts: int = 0
    unseen_ts: int = 0
    quarantined: tuple[BadRow, ...] = ()

    def __add__(self, other: FileStat) -> FileStat:
        """The sum of two statistics of different rows of one slice."""
        sums = {name: getattr(self, name) + getattr(other, name) for name in _SUMS}
        least = {name: min(filter(None, (getattr(self, name), getattr(other, name))), default=0) for name in _LEAST}
        greatest = {name: max(getattr(self, name), getattr(other, name)) for name in _GREATEST}
        return FileStat(self.path, **sums, **least, **greatest, quarantined=self.quarantined + other.quarantined)


_SUMS, _LEAST = ("rows", "dropped", "lost_texts", "doubled_times"), ("next_ts", "first_ts", "unseen_ts")
_GREATEST = ("coarse_ts", "coarse_quarantined", "last_ts")


@dataclass(frozen=True, slots=True)
class Receipt:
    """One write that the target has taken: how many puts and deletes. `puts` is below zero in a receipt that takes back
    what another one counted, once rows of it were refused. `staged` names what must still be published by the
    driver
    ("" for none). `defaulted` are puts that were new in the target and took its defaults in columns that the rows lack.
    `proofs` are what its transactions left in the target; it proves later that the target has not lost them.
    `quarantined`
    are rows that the target refuses, and that were quarantined. `seconds` is how long the target took to answer."""

    puts: int
    deletes: int
    staged: str = ""
    defaulted: int = 0
    proofs: tuple[int, ...] = field(default=(), compare=False)
    quarantined: tuple[BadRow, ...] = ()
    seconds: float = field(default=0.0, compare=False)


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
    """All that came back of one LoadTask. If `error` is set, no progress may be recorded from it. `left_out` are
    staged rows, by their identities, that must not be published."""

    task: LoadTask
    files: tuple[FileStat, ...]
    receipts: tuple[Receipt, ...]
    error: ConsumerError | None = None
    left_out: frozenset[int] = frozenset()

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
        found = (*(part.quarantined for part in self.files), *(part.quarantined for part in self.receipts))
        return {row.id: row for rows in found for row in rows}

    @property
    def puts(self) -> int:
        return sum(receipt.puts for receipt in self.receipts)

    @property
    def target_seconds(self) -> float:
        """How long the target took to answer its writes, one after the other."""
        return sum(receipt.seconds for receipt in self.receipts)

    @property
    def deletes(self) -> int:
        return sum(receipt.deletes for receipt in self.receipts)
