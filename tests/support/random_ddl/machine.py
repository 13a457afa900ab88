"""The machine: an upstream grows, its changefeed writes, a replica follows, and both are compared."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from random import Random

from consumer.errors import ConsumerError
from consumer.model.ddl_policy import DdlPolicy
from consumer.results import RunResult
from tests.servers import SqlServer
from tests.support.crashes import Crash, Fuse
from tests.support.random_ddl.changefeed import Changefeed
from tests.support.random_ddl.events import WAITS, Manner, Statement
from tests.support.random_ddl.original import Original, Snapshot, loosened
from tests.support.random_ddl.replica import Replica
from tests.support.random_ddl.upstream import ALIVE, Upstream

REFUSED = ("create-table", "truncate-table", "rename-table", "column", "index", "partition", "drop-database")
Moment = tuple[int, Snapshot]
"""A checkpoint that no statement waits for, and what the target held."""


def play(
    seed: int,
    size: int,
    folder: Path,
    server: SqlServer,
    replica: Callable[[Original], Replica],
    partitions: bool,
    look: Callable[[Path, Replica], None] = lambda folder, replica: None,
    rounds: tuple[int, int] = (1, 4),
    alive: Sequence[int] = ALIVE,
    exchanges: bool = True,
) -> Upstream:
    """One history, with `size` events between two checkpoints, of which there are as many as `rounds` says, over
    `alive` tables. An AssertionError tells all of it. `look` is called whenever the replica is as it must be."""
    random = Random(seed)
    original = Original(server)
    try:
        original.reset()
        drawn = Manner.drawn(random, partitions, original.has_expression_indexes)
        manner = replace(drawn, exchanges=exchanges, tidb=original.is_tidb)
        upstream = Upstream(original, random, manner, alive=random.choice(alive))
        target = replica(original)
        target.policies = manner.policies
        _play(random, size, rounds, folder, upstream, target, look)
        return upstream
    finally:
        original.close()


def _play(
    random: Random,
    size: int,
    rounds: tuple[int, int],
    folder: Path,
    upstream: Upstream,
    replica: Replica,
    look: Callable[[Path, Replica], None],
) -> None:
    changefeed = Changefeed(folder, upstream)
    upstream.begin(replica.older)
    moments: list[Moment] = []
    checkpoint = upstream.now
    for _ in range(random.randint(*rounds)):
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
        kinds = random.sample(REFUSED, 3) if random.random() < 0.1 else []
        damaged = random.choice(new) if new and random.random() < 0.2 else None
        if damaged or kinds:  # what is dropped of a table that is stopped may lack rows
            upstream.doubted |= {name for name in expected if "__trash_" in name} - {*replica.state()}
        if damaged:
            _stop_a_table(damaged, random, folder, upstream, replica)
        if kinds:
            replica.refuse(folder, kinds)
            upstream.log.append(f"refuses {kinds}")
        if not damaged and not kinds and replica.executes and random.random() < 0.3:
            _follow_the_plan(folder, upstream, replica)
        _follow(random, folder, upstream, replica, expected)
        _looked(look, folder, upstream, replica)
        if not without_last and not upstream.waits_at(checkpoint):
            moments.append((checkpoint, expected))
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
    changefeed.metadata(checkpoint)
    if random.random() < 0.3:
        _replay(random, folder, upstream, replica, moments)


def _looked(look: Callable[[Path, Replica], None], folder: Path, upstream: Upstream, replica: Replica) -> None:
    try:
        look(folder, replica)
    except AssertionError as error:
        raise AssertionError("\n".join([str(error), str(upstream.manner), *upstream.log])) from error


def _follow_the_plan(folder: Path, upstream: Upstream, replica: Replica) -> None:
    """What `plan` shows is what the next run executes, but for tables that go to the trash: their rows tell how."""
    shown = Counter(
        statement
        for step in replica.plan(folder).steps
        if step.kind == "ddl" and step.policy == DdlPolicy.EVOLVE
        for statement in (step.target.statements if step.target else ())
    )
    replica.executed.clear()
    replica.once(folder, Fuse(), 0, "1GiB")
    executed = Counter(replica.executed)
    story = "\n".join([str(upstream.manner), *upstream.log])
    assert shown == executed, f"only shown: {shown - executed}\nonly executed: {executed - shown}\n{story}"


def _replay(random: Random, folder: Path, upstream: Upstream, replica: Replica, moments: Sequence[Moment]) -> None:
    """From the start to some of the checkpoints, one stretch after the other, into an empty target. What an earlier
    stretch ignored is not told to a later one."""
    chosen = sorted(random.sample(range(len(moments)), min(len(moments), 1 if upstream.manner.ignores else 2)))
    replica.reset()
    upstream.log.append("replay")
    for statement in upstream.older:
        assert replica.older is not None
        replica.older(statement)
    after: int | None = None
    for checkpoint, expected in (moments[at] for at in chosen):
        result = _until_the_end(random, upstream, partial(replica.replay, folder, after, checkpoint))
        _compare(upstream, replica, expected, result)
        after = checkpoint


def _resync(random: Random, folder: Path, upstream: Upstream, replica: Replica) -> None:
    """One of the tables is made again, or that is refused, or the run dies: whoever looks next finds it right."""
    tables = sorted(name for name, table in upstream.tables.items() if not table.is_view)
    if not tables:
        return
    table, fuse = random.choice(tables), Fuse(random.randrange(60) if random.random() < 0.5 else None)
    try:
        replica.resync(folder, table, fuse)
        upstream.log.append(f"resync {table}")
    except Crash:
        upstream.log.append(f"resync {table} died")
    except ConsumerError as error:
        upstream.log.append(f"resync {table} was refused: {error.message}")


def _stop_a_table(file: Path, random: Random, folder: Path, upstream: Upstream, replica: Replica) -> None:
    """A run that meets a damaged file, which is mended afterwards: other tables have gone on, a statement may have made
    the damaged table again."""
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
    round_bytes, keyed = random.choice(("1", "300", "1000", "1GiB")), random.choice((0, 0, 3))
    result = _until_the_end(random, upstream, lambda fuse: replica.once(folder, fuse, keyed, round_bytes))
    _compare(upstream, replica, expected, result)


def _until_the_end(random: Random, upstream: Upstream, run: Callable[[Fuse], RunResult]) -> RunResult:
    """Run it, again as often as it dies."""
    moment = random.randrange(20) if random.random() < 0.6 else None
    while True:
        try:
            return run(Fuse(moment))
        except Crash:
            upstream.log.append(f"died at {moment}")
            assert moment is not None
            moment = moment + random.randrange(1, 30) if random.random() < 0.7 else None


def _compare(upstream: Upstream, replica: Replica, expected: Snapshot, result: RunResult) -> None:
    errors = [f"{name}: {table.state}: {table.error}" for name, table in result.tables.items() if table.error]
    expected, found = (loosened(side, upstream.loosely) for side in (replica.kept(expected), replica.state()))
    story = "\n".join([str(upstream.manner), *upstream.log])
    assert not errors, f"{errors}\n{story}"
    # Such a table goes to the trash as one that may lack rows: so it is with files that were written again, and that
    # nothing has read before a DROP at the very checkpoint of the last run.
    partial = {name for name in found if "__partial_" in name}
    doubted = {*upstream.doubted, *partial, *(name.replace("__partial_", "__trash_") for name in partial)}
    different = {
        name: (expected.get(name), found.get(name))
        for name in {*expected, *found} - doubted
        if expected.get(name) != found.get(name)
    }
    told = "\n".join(f"{name}:\n expected {want}\n found    {got}" for name, (want, got) in different.items())
    assert not different, f"{told}\n{story}"
