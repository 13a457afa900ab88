"""Values of `verify` that travel between driver and executors: what it compares, and what it has found."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from consumer.errors import CannotBeExact, ConsumerError, Retryable, TargetDiffers, from_dict
from consumer.model.bad_rows import BadRow
from consumer.model.hints import Command, Hint, Verb
from consumer.model.load import LoadTarget, LoadTask
from consumer.model.names import TableName
from consumer.model.table_modes import ModeKind
from consumer.model.texts import count_text
from consumer.model.types.conversions import Conversion, Value


@dataclass(frozen=True, slots=True)
class Era:
    """The rows of a table between two statements that changed its columns, its key, its name or its partitions.

    `task` decodes them as the columns were then, and folds them by the handle key of then. The other fields are by the
    target's columns: `places` has the position of each column among those of the era, -1 if it was not there. `known`
    shows whether the storage determines what the target must hold in it for a row that has not changed since: the row's
    value after its `conversions`, or the value in `added` for a column that came later. `kept` means that such a row
    must exist; otherwise a statement may have removed it.
    """

    task: LoadTask
    keys: tuple[tuple[int, ...], ...]
    """The handle keys that the table has had from this era on, each as positions among the era's columns; () if it had
    none. The first is the era's own, the last is the target's. Eras with the same number of keys have the same key."""
    places: tuple[int, ...]
    known: tuple[bool, ...]
    added: Mapping[int, Value | None] = field(default_factory=dict)
    kept: bool = True
    conversions: Mapping[int, tuple[Conversion, ...]] = field(default_factory=dict)
    """By position in the target, the conversions in their order."""
    given: bool = False
    """Whether the target did not get the rows from the storage, but as somebody's state of a later moment: nothing
    proves that the storage has every change up to that."""


@dataclass(frozen=True, slots=True)
class Modes:
    """What makes the rows of a table that is no mirror from upstream's changes. `key` are the positions of upstream's
    key in the target. `added` has by position which of the columns that the mode adds is there. `ends` are the TRUNCATE
    TABLEs that ended its rows: version, and the table's name then."""

    kind: ModeKind
    key: tuple[int, ...]
    added: Mapping[int, int]
    ends: tuple[tuple[int, str], ...] = ()


@dataclass(frozen=True, slots=True)
class CheckTask:
    """One table: its eras in their order, and the target's table as `target`. `complete` means that every row of the
    table is in the eras, so that the target must have no other rows. `show` is the most differences to return.
    `mending` means that the rows that differ are wanted too. `modes` is set for a table that is no mirror."""

    target: LoadTarget
    eras: tuple[Era, ...]
    complete: bool
    show: int
    mending: bool = False
    modes: Modes | None = None

    @property
    def under_earlier_keys(self) -> tuple[Era, ...]:
        """The eras in which the table's present key did not identify its rows yet."""
        return tuple(era for era in self.eras if len(era.keys) > 1)

    @property
    def upstream_key(self) -> tuple[int, ...]:
        """The columns that identify the row of upstream to which changes belong: all rows of one value come to one
        bucket."""
        return self.target.key if self.modes is None else self.modes.key

    @property
    def bytes(self) -> int:
        return sum(era.task.bytes for era in self.eras)

    @property
    def converted(self) -> tuple[int, ...]:
        """The columns of which a value of some rows may not be known."""
        return converted_positions(self.eras)

    @property
    def groups(self) -> tuple[tuple[bool, ...], ...]:
        """Each combination of columns whose values the eras know, that of all columns first."""
        known_of_eras = (era.known for era in self.eras)
        return tuple(dict.fromkeys(((True,) * len(self.target.columns), *known_of_eras)))

    @property
    def compared(self) -> tuple[int, ...]:
        """For a table with no key, the columns that are compared: those that each era knows."""
        return tuple(n for n in range(len(self.target.columns)) if all(era.known[n] for era in self.eras))


def converted_positions(eras: Iterable[Era]) -> tuple[int, ...]:
    """Returns the positions in the target of columns whose values were converted."""
    return tuple(sorted({position for era in eras for position in era.conversions}))


@dataclass(frozen=True, slots=True, order=True)
class Difference:
    """A row that differs: `kind` is missing, extra or differs. `key` are names and values of its key (of all its
    columns if the table has no key). `values` are name, expected and found value of each column that differs. `copies`
    is how many copies of it are missing or too many."""

    kind: str
    key: tuple[tuple[str, str | None], ...]
    values: tuple[tuple[str, str | None, str | None], ...] = ()
    copies: int = 1


@dataclass(frozen=True, slots=True)
class Counted:
    """What was found in a part of a table."""

    expected: int = 0
    """Rows that the storage has."""
    found: int = 0
    """Rows of the target."""
    missing: int = 0
    extra: int = 0
    differing: int = 0
    given: int = 0
    """Of the rows that differ, those whose last change is of an era that is `given`."""
    unsure: int = 0
    """Rows that a statement may have removed or added: whether they exist is no difference."""
    unknown_rows: int = 0
    """Rows of the target of which the storage shows nothing."""
    unknown: Mapping[str, int] = field(default_factory=dict)
    """By column, the number of values that the storage does not determine."""
    shown: tuple[Difference, ...] = ()
    quarantined: tuple[BadRow, ...] = ()
    """Lines that still cannot be decoded."""
    later: frozenset[str] = frozenset()
    """For a table with quarantined rows, the files that also have rows above its watermark."""

    @property
    def differences(self) -> int:
        return self.missing + self.extra + self.differing

    def plus(self, other: Counted, show: int) -> Counted:
        """Returns the sum of both, with `show` differences at most."""
        names = ("expected", "found", "missing", "extra", "differing", "given", "unsure", "unknown_rows")
        sums = {name: getattr(self, name) + getattr(other, name) for name in names}
        columns = {*self.unknown, *other.unknown}
        unknown = {name: self.unknown.get(name, 0) + other.unknown.get(name, 0) for name in sorted(columns)}
        shown = sorted((*self.shown, *other.shown), key=repr)[:show]
        quarantined, later = self.quarantined + other.quarantined, self.later | other.later
        return Counted(**sums, unknown=unknown, shown=tuple(shown), quarantined=quarantined, later=later)


@dataclass(frozen=True, slots=True)
class TableCheck:
    """The result for a table.

    `error` is why it could not be compared at all; `refused` means that the target's table is the reason. `notes` say
    what was not compared, `unmended` why rows that differ were not repaired. `repaired` is what was found before the
    repair. `refused_rows` are those that the target did not accept in it. `files` are the data files that were read.
    `gone_ts` is the commit-ts up to which changes may be gone from the storage (0: none is), so that they were not
    compared. `target_table` is its name in the target, "" if that is upstream's. `quarantined` is how many rows of it
    the progress has as quarantined, which the target lacks.
    """

    table: TableName
    watermark: int
    counted: Counted = field(default_factory=Counted)
    notes: tuple[str, ...] = ()
    error: ConsumerError | None = None
    refused: bool = False
    seconds: float = 0.0
    repaired: Counted | None = None
    refused_rows: tuple[BadRow, ...] = ()
    files: frozenset[str] = frozenset()
    gone_ts: int = 0
    target_table: str = ""
    unmended: str = ""
    quarantined: int = 0

    def scrubbed(self, scrub: Callable[[str], str]) -> TableCheck:
        """Returns the result without secrets in messages of the target or the storage."""
        error = self.error
        if error is not None:
            error = from_dict(
                {**error.as_dict(), "message": scrub(error.message), "hint": Hint.of(error.hint).with_texts(scrub)}
            )
        return replace(self, error=error, notes=tuple(map(scrub, self.notes)))

    @property
    def is_unproven(self) -> bool:
        """Whether it could not be compared because the storage does not show enough."""
        return isinstance(self.error, CannotBeExact) and not self.refused

    @property
    def state(self) -> str:
        if self.error is not None:
            return "not compared"
        if self.counted.differences:
            return "differs"
        return "equal in part" if self.notes else "equal"


@dataclass(frozen=True, slots=True)
class Repairing:
    """What is done with rows that differ: `write` repairs them, `sql` is a file for statements ("" for none)."""

    write: bool = False
    sql: str = ""


@dataclass(frozen=True, slots=True)
class VerifyResult:
    """What `verify` found, table by table. `excluded` is how many tables the table rules exclude."""

    tables: tuple[TableCheck, ...]
    seconds: float
    spark_seconds: float = 0.0
    excluded: int = 0

    def scrubbed(self, scrub: Callable[[str], str]) -> VerifyResult:
        """Returns the result without secrets."""
        return replace(self, tables=tuple(table.scrubbed(scrub) for table in self.tables))

    def verdict(self, strict: bool) -> ConsumerError | None:
        """Returns the error that the command ends with, None for a target that is equal as far as it was compared. With
        `strict` everything must have been compared."""
        differing = [table for table in self.tables if table.counted.differences]
        rows = sum(table.counted.differences for table in differing)
        if differing:
            which = str(differing[0].table) if len(differing) == 1 else count_text(len(differing), "table")
            return TargetDiffers(
                f"{count_text(rows, 'row differs', 'rows differ')} from the storage in {which}",
                hint=self._ways_out(differing),
            )
        failed = [table for table in self.tables if table.error is not None]
        failed.sort(key=lambda table: (table.is_unproven, isinstance(table.error, Retryable)))
        if failed:
            return failed[0].error
        partly = [table for table in self.tables if table.state == "equal in part"] if strict else []
        if partly:
            which = count_text(len(partly), "table was", "tables were")
            return CannotBeExact(
                f"{which} compared in part only, and --strict asks for all: {partly[0].notes[0]}",
                table=str(partly[0].table),
            )
        if self.excluded and not self.tables:
            return CannotBeExact(
                f"no table was compared: the table rules leave out all {self.excluded:,}",
                hint="give rules in --tables that let a table through",
            )
        if strict and not self.tables:
            return CannotBeExact("there is no table to compare, and --strict asks for all")
        return None

    def _ways_out(self, differing: Sequence[TableCheck]) -> str:
        lacking = [table for table in differing if table.quarantined]
        others = [table for table in differing if table.quarantined < table.counted.differences]
        ways: list[str] = []
        if others and all(table.counted.differences == table.counted.given for table in others):
            ways.append(
                "rows that were wrong from the start on come right with `load-export --table`, from another export"
            )
        elif others:
            ways.append("where a run was ended in the middle of a load, run `once` and verify again")
            tried = any(table.repaired is not None for table in self.tables)
            ways.append(("" if tried else "--repair makes the rows right, ") + "`resync` loads a table again")
        if not lacking:
            return "; ".join(ways)
        rows = count_text(sum(table.quarantined for table in lacking), "row is quarantined", "rows are quarantined")
        only = lacking[0].table if len(lacking) == 1 else None
        return "; ".join([*ways, f"{rows}; once that is mended: "]) + Command(Verb.RETRY, only)
