"""One history's world, and what each event does in it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from random import Random

from consumer.config.settings import Settings
from consumer.errors import TargetBusy, TargetUnavailable
from consumer.model.names import TableName
from consumer.model.progress import State
from consumer.model.times import tso_to_time
from tests.simulate.bucket import BASE, Bucket
from tests.simulate.changefeed import Changefeed
from tests.simulate.config import settings
from tests.simulate.events import Event, History
from tests.simulate.loader import SimulatedLoader
from tests.simulate.machine import BEHIND, Crash, Machine
from tests.simulate.movers import Mover
from tests.simulate.original import DATABASE, DAY, Original
from tests.simulate.rows import image
from tests.simulate.server import Server
from tests.support.memory.store import MemoryTable
from tests.support.upstream import Change

MORE_FILES = "files came meanwhile"
"""This alone may break a round off, but it stops no table."""


class World:
    """`excuses` say why a table may stop for good, `trouble` what may hold up the run that is under way."""

    def __init__(self, played: History) -> None:
        setup = played.setup
        self.history, self.machine = played, Machine(Random(played.seed))
        self.bucket = Bucket(BASE, self._at_the_storage, setup.page, setup.in_order)
        self.storage_until = 0.0
        self.original: Original = Mover(
            Random(0),
            keyless=setup.keyless,
            whole_milliseconds=not setup.style.commit_ts,
            own_tables=setup.own_tables,
            more=setup.more,
            classic=setup.style.classic,
        )
        if setup.given:
            self.original.act(Random(played.seed), 8, 0.4)
        self.given = self.original.now if setup.given else 0
        """The moment as of which the target has all tables, with which the changefeed begins; 0: with nothing."""
        self.changefeed = Changefeed(self.original, self.bucket, setup.style, self.read_up_to, checkpoint=self.given)
        self.changefeed.index_fails = setup.index_fails
        self.server = Server(self.machine, setup.direct, setup.by_itself, setup.by_table, setup.goes_back)
        for name, table in self.original.tables.items():
            rows = [dict(image(table.columns, side)) for side in table.rows.items()]
            self.server.store.tables[self.name(name)] = MemoryTable(table.columns, rows)
        self.server.keep_past()
        if setup.given and played.seed % 2:
            self.original.rename_away(Random(played.seed))  # the first that is told of a table is another name
        self.loader: SimulatedLoader | None = None
        self.excuses: list[str] = []
        self.damaged: dict[str, bytes] = {}
        self.trouble: list[str] = []
        self._rewrites = 0
        self.reached = 0
        """The highest checkpoint: TiCDC may have deleted files by that before `metadata` went back."""
        self.consume: Callable[[Event], None] = lambda event: None

    def _at_the_storage(self, what: str) -> None:
        self.machine.moment(what)
        if self.machine.now < self.storage_until:
            raise OSError(5, "no answer")

    def lingering(self) -> list[str]:
        """The trouble that a run begins with."""
        now, server = self.machine.now, self.server
        found = {
            "outage": server.down_until,
            "storage": self.storage_until,
            "lock": max(server.locks.values(), default=0),
        }
        return [what for what, until in found.items() if until > now] + ["refuse"] * bool(server.refuses)

    def read_up_to(self, table: str) -> int:
        return self.server.progress.table(TableName(DATABASE, table)).applied_ts

    @property
    def settings(self) -> Settings:
        return settings(self.history.setup, self.given)

    def name(self, table: str) -> TableName:
        return TableName(DATABASE, table)

    def do(self, event: Event, moment: str = "") -> None:
        """`moment`: of the run that is under way, "" between runs."""
        if event.kind in ("once", "run"):
            self.consume(event)
            return
        acts: Mapping[str, Callable[[World, Random, str], str | None]] = _ACTS | _OF_A_RUN if moment else _ACTS
        if (act := acts.get(event.kind)) is None:
            return
        self.machine.happened[event.kind] += 1
        if moment in BEHIND:
            self.machine.happened[f"{event.kind} {moment}"] += 1
        self.reached = max(self.reached, self.changefeed.checkpoint)
        told = act(self, Random(event.seed), moment)
        if told:
            self.machine.tell(f"{event.kind}: {told}" + (f" (at: {moment})" if moment else ""))

    # Upstream

    def _commit(self, random: Random, moment: str) -> str:
        return self._act(random, 0.0)

    def _change(self, random: Random, moment: str) -> str:
        return self._act(random, self.history.setup.statements)

    def _act(self, random: Random, statements: float) -> str:
        before, known = self.original.now, len(self.original.statements)
        self.original.act(random, random.randint(1, 4), statements)
        queries = [f"{s.query} ({s.ts})" for s in self.original.statements[known:]]
        return "; ".join([f"upstream goes on from {before} to {self.original.now}", *queries])

    def _filter(self, random: Random, moment: str) -> str | None:
        name = self.original.filter_out(random)
        return name and f"a statement of {name} that the filter takes out, at {self.original.now}"

    def _night(self, random: Random, moment: str) -> str:
        self.original.now += DAY
        return f"it is {tso_to_time(self.original.now):%Y-%m-%d}"

    # The changefeed

    def _flush(self, random: Random, moment: str) -> str:
        self._disturbed(moment, MORE_FILES)
        tables = random.sample(("a", "b", "c"), random.randint(1, 3))
        return self._files(moment, self.changefeed.flush(random, tables, random.random() < 0.6))

    def _files(self, moment: str, paths: list[str]) -> str:
        if self.changefeed.rewrites > self._rewrites:
            self._disturbed(moment, "files were replaced meanwhile")
        self._rewrites = self.changefeed.rewrites
        written = {path: ", ".join(map(_told, self.changefeed.written[path])) for path in paths}
        return "; ".join(f"{path} with {rows}" for path, rows in written.items()) or "nothing"

    def _execute(self, random: Random, moment: str) -> str | None:
        self._disturbed(moment, MORE_FILES)
        statement = self.changefeed.execute(random)
        return None if statement is None else f"schema file of {statement.query} ({statement.ts})"

    def _publish(self, random: Random, moment: str) -> str:
        self._disturbed(moment, MORE_FILES)
        return f"checkpoint {self.changefeed.publish()}"

    def _catch_up(self, random: Random, moment: str) -> str:
        self._disturbed(moment, MORE_FILES)
        files = self._files(moment, self.changefeed.catch_up(random))
        return f"all is written up to {self.changefeed.checkpoint}: {files}"

    def _damage(self, random: Random, moment: str) -> str | None:
        newest = sorted(self.changefeed.written)[-4:]
        return self._damaged(random.choice(newest)) if newest else None

    def _damaged(self, path: str) -> str | None:
        """A file loses its end, until it is mended."""
        if path in self.damaged:
            return None
        content = self.bucket.objects[path].content
        if len(content) <= 20:
            return None  # TiCDC itself leaves an empty file where it crashes: nobody can tell
        self.damaged[path] = content
        self.bucket.put(path, content[:-20])
        return path

    def _take_away(self, random: Random, moment: str) -> str | None:
        """A new file is damaged, and goes away by another hand once its table has stopped there, until it is mended. A
        fail-over could take back that it was seen."""
        path = next(reversed(self.changefeed.catch_up(random)), "")
        if not path or self.history.setup.goes_back or self._damaged(path) is None:
            return None
        self.consume(Event("once", random.getrandbits(32)))
        places = self.server.progress.tables.values()
        if not any(path in place.reason for place in places if place.state is State.STOPPED):
            return f"{path} has lost its end"
        self.bucket.delete(path)
        return f"{path} is gone"

    def _mend(self, random: Random, moment: str) -> str | None:
        for path, content in self.damaged.items():
            there = self.bucket.objects.get(path)
            if path in self.changefeed.written and (there is None or there.content == content[:-20]):
                self.bucket.put(path, content)
        told = ", ".join(self.damaged)
        self.damaged.clear()
        return told

    def _rotate(self, random: Random, moment: str) -> str:
        before = self.original.now
        self.original.rotate(random, 40)
        return f"40 RENAMEs from {before} to {self.original.now}"

    def _detour(self, random: Random, moment: str) -> str | None:
        name = self.original.detour(random)
        return name and f"{name} gets a column, is emptied, and loses the column without a statement"

    def _send_again(self, random: Random, moment: str) -> str | None:
        """Rows of a table that has got another name come once more under its old one."""
        times = [ts for ts, _ in self.original.states if ts >= self.given][-12:]
        name = self.original.rename_away(random)
        if name is None or not times:
            return None
        self.changefeed.catch_up(random)
        self.consume(Event("once", random.getrandbits(32)))
        self.changefeed.restart(random, min(random.choice(times), self.changefeed.checkpoint))
        return f"{name} is renamed; then {self._files(moment, self.changefeed.catch_up(random))}"

    def _restart(self, random: Random, moment: str) -> str:
        return self._from(random, self.changefeed.checkpoint, moment)

    def _tear(self, random: Random, moment: str) -> str:
        return self._from(random, self.changefeed.checkpoint, moment, torn=True)

    def _set_back(self, random: Random, moment: str) -> str:
        times = [ts for ts, _ in self.original.states if self.given <= ts <= self.changefeed.checkpoint]
        back = random.choice(times[-12:]) if times else self.changefeed.checkpoint
        found = self._from(random, back, moment)
        self.changefeed.publish(back)
        return f"{found}; metadata says so"

    def _from(self, random: Random, checkpoint: int, moment: str, torn: bool = False) -> str:
        self._disturbed(moment)
        self.changefeed.restart(random, checkpoint, torn)
        return f"the changefeed begins again at {checkpoint}"

    def _lose_an_index(self, random: Random, moment: str) -> str | None:
        """By another hand, or a rule of the bucket."""
        self._disturbed(moment)
        return self.changefeed.lose_an_index(random)

    def _clean_up(self, random: Random, moment: str) -> str:
        self._disturbed(moment)
        days = self.history.setup.expiration_days or 2
        gone = self.changefeed.clean_up(days)
        return f"{len(gone)} files older than {days} days are deleted: {', '.join(gone)}"

    def may_have_lost_files(self) -> bool:
        """Whether the consumer, by what it is told, must take files that it has not read for deleted."""
        days = self.history.setup.expiration_days
        if days == 0:
            return False
        known = {table for ts in (self.original.now, self.changefeed.checkpoint) for table in self.original.at(ts)}
        known |= {name.table for name, place in self.server.progress.tables.items() if place.state is State.STOPPED}
        read = min(map(self.read_up_to, known), default=0)
        reached = max(self.changefeed.checkpoint, self.reached)
        last, place = (tso_to_time(ts).date().toordinal() for ts in (reached, read))
        return days is None or place - 1 < last - days

    def _disturbed(self, moment: str, how: str = "the storage changed meanwhile") -> None:
        if moment:
            self.trouble.append(how)

    # The target

    def _outage(self, random: Random, moment: str) -> str:
        seconds = random.choice((1, 20, 100))
        self.server.down_until = self.machine.now + seconds
        self.trouble.append("outage")
        return f"the target does not answer for {seconds} s"

    def _lock(self, random: Random, moment: str) -> str:
        table, seconds = random.choice("abc"), random.choice((1, 20, 1000))
        self.server.locks[self.name(table)] = self.machine.now + seconds
        self.trouble.append("lock")
        return f"{table} is locked for {seconds} s"

    def _refuse(self, random: Random, moment: str) -> str:
        name, refuses = self.name(random.choice("abc")), self.server.refuses
        if refuses.pop(name, None) is None:
            refuses[name] = random.random() < 0.3
        self.trouble.append("refuse")
        told = [f"{'all' if every else 'most'} of {name}" for name, every in sorted(refuses.items())]
        return f"refused statements from now on: {', '.join(told) or 'none'}"

    def _fail_over(self, random: Random, moment: str) -> str:
        writes = random.choice((0, 1, 1, 2, 3, 5, 10))
        self.server.fail_over(writes)
        self.trouble.append("fail-over")
        return f"the target loses the last {writes} writes"

    def _drop_by_hand(self, random: Random, moment: str) -> str | None:
        table = random.choice("abc")
        if self.server.store.tables.pop(self.name(table), None) is None:
            return None
        self.excuses.append("dropped by hand")
        self.server.mark()
        self.server.keep_past()
        return table

    # A run of the consumer

    def _crash(self, random: Random, moment: str) -> None:
        self.machine.tell(f"the consumer dies (at: {moment})")
        raise Crash

    def _take_over(self, random: Random, moment: str) -> str:
        self.machine.tell(f"the consumer freezes (at: {moment})")
        self.machine.now += 60.0
        self.trouble.append("taken over")
        self.consume(Event("once", random.getrandbits(32)))
        return "the frozen one goes on"

    def _cut(self, random: Random, moment: str) -> str | None:
        if not moment.startswith(("before", "after", "between")) or moment.endswith("task"):
            return None
        self.trouble.append("cut")
        self.machine.tell(f"the connection breaks (at: {moment})")
        raise TargetUnavailable("the connection broke")

    def _busy(self, random: Random, moment: str) -> str | None:
        if moment not in ("before commit", "before record"):
            return None
        self.trouble.append("busy")
        self.machine.tell(f"a deadlock (at: {moment})")
        raise TargetBusy("deadlock")

    def _storage(self, random: Random, moment: str) -> str:
        self.storage_until = self.machine.now + random.choice((0.5, 50.0))
        self.trouble.append("storage")
        return "the storage does not answer for a while"

    def _late_task(self, random: Random, moment: str) -> str:
        if self.loader is not None:
            self.loader.revive()
        return "an old attempt of a task goes on"

    def _switch(self, random: Random, moment: str) -> None:
        for frame in self.machine.frames[-1:]:
            if frame.beside is not None:
                frame.beside.make_one()

    def _break_a_job(self, random: Random, moment: str) -> str:
        self.trouble.append("job")
        if self.loader is not None:
            self.loader.breaks = random.randint(1, 4)
        return "Spark's job breaks"


def _told(change: Change) -> str:
    images = " -> ".join(f"{side[0]} {side[1]}" for side in (change.old, change.new) if side is not None)
    return f"{change.kind} {images} at {change.ts}"


_ACTS: dict[str, Callable[[World, Random, str], str | None]] = {
    "commit": World._commit, "change": World._change, "filter": World._filter, "night": World._night,
    "flush": World._flush, "execute": World._execute, "publish": World._publish, "catch up": World._catch_up,
    "restart": World._restart, "tear": World._tear, "set back": World._set_back, "clean up": World._clean_up,
    "damage": World._damage, "take away": World._take_away, "mend": World._mend, "rotate": World._rotate,
    "detour": World._detour, "send again": World._send_again, "lose an index": World._lose_an_index,
    "outage": World._outage, "lock": World._lock, "refuse": World._refuse, "fail over": World._fail_over,
    "drop by hand": World._drop_by_hand,
}  # fmt: skip
_OF_A_RUN: dict[str, Callable[[World, Random, str], str | None]] = {
    "crash": World._crash, "take over": World._take_over, "cut": World._cut, "busy": World._busy,
    "storage": World._storage, "late task": World._late_task, "switch": World._switch,
    "break a job": World._break_a_job,
}  # fmt: skip
