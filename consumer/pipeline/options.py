"""The settings of a round."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, replace

from consumer.codec.protocol import Undecided
from consumer.errors import CannotBeExact, DdlRefused
from consumer.model.bad_rows import STOP, BadRowAction
from consumer.model.ddl_policy import PolicyOf, evolve
from consumer.model.files import Folder, Listing
from consumer.model.load import Dialect, LoadTarget
from consumer.model.names import TableName
from consumer.model.naming import SAME, Naming
from consumer.model.progress import Progress, ProgressChange
from consumer.model.rules import NO_STARTS, NONE_NAMED, Consistency, NamedTables, ShapingOf, Starts, unshaped
from consumer.model.table_definition import KeyColumns
from consumer.plan.assembly import Accepts, Assembly
from consumer.plan.ddl_step import refusal
from consumer.plan.late import settle_moved
from consumer.plan.let_in import let_in
from consumer.plan.retention import NOT_KNOWN, Retention
from consumer.plan.routing import check_begun
from consumer.plan.shaping import check_shaping, shaping_refusal
from consumer.plan.shaping import recorded as recorded_rules
from consumer.plan.starting import check_exchanged, starting
from consumer.plan.statement import Statement
from consumer.plan.table_modes import keeping, recorded
from consumer.plan.undecided import check_decided, check_protocol
from consumer.ports import StorageReader

_MOST_LISTINGS = 4
"""Under a writer that never rests each listing can show another gap."""


@dataclass(frozen=True, slots=True)
class RoundOptions:
    """`wanted` is the table filter; `round_bytes` bounds the change files that one load of a table reads;
    `policy_of` is [consumer.ddl]; `retention` is what is known of TiCDC's clean-up. `key_loss` says that the old
    keys of rows may be missing, and that the operator has accepted it. `never_split` names tables that no two
    writers share. `date_order` says what orders the files of date folders where rows have no commit-ts: "time",
    "date", or "" if it is not set. `undecided` are options that are missing. `max_wait`: for how many seconds a call
    to the target is retried. `naming` is what the tables are in the target: their names and forms. `syncpoints`: how
    many moments are kept at which all tables were complete, 0 for none.
    `consistency`: which rows readers see at once; of these, `publish_bytes` bounds the change files. `starts` says
    which tables begin at a moment of their own. `memory_limit` bounds the change files of all loads that run at a
    time. `takes_over` is that of `Others`. `named` are the tables that rules give by their whole names."""

    dialect: Dialect
    wanted: Callable[[TableName], bool]
    round_bytes: int
    accept_gap: Accepts = lambda _: False
    policy_of: PolicyOf = evolve
    retention: Retention = NOT_KNOWN
    accept_timestamp_key: bool = False
    key_loss: bool = False
    never_split: Callable[[TableName], bool] = lambda _: False
    date_order: str = ""
    undecided: tuple[Undecided, ...] = ()
    max_wait: float = 60.0
    naming: Naming = SAME
    bad_row_action: Callable[[TableName], BadRowAction] = lambda _: STOP
    shaping_of: ShapingOf = unshaped
    syncpoints: int = 0
    consistency: Consistency = Consistency.ROW
    publish_bytes: int = 128 << 20
    starts: Starts = NO_STARTS
    memory_limit: int = 8 << 30
    takes_over: bool = True
    named: NamedTables = NONE_NAMED

    @property
    def together_bytes(self) -> int:
        """The most bytes of change files, about, whose rows readers see in one transaction; 0: one by one."""
        return 0 if self.consistency is Consistency.ROW else self.publish_bytes

    @property
    def load_bytes(self) -> int:
        """The most bytes of change files that a table's load reads, where it does not go together with others."""
        return min(self.round_bytes, self.together_bytes or self.memory_limit)

    def assembly(self, reader: StorageReader, listing: Listing, progress: Progress) -> Assembly:
        """The assembly of `listing` and `progress`. If the listing shows rewritten files, or gaps that another listing
        may explain, the storage is listed again first, until the same gaps are there."""
        found, told = self._looked_at_whole(reader, listing, progress), set[str]()
        for _ in range(_MOST_LISTINGS):
            gaps = found.new_gaps(progress, self.accept_gap)
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
            anew = found.written_anew(doubts, names, progress, self.dialect.timeless)
            if whole.issuperset(anew.whole) and left_out <= shown:
                return found.recording(anew)
            whole.update(anew.whole)
            shown |= {*anew.whole, *left_out}
            if listing.partial:
                again = reader.listing(listing.checkpoint, progress, shown)
                listing = replace(again, settled=listing.settled, reached=listing.reached)
            found = self._assembly(listing, progress, whole)

    def _assembly(self, listing: Listing, progress: Progress, whole: Collection[Folder] = ()) -> Assembly:
        found = Assembly.of(listing, progress, self.wanted, self._policy_of, self.retention, whole, self.naming)
        check_protocol(self.dialect.protocol, found)
        check_decided(self.undecided, found)
        check_begun(self.naming, found, progress)
        self.check_shaping(found, progress)
        return found

    def refusal(self, statement: Statement) -> DdlRefused | None:
        """Why `statement` is not to run, as far as it shows without the target."""
        return refusal(statement) or shaping_refusal(statement, self.shaping_of)

    def check_rules(self, target: LoadTarget, keys: KeyColumns | None, had: Callable[[], Collection[str]]) -> None:
        """Raises CannotBeExact where the rules about the changes of a table cannot be followed for a load of it. `keys`
        is what is known of its unique keys, `had` tells the columns, in lower case, of any of its versions."""
        if target.shaping is not None:
            if self.naming.merges(target.table):
                raise CannotBeExact(
                    "a route merges it with others, and it has filters or masks, which are for mirrors only",
                    hint="leave the table out of the route, or out of the filters and masks",
                    table=str(target.table),
                )
            if (mode := self.naming.mode(target.table)) is not None and mode.keeps_ended:
                raise CannotBeExact(
                    f"it has the form {mode}, and filters or masks, which are for mirrors only",
                    hint="leave the table out of [[consumer.table-modes]], or out of the filters and masks",
                    table=str(target.table),
                )
            from consumer.shaping.rules import check_rules  # Arrow is loaded only where there are rules

            check_rules(target, self.dialect, keys, had)

    def check_shaping(self, assembly: Assembly, progress: Progress) -> None:
        """Raises BadConfig where a table that has rows has other rules now."""
        if self.shaping_of is not unshaped or progress.filters:
            check_shaping(self.shaping_of, progress, assembly.catalog)

    def opening(self, assembly: Assembly, progress: Progress) -> ProgressChange | None:
        """What to record before the round of `assembly` begins. The assembly is made again after that."""
        if progress.starts:
            check_exchanged(assembly, progress)
        let = let_in(assembly, progress, self._policy_of, self.naming)
        changes = (settle_moved(assembly.files, progress), let, *self._rules(assembly, progress))
        return ProgressChange().merged(*filter(None, changes)) if any(changes) else None

    def starting(self, assembly: Assembly, progress: Progress) -> ProgressChange | None:
        """What to record before `opening`, of tables that begin at a moment of their own. The assembly is made again
        after that. Raises BadConfig."""
        change = starting(assembly, progress, self.starts, self.shaping_of, self._policy_of)
        if change is None:
            return None
        check_exchanged(assembly, progress.after(change))
        return change.merged(*self._rules(assembly, progress))

    def _rules(self, assembly: Assembly, progress: Progress) -> Iterator[ProgressChange]:
        """The rules of tables, where others are recorded."""
        if self.naming.routes != progress.routes:
            yield ProgressChange(routes=self.naming.routes)
        if (told := recorded(self.naming, assembly.catalog.by_table)) != progress.modes:
            yield ProgressChange(modes=told)
        rules = "" if self.shaping_of is unshaped else recorded_rules(self.shaping_of, assembly.catalog.by_table)
        if rules != progress.filters:
            yield ProgressChange(filters=rules)

    @property
    def _policy_of(self) -> PolicyOf:
        return keeping(self.policy_of, self.naming)
