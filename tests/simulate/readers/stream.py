"""A streaming query that follows a table, call by call as Spark makes them: it is started again at any moment, and the
checkpoint of the storage goes on, or back, meanwhile."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from random import Random
from typing import Any, TypeVar

from consumer.errors import ConsumerError, SchemaDrift, StorageChanged, TableMissing
from consumer.model.times import MAX_TSO
from consumer.source.data_source import TicdcStream
from tests.simulate.machine import Failure
from tests.simulate.readers.asking import LOST, READ, refuse
from tests.simulate.readers.source import SIZES, source_of, told_of
from tests.simulate.readers.truth import Truth, are_written
from tests.simulate.world import World

_Answer = TypeVar("_Answer")
Offset = dict[str, Any]
READER = "a stream"
MOST_TRIGGERS = 60
"""In which it must have everything."""


class Following:
    """`truth` is that of the moment when it begins."""

    def __init__(self, world: World, truth: Truth, random: Random) -> None:
        self._world, self._truth = world, truth
        self._given = {"partition_bytes": random.choice(SIZES)}
        self._given |= {"max_bytes_per_trigger": random.choice(("300B", "1KB"))} if random.random() < 0.4 else {}
        self._given |= {"accept_statements": "all"} if random.random() < 0.3 else {}
        self._stream: TicdcStream | None = None
        self._at: Offset = {}
        """That its checkpoint holds, nothing in the beginning."""
        self._is_told = False
        """Whether an error said how to start it otherwise."""
        self._recorded = 0
        """The offset of its last batch, 0 for none."""
        self._reached = 0
        """The changes up to there were given."""
        self._is_over, self._is_refused = False, False
        world.machine.happened[f"{READER} {READ}"] += 1

    def trigger(self, random: Random) -> bool:
        """One batch, of a query that may be started before; whether there may be more."""
        if not self._is_over and (self._stream is None or random.random() < 0.3):
            self._call(lambda: self._start(self._at))
        if self._stream is None:
            starts_otherwise, self._is_told = self._is_told, False
            return starts_otherwise
        end = self._call(self._stream.latestOffset)
        if end is None:
            return not self._is_over
        if end == self._at and "to_ts" in self._given:
            del self._given["to_ts"]
            self._stream = None
            return True
        if end == self._at:
            return False
        self._call(lambda: self._batch(end))
        if random.random() < 0.3:  # it died before it recorded that
            self._call(lambda: self._start(end))
            self._call(lambda: self._batch(end))
        if self._stream is not None:
            self._stream.commit(end)
            self._at, self._reached = end, max(self._reached, end["commit-ts"])
            self._recorded = end["commit-ts"]
        return not self._is_over

    def finish(self, random: Random) -> None:
        """Raises Failure where changes are left out: up to the checkpoint, or up to where its table went away."""
        more = True
        for _ in range(MOST_TRIGGERS):
            more = more and self.trigger(random)
        left = [c for c in self._truth.committed(self._reached, self._until()) if not self._is_refused]
        if more or (left and (self._is_over or self._can_start)):
            raise Failure(f"a stream of {self._truth.name} does not give all up to {self._until()}: {left[:1]}")

    def _call(self, call: Callable[[], _Answer]) -> _Answer | None:
        """None where the query ends. A statement that changed columns ends it, and so does a file that was written
        again between its listing and its reading: it can be started again."""
        try:
            return call()
        except ConsumerError as error:
            unheard = type(error) is TableMissing and not self._at and self._world.given  # no file of it is there yet
            rewritten = type(error) is StorageChanged and bool(self._world.changefeed.rewrites)
            self._stream, self._is_over = None, not (type(error) is SchemaDrift or unheard or rewritten)
            if type(error) is SchemaDrift and error.version is not None:
                self._do_as_told(error.version)
            if type(error) not in (SchemaDrift, TableMissing) and not rewritten:
                self._is_refused = True
                refuse(self._world, READER, self._truth.name, error)
        return None

    def _do_as_told(self, version: int) -> None:
        """About a statement whose effect on rows no change shows: a query that resumes reads what is before it, and its
        copy gets the statement then. A new query keeps no copy."""
        resumes, self._is_told = self._recorded > 0, True
        self._given.pop("to_ts", None)
        if resumes and self._recorded < version - 1:
            self._given["to_ts"] = str(version - 1)
        else:
            self._given["accept_statements"] = str(version) if resumes else "all"

    def _start(self, recorded: Offset) -> None:
        """By the checkpoint of now."""
        if not self._can_start:
            self._stream = None
            return
        end = min(self._world.changefeed.checkpoint, int(self._given.get("to_ts", MAX_TSO)))
        source = source_of(self._world, self._truth.name, **self._given)
        self._stream, self._truth = source.streamReader(source.schema()), replace(self._truth, end=end)
        if not self._at:
            self._at = self._stream.initialOffset()
        if recorded and self._stream.partitions(recorded, recorded):
            raise Failure(f"a stream of {self._truth.name} that is started again gives rows before it is asked for any")

    def _batch(self, end: Offset) -> None:
        """Raises Failure unless its changes are those behind what was given before, each once."""
        if self._stream is None:
            return
        parts, upto = self._stream.partitions(self._at, end), end["commit-ts"]
        rows = [row for part in parts for batch in self._stream.read(part) for row in batch.to_pylist()]
        found = [told_of(row, self._truth) for row in rows]
        if not are_written(self._world, self._truth.committed(self._reached, upto)):
            self._world.machine.happened[LOST] += 1
            self._stream, self._is_over, self._is_refused = None, True, True
            return
        try:
            self._truth.check(found, self._reached, before=False, upto=upto)
        except Failure as failure:
            where = f"behind {self._reached} and up to {upto}, from the offset {self._at}"
            raise Failure(f"a stream of {self._truth.name} differs {where}: {failure}") from None

    @property
    def _can_start(self) -> bool:
        """Whether the table has the name still, so that the query can be started with its checkpoint. Of a statement at
        the checkpoint of the storage the schema file may be still to be written."""
        original, end = self._world.original, self._world.changefeed.checkpoint
        lives = original.lives_at(end).get(self._truth.name) == self._truth.life
        return lives and all(statement.ts != end for statement in original.statements)

    def _until(self) -> int:
        """The last moment, up to the checkpoint, at which the table had the name."""
        original, checkpoint = self._world.original, self._world.changefeed.checkpoint
        pairs = zip(original.states, original.lives, strict=True)
        name, life = self._truth.name, self._truth.life
        gone = (ts for (ts, _), lives in pairs if ts > self._truth.end and lives.get(name) != life)
        return min(checkpoint, next(gone, checkpoint + 1) - 1)
