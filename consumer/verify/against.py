"""`verify --against`: each table of the target beside the same one of another server."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from consumer.errors import CannotBeExact, ConsumerError, RowsVary, SchemaDrift, TableMissing
from consumer.model.check import CheckTask, Counted, Era, Origin, TableCheck
from consumer.model.files import Listing
from consumer.model.load import LoadTarget, LoadTask
from consumer.model.names import TableName, same_name
from consumer.model.progress import Progress, State
from consumer.model.steps import Window
from consumer.model.times import MAX_TSO, now, tso_to_time
from consumer.plan.assembly import Assembly
from consumer.spark.other import OtherRows
from consumer.target import OtherServer
from consumer.verify.eras import TableHistory
from consumer.verify.verify import Verifier, learn

_FRESH = 10
_ALONE = "only the other server has it"


@dataclass
class Looks:
    """Lists the storage anew, unless a listing is younger than ten times what it took: many tables can differ."""

    listing: Callable[[], Listing]
    _known: tuple[float, Listing] | None = None

    def __call__(self) -> Listing:
        began = now()
        if self._known is None or began > self._known[0]:
            found = self.listing()
            self._known = (now() + _FRESH * (now() - began), found)
        return self._known[1]


@dataclass(frozen=True)
class Against(Verifier):
    """`server` says which rows a table must have: at the table's watermark if it `has_past`, else as they are now.

    A server without a past may be behind the watermark or above it. Where rows differ, they are looked at a second
    time, beside what the storage has above the watermark by then: `look` lists it. `itself`: it is the target's server.
    """

    server: OtherServer | None = None
    has_past: bool = False
    look: Callable[[], Listing] | None = None
    itself: bool = False

    @property
    def _other(self) -> OtherServer:
        assert self.server is not None
        return self.server

    def incomparable(self, name: TableName) -> CannotBeExact | None:
        mode = self.options.rules.naming.mode(name)
        return None if mode is None else CannotBeExact(
            f"it is of the form {mode} in the target, and only mirrors can be compared with another server",
            hint="compare it with the storage: `verify` without --against",
            table=str(name),
        )  # fmt: skip

    def compared(self, history: TableHistory, answer: LoadTarget | ConsumerError) -> TableCheck:
        if isinstance(answer, ConsumerError):
            return super().compared(history, answer)
        self._check_comparable(history)
        moment = history.end if self.has_past else 0
        there = self._other.prepare(replace(self.version(history).request(), routed=None, reading=True), moment)
        if isinstance(there, ConsumerError):
            raise _told(there, history.name, self._other.address)
        places = _places(answer, there)
        _check_keys(answer, there)
        known = tuple(place >= 0 and _same_labels(answer, there, n, place) for n, place in enumerate(places))
        if not all(known[position] for position in answer.key) or (not answer.key and not any(known)):
            raise SchemaDrift(
                "the other server lacks a column of its key, or has labels there that nobody can compare",
                hint="make the two tables alike, or leave this one out with --table",
                table=str(history.name),
            )
        rows = OtherRows(self._other.comparer(there, moment), answer, places)
        era = Era(_nothing(history, answer), tuple(range(len(places))), known, origin=Origin.OTHER)
        notes = tuple(_notes(answer, there, known))
        return self._looked(history, CheckTask(answer, (era,), True, self.show, self.mender is not None), rows, notes)

    def _check_comparable(self, history: TableHistory) -> None:
        """Raises what makes another server's rows no measure of the target's."""
        if self.options.rules.shaping_of(history.name) is not None:
            raise CannotBeExact(
                "filters or masks make its rows others than upstream's",
                hint="compare it with the storage: `verify` without --against",
                table=str(history.name),
            )
        if self.itself and self.options.rules.naming.target(history.name) == history.name:
            raise SchemaDrift(
                "the other server is the target itself, so the table would be compared with itself",
                hint="name another server in --against",
                table=str(history.name),
            )
        if self.has_past and history.end == MAX_TSO:
            raise CannotBeExact("the storage has no checkpoint, so its moment is not known", table=str(history.name))
        _check_nothing_pending(history, self.has_past)

    def _looked(self, history: TableHistory, task: CheckTask, rows: OtherRows, notes: tuple[str, ...]) -> TableCheck:
        if self.has_past:
            return _noted(self.run(history, lambda _: task, "", rows), notes)
        found = replace(self, mender=None).run(history, lambda _: replace(task, mending=False), "", rows)
        if not found.counted.differences or self.look is None:
            return _noted(found, notes)
        later = self._now(history)
        _check_nothing_pending(later)
        complete = tso_to_time(later.assembly.checkpoint).isoformat(sep=" ", timespec="seconds")
        late = "" if later.assembly.checkpoint == MAX_TSO else (
            f"the storage is complete up to {complete}: what the other server has of later changes shows as differences"
        )  # fmt: skip

        def again(absent: dict[int, tuple[str, ...]]) -> CheckTask:
            era = later.later(task.target, absent.get(0, ()))
            return task if era is None else replace(task, eras=(*task.eras, era))

        found = self.run(history, again, "", rows)
        moving = found.counted.moving
        moved = (
            f"{moving:,} rows differ that the storage changed above the watermark: run `once`, then verify again"
            if moving
            else ""
        )
        differs = late if found.counted.differences else ""
        return _noted(found, (*notes, *filter(None, (moved, differs))))

    def _now(self, history: TableHistory) -> TableHistory:
        """The same, of the storage as it is now."""
        assert self.look is not None
        options, progress = self.options, history.progress
        assembly = Assembly.of(self.look(), progress, options.rules.wanted, retention=options.files.retention)
        return replace(history, assembly=assembly)

    def learnt(self, absent: dict[int, tuple[str, ...]], error: RowsVary, task: CheckTask) -> bool:
        return learn(absent, error, 1)

    def said(self, task: CheckTask, counted: Counted, untold: str) -> Iterator[str]:
        """All that was not compared is known before."""
        return iter(())

    def told_of_none(self, assembly: Assembly, progress: Progress, *rest: object) -> Iterator[TableCheck]:
        yield from super().told_of_none(assembly, progress, *rest)  # type: ignore[arg-type]
        yield from self._alone(assembly, progress)

    def _alone(self, assembly: Assembly, progress: Progress) -> Iterator[TableCheck]:
        """The tables of the same databases that only the other server has, and the storage tells nothing of."""
        there = [n for n, place in progress.tables.items() if place.state is not State.DROPPED and n.table]
        known = {name.folded for name in (*there, *assembly.lives(progress)[1])}
        coming = {
            name.folded for name, files in assembly.catalog.by_table.items() if files[-1].version > _at(progress, name)
        }
        databases = {same_name(name.database): name.database for name in (*there, *assembly.lives(progress)[1])}
        moment = progress.applied_ts if self.has_past else 0
        for database in sorted(databases.values()):
            for found in sorted(self._other.tables_in(database, moment)):
                name = TableName(database, found.table)
                if self.is_chosen(name) and name.folded not in known | coming:
                    error = TableMissing(_ALONE, hint="leave it out with --tables, where the changefeed does so too")
                    yield TableCheck(name, progress.applied_ts, error=error)


def _at(progress: Progress, name: TableName) -> int:
    return progress.table(name).applied_ts


def _check_nothing_pending(history: TableHistory, at_the_watermark: bool = False) -> None:
    """Raises SchemaDrift where the other server, as it is now or `at_the_watermark`, may have columns or rows of a
    statement that the target has not."""
    statement = history.statements.pending
    if statement is not None and (statement.version <= history.end or not at_the_watermark):
        raise SchemaDrift(
            f"the statement of version {statement.version} has not run in the target, and may have on the other server",
            hint="run `once`, then verify again",
            table=str(history.name),
        )
    if at_the_watermark:
        return
    if history.options.files.dialect.timeless and history.files.unread:
        raise SchemaDrift(
            "the storage has files of it that were not read, and their rows do not say when they were committed",
            hint="run `once`, then verify again",
            table=str(history.name),
        )


def _told(error: ConsumerError, name: TableName, address: str) -> ConsumerError:
    """An answer of the other server: never one of those that say that nobody can know."""
    if isinstance(error, TableMissing):
        return TableMissing(f"{address} does not have it", hint="leave it out with --table", table=str(name))
    if isinstance(error, CannotBeExact):
        return SchemaDrift(error.message, hint=error.hint, table=str(name))
    return error


def _nothing(history: TableHistory, target: LoadTarget) -> LoadTask:
    """A load of no files: the rows come from elsewhere."""
    return LoadTask(0, target, Window(history.end, history.end + 1), (), history.options.files.dialect)


def _places(target: LoadTarget, there: LoadTarget) -> tuple[int, ...]:
    """Where the other server has each column of the target, -1 for nowhere."""
    at = {same_name(column.name): place for place, column in enumerate(there.columns)}
    return tuple(at.get(same_name(column.name), -1) for column in target.columns)


def _check_keys(target: LoadTarget, there: LoadTarget) -> None:
    ours, theirs = ({same_name(one.columns[position].name) for position in one.key} for one in (target, there))
    if ours != theirs:
        shown = [", ".join(sorted(key)) or "none" for key in (ours, theirs)]
        raise SchemaDrift(
            f"its key is ({shown[0]}) in the target and ({shown[1]}) on the other server",
            hint="make the two tables alike, or leave this one out with --table",
            table=str(target.table),
        )


def _same_labels(target: LoadTarget, there: LoadTarget, position: int, place: int) -> bool:
    """Whether numbers of an ENUM or SET mean the same on both sides."""
    ours, theirs = target.columns[position], there.columns[place]
    if not ours.labelled:
        return True
    both = min(len(ours.elements), len(theirs.elements))
    return bool(both) and ours.elements[:both] == theirs.elements[:both]


def _notes(target: LoadTarget, there: LoadTarget, known: tuple[bool, ...]) -> Iterator[str]:
    left = [name for name, is_known in zip(target.names, known, strict=True) if not is_known]
    if left:
        yield f"columns that the other server lacks, or has with other labels, were not compared: {', '.join(left)}"
    ours = {same_name(name) for name in (*target.names, *target.own, *target.virtual)}
    own = [name for name in (*there.names, *there.own) if same_name(name) not in ours]
    if own:
        yield f"columns that only the other server has were not compared: {', '.join(own)}"
    if target.own:
        yield f"columns that only the target has were not compared: {', '.join(target.own)}"
    if virtual := sorted({*target.virtual, *there.virtual}):
        yield f"columns that are computed when they are read were not compared: {', '.join(virtual)}"


def _noted(found: TableCheck, notes: tuple[str, ...]) -> TableCheck:
    return replace(found, notes=(*found.notes, *notes))
