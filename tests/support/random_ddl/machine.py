"""The machine: an upstream grows, its changefeed writes, a replica follows, and both are compared."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any
from unittest.mock import patch

import consumer.sink.mysql.ddl as mysql_ddl
import consumer.sink.mysql.sink as mysql_sink
from consumer import app
from consumer.app import parts
from consumer.config.load import load
from consumer.errors import ConsumerError
from consumer.model.names import TableName
from consumer.model.result import RunResult
from consumer.sink import sink_for
from consumer.sink.mysql.progress import store
from tests.servers import SqlServer
from tests.support.crashes import Crash, CrashingLoader, CrashingSink, Fuse
from tests.support.observers import Recorder
from tests.support.random_ddl.changefeed import Changefeed
from tests.support.random_ddl.events import WAITS, Manner, Statement
from tests.support.random_ddl.original import ZONE, Original, Snapshot, loosened
from tests.support.random_ddl.upstream import ALIVE, Upstream

NAMES = itertools.count()


class Replica:
    """A target of one consumer name: `url` is where it is, `state` what it holds, `kept` what it keeps of the original.
    `older` makes a table beforehand (None: it cannot)."""

    def __init__(
        self,
        url: str,
        state: Callable[[], Snapshot],
        kept: Callable[[Snapshot], Snapshot],
        older: Callable[[str], object] | None = None,
    ) -> None:
        self.url, self.state, self.kept, self.older = url, state, kept, older
        self._flags = {"downstream_uri": url, "name": f"random{next(NAMES)}", "tz": ZONE}

    @classmethod
    def on(cls, original: Original, server: SqlServer) -> Replica:
        """Databases of the original's own server."""
        return cls(server.url(), lambda: original.snapshot(""), lambda snapshot: snapshot, original.execute)

    def once(self, folder: Path, fuse: Fuse, keyed: int, round_bytes: str) -> RunResult:
        flags = {**self._flags, "upstream_uri": f"file://{folder}?protocol=canal-json", "round_bytes": round_bytes}
        with _around_every_change(fuse):
            return app.once(load(flags, {}).settings, Recorder(), CrashingLoader(fuse, keyed))

    def resync(self, folder: Path, table: TableName, fuse: Fuse) -> RunResult:
        flags = {**self._flags, "upstream_uri": f"file://{folder}?protocol=canal-json"}
        with _around_every_change(fuse):
            return app.resync(load(flags, {}).settings, Recorder(), table, CrashingLoader(fuse))


@contextmanager
def _around_every_change(fuse: Fuse) -> Iterator[None]:
    """Moments at which the run can die: around intents, each statement, facts, commits."""

    def crashing(*given: Any, **named: Any) -> CrashingSink:
        return CrashingSink(sink_for(*given, **named), fuse)

    with (
        patch.object(parts, "sink_for", crashing),
        patch.object(mysql_sink, "store", fuse.around(store)),
        patch.object(mysql_ddl, "_execute", fuse.around(mysql_ddl._execute)),
    ):
        yield


def play(
    seed: int,
    size: int,
    folder: Path,
    server: SqlServer,
    replica: Callable[[Original], Replica],
    partitions: bool,
) -> None:
    """One history, with `size` events between two checkpoints. An AssertionError tells all of it."""
    random = Random(seed)
    original = Original(server)
    try:
        original.reset()
        upstream = Upstream(original, random, Manner.drawn(random, partitions), alive=random.choice(ALIVE))
        _play(random, size, folder, upstream, replica(original))
    finally:
        original.close()


def _play(random: Random, size: int, folder: Path, upstream: Upstream, replica: Replica) -> None:
    changefeed = Changefeed(folder, upstream)
    upstream.begin(replica.older)
    for _ in range(random.randint(1, 4)):
        for _ in range(size):
            upstream.step()
        expected, without_last = _end_round(random, upstream)
        checkpoint = upstream.now
        if random.random() < 0.5 and not without_last:
            checkpoint, upstream.now = checkpoint + 1, checkpoint + 2
            expected = upstream.snapshot()
        for _ in range(random.choice((0, 0, 4))):
            upstream.step()
        known = set(folder.rglob("CDC*.json"))
        changefeed.write(upstream.now, checkpoint, without_last)
        upstream.log.append(f"checkpoint {checkpoint}")
        new = sorted(set(folder.rglob("CDC*.json")) - known)
        if new and random.random() < 0.2:
            _stop_a_table(random.choice(new), random, folder, upstream, replica)
        _follow(random, folder, upstream, replica, expected)
        if random.random() < 0.3:
            _resync(random, folder, upstream, replica)
            _follow(random, folder, upstream, replica, expected)
        earlier = random.choice([event.ts for event in upstream.events if event.ts <= checkpoint])
        if random.random() < 0.2:
            changefeed.metadata(earlier)
            upstream.log.append(f"back to checkpoint {earlier}")
            if random.random() < 0.5:
                _resync(random, folder, upstream, replica)
            _follow(random, folder, upstream, replica, expected)
        if random.random() < 0.4:
            upstream.log.append(f"restart from {earlier}")
            changefeed.restart(earlier)


def _resync(random: Random, folder: Path, upstream: Upstream, replica: Replica) -> None:
    """One of the tables is made anew, or that is refused, or the run dies: whoever looks next finds it right."""
    tables = sorted(name for name, table in upstream.tables.items() if not table.is_view)
    if not tables:
        return
    table, fuse = random.choice(tables), Fuse(random.randrange(20) if random.random() < 0.5 else None)
    try:
        replica.resync(folder, table, fuse)
        upstream.log.append(f"resync {table}")
    except Crash:
        upstream.log.append(f"resync {table} died")
    except ConsumerError as error:
        upstream.log.append(f"resync {table} was refused: {error.message}")


def _stop_a_table(file: Path, random: Random, folder: Path, upstream: Upstream, replica: Replica) -> None:
    """A run that meets a damaged file, which is mended afterwards: other tables have gone on, a statement may have made
    the damaged table anew."""
    whole = file.read_bytes()
    file.write_bytes(whole[:-20])
    result = replica.once(folder, Fuse(), 0, "1GiB")
    if random.random() < 0.5:
        _resync(random, folder, upstream, replica)
    file.write_bytes(whole)
    stopped = [f"{name}: {table.error}" for name, table in result.tables.items() if table.error]
    upstream.log.append(f"with {file.relative_to(folder)} damaged: {stopped}")


def _end_round(random: Random, upstream: Upstream) -> tuple[Snapshot, bool]:
    """What the replica must hold at the checkpoint, and whether the statement at the checkpoint is not written yet.

    The statement of a checkpoint's own version runs, but for those of which files may be missing: they wait.
    """
    if random.random() < 0.5:
        if isinstance(upstream.last, Statement) and upstream.last.action in WAITS:
            upstream.now += 1
        return upstream.snapshot(), False
    before, last = upstream.snapshot(), upstream.last
    upstream.go_on()
    upstream.statement()
    statement = upstream.last
    if statement is last or not isinstance(statement, Statement):
        return before, False
    without_last = not upstream.manner.new and random.random() < 0.5
    waits = without_last or statement.action in WAITS
    return (before, without_last) if waits else (upstream.snapshot(), False)


def _follow(random: Random, folder: Path, upstream: Upstream, replica: Replica, expected: Snapshot) -> None:
    moment = random.randrange(20) if random.random() < 0.6 else None
    round_bytes, keyed = random.choice(("1", "300", "1000", "1GiB")), random.choice((0, 0, 3))
    while True:
        fuse = Fuse(moment)
        try:
            result = replica.once(folder, fuse, keyed, round_bytes)
            break
        except Crash:
            upstream.log.append(f"died at {moment}")
            assert moment is not None
            moment = moment + random.randrange(1, 30) if random.random() < 0.7 else None
    errors = [f"{name}: {table.state}: {table.error}" for name, table in result.tables.items() if table.error]
    expected, found = (loosened(side, upstream.loosely) for side in (replica.kept(expected), replica.state()))
    story = "\n".join([str(upstream.manner), *upstream.log])
    assert not errors, f"{errors}\n{story}"
    different = {
        name: (expected.get(name), found.get(name))
        for name in {*expected, *found}
        if expected.get(name) != found.get(name)
    }
    told = "\n".join(f"{name}:\n expected {want}\n found    {got}" for name, (want, got) in different.items())
    assert not different, f"{told}\n{story}"
