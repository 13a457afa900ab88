"""The settings of a round."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, replace

from consumer.codec.protocol import Undecided
from consumer.errors import CannotBeExact, DdlRefused
from consumer.model.ddl_policy import PolicyOf
from consumer.model.files import Folder, Listing
from consumer.model.load import Dialect, LoadTarget
from consumer.model.progress import Progress, ProgressChange
from consumer.model.rules import unshaped
from consumer.model.table_definition import KeyColumns
from consumer.model.table_rules import Batches, TableRules
from consumer.plan.assembly import Assembly
from consumer.plan.ddl_step import refusal
from consumer.plan.late import settle_moved
from consumer.plan.let_in import let_in
from consumer.plan.retention import NOT_KNOWN, Retention
from consumer.plan.routing import check_begun
from consumer.plan.shaping import check_shaping, shaping_refusal
from consumer.plan.shaping import recorded as recorded_rules
from consumer.plan.starting import check_exchanged, starting
from consumer.plan.statement import Statement
from consumer.plan.survey import check_decided, check_protocol
from consumer.plan.table_modes import keeping, recorded
from consumer.ports import StorageReader

_MOST_LISTINGS = 4
"""Under a writer that never rests each listing can show another gap."""


@dataclass(frozen=True, slots=True)
class FilesKnown:
    """What the settings say of the files."""

    dialect: Dialect
    retention: Retention = NOT_KNOWN
    """What is known of TiCDC's clean-up."""
    undecided: tuple[Undecided, ...] = ()
    """Options that are missing."""
    date_order: str = ""
    """What orders the files of date folders where rows have no commit-ts: "time", "date", or "" if it is not set."""
    key_loss: bool = False
    """The old keys of rows may be missing, and the operator has accepted it."""
    accept_timestamp_key: bool = False


@dataclass(frozen=True, slots=True)
class RoundOptions:
    """What the settings say to a round."""

    files: FilesKnown
    rules: TableRules
    batches: Batches
    max_wait: float = 60.0
    """For how many seconds a call to the target is retried."""
    syncpoints: int = 0
    """How many moments are kept at which all tables were complete, 0 for none."""
    takes_over: bool = True
    """That of `Others`."""

    def assembly(self, reader: StorageReader, listing: Listing, progress: Progress) -> Assembly:
        """The assembly of `listing` and `progress`. If the listing shows rewritten files, or gaps that another listing
        may explain, the storage is listed again first, until the same gaps are there."""
        found, told = self._looked_at_whole(reader, listing, progress), set[str]()
        for _ in range(_MOST_LISTINGS):
            gaps = found.new_gaps(progress, self.rules.accept_gap)
            if not gaps - told:
                break
            told |= gaps
            full = replace(reader.listing(listing.checkpoint), settled=listing.settled, reached=listing.reached)
            found = self._looked_at_whole(reader, full, progress)
        return found

    def _looked_at_whole(self, reader: StorageReader, listing: Listing, progress: Progress) -> Assembly:
        """`listing`, or a later one that has all files of every folder with rewritten files: TiCDC may go on rewriting
        between two listings."""
        found, whole, shown = self._assembly(listing, progress), set[Folder](), set[Folder]()
        while True:
            doubts, left_out = found.doubts(progress), found.left_out(progress)
            names = reader.named(doubts.asked) if doubts.asked else {}
            anew = found.written_anew(doubts, names, progress, self.files.dialect.timeless)
            if whole.issuperset(anew.whole) and left_out <= shown:
                return found.recording(anew)
            whole.update(anew.whole)
            shown |= {*anew.whole, *left_out}
            if listing.partial:
                again = reader.listing(listing.checkpoint, progress, shown)
                listing = replace(again, settled=listing.settled, reached=listing.reached)
            found = self._assembly(listing, progress, whole)

    def _assembly(self, listing: Listing, progress: Progress, whole: Collection[Folder] = ()) -> Assembly:
        found = Assembly.of(
            listing, progress, self.rules.wanted, self._policy_of, self.files.retention, whole, self.rules.naming
        )
        check_protocol(self.files.dialect.protocol, found)
        check_decided(self.files.undecided, found)
        check_begun(self.rules.naming, found, progress)
        self.check_shaping(found, progress)
        return found

    def refusal(self, statement: Statement) -> DdlRefused | None:
        """Why `statement` is not to run, as far as it shows without the target."""
        return refusal(statement) or shaping_refusal(statement, self.rules.shaping_of)

    def check_rules(self, target: LoadTarget, keys: KeyColumns | None, had: Callable[[], Collection[str]]) -> None:
        """Raises CannotBeExact where the rules about the changes of a table cannot be followed for a load of it. `keys`
        is what is known of its unique keys, `had` tells the columns, in lower case, of any of its versions."""
        if target.load.shaping is not None:
            if self.rules.naming.merges(target.table):
                raise CannotBeExact(
                    "a route merges it with others, and it has filters or masks, which are for mirrors only",
                    hint="leave the table out of the route, or out of the filters and masks",
                    table=str(target.table),
                )
            if (mode := self.rules.naming.mode(target.table)) is not None and mode.keeps_ended:
                raise CannotBeExact(
                    f"it has the table mode {mode}, and filters or masks, which are for mirrors only",
                    hint="leave the table out of [[consumer.table-modes]], or out of the filters and masks",
                    table=str(target.table),
                )
            from consumer.changes.rules import check_rules  # Arrow is loaded only where there are rules

            check_rules(target, self.files.dialect, keys, had)

    def check_shaping(self, assembly: Assembly, progress: Progress) -> None:
        """Raises BadConfig where a table that has rows has other rules now."""
        if self.rules.shaping_of is not unshaped or progress.filters:
            check_shaping(self.rules.shaping_of, progress, assembly.catalog)

    def opening(self, assembly: Assembly, progress: Progress) -> ProgressChange | None:
        """What to record before the round of `assembly` begins. The assembly is made again after that."""
        if progress.starts:
            check_exchanged(assembly, progress)
        let = let_in(assembly, progress, self._policy_of, self.rules.naming)
        changes = (settle_moved(assembly.files, progress), let, *self._rules(assembly, progress))
        return ProgressChange().merged(*filter(None, changes)) if any(changes) else None

    def starting(self, assembly: Assembly, progress: Progress) -> ProgressChange | None:
        """What to record before `opening`, of tables that begin at a moment of their own. The assembly is made again
        after that. Raises BadConfig."""
        change = starting(assembly, progress, self.rules.starts, self.rules.shaping_of, self._policy_of)
        if change is None:
            return None
        check_exchanged(assembly, progress.after(change))
        return change.merged(*self._rules(assembly, progress))

    def _rules(self, assembly: Assembly, progress: Progress) -> Iterator[ProgressChange]:
        """The rules of tables, where others are recorded."""
        if self.rules.naming.routes != progress.routes:
            yield ProgressChange(routes=self.rules.naming.routes)
        if (told := recorded(self.rules.naming, assembly.catalog.by_table)) != progress.modes:
            yield ProgressChange(modes=told)
        rules = (
            ""
            if self.rules.shaping_of is unshaped
            else recorded_rules(self.rules.shaping_of, assembly.catalog.by_table)
        )
        if rules != progress.filters:
            yield ProgressChange(filters=rules)

    @property
    def _policy_of(self) -> PolicyOf:
        return keeping(self.rules.policy_of, self.rules.naming)
