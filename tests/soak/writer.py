"""A live changefeed on an S3 server: many databases, rows and statements all the time, at the clock's own times."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from consumer.model.actions import Action
from tests.faults.workload import Query, Workload
from tests.s3_server import BUCKET, S3Server
from tests.support.feed import Feed
from tests.support.upstream import State, Statement

TABLES_OF_ONE = 5
"""Of one workload: three with statements, one without a key, one with two keys."""
PROBE = "soak.probe"
"""Its row 1 holds when it was written, in milliseconds from the writer's beginning."""
KEEPING = "kept{}"
"""The databases whose dropped and truncated tables go to the trash."""
_LOGICAL_BITS = 18


class Writer:
    """`begin` writes until `end`: a part of some tables' changes each `beat` seconds. The true state is its own."""

    def __init__(
        self, server: S3Server, prefix: str, folder: Path, seed: int, tables: int, keeping: int, beat: float
    ) -> None:
        """`tables` at most, in groups of `TABLES_OF_ONE`; `keeping` groups keep what is dropped. `folder` is empty, and
        holds what goes to the bucket next."""
        self._prefix, self._folder, self._beat = prefix, folder, beat
        self._random = random.Random(seed)
        self._client, self._uploads = server.client(), ThreadPoolExecutor(4)
        self.objects = 0
        """Data files and schema files in the storage."""
        self.started, self._epoch = time.monotonic(), time.time()
        self._born = self._tso(0)
        self._feed, self._ts = Feed(folder), self._born
        self._feed.database("soak", self._born)
        self._feed.create(PROBE, self._born + 1)
        self._groups = [self._group(seed, number, keeping) for number in range(max(1, tables // TABLES_OF_ONE))]
        self._kept: list[State | None] = [{} if number < keeping else None for number in range(len(self._groups))]
        self._turn = 0
        self.last = 0
        """What the row of the probe holds in the end."""
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._write, daemon=True)
        self.error: Exception | None = None

    def begin(self) -> None:
        """The first part of every group is there when it returns."""
        for _ in self._groups:
            self._advance()
        self._publish()
        self._thread.start()

    def end(self) -> None:
        self._over.set()
        self._thread.join()
        self._uploads.shutdown()
        if self.error is not None:
            raise self.error

    def probe(self) -> int:
        """What the row of the probe holds where it is written now."""
        return round((time.monotonic() - self.started) * 1000)

    @property
    def kept(self) -> int:
        """Tables in the trash, once the target has everything."""
        return sum(len(kept) for kept in self._kept if kept is not None)

    def differences(self, query: Query) -> list[str]:
        """What a target that has everything has otherwise, a line a table."""
        return [
            f"{group.upstream.database}, {line}"
            for group, kept in zip(self._groups, self._kept, strict=True)
            for line in group.differences(query, kept)
        ]

    def _group(self, seed: int, number: int, keeping: int) -> Workload:
        self._ts += 10
        names = (KEEPING.format(number) if number < keeping else f"d{number}", f"e{number}")
        return Workload(self._folder, seed * 1000 + number, names, self._ts, old_folders=False)

    def _write(self) -> None:
        try:
            while not self._over.wait(self._beat):
                self._advance()
                self._publish()
        except Exception as error:  # told by `end`
            self.error = error

    def _advance(self) -> None:
        """The next group goes on. No two commits have one time."""
        number = self._turn % len(self._groups)
        self._turn += 1
        group, kept = self._groups[number], self._kept[number]
        upstream = group.upstream
        upstream.now = self._ts = max(self._ts + 1, self._tso(time.monotonic() - self.started))
        known = len(upstream.statements)
        group.advance()
        if kept is not None:
            for statement in upstream.statements[known:]:
                _keep(kept, statement, upstream.at)
        upstream.forget()
        self._ts = upstream.now

    def _publish(self) -> None:
        """What is new goes to the bucket, `metadata` last."""
        self._ts += 1
        self.last = self.probe()
        self._feed.puts(PROBE, self._born + 1, {self._ts: (1, str(self.last))})
        self._feed.checkpoint(self._ts)
        checkpoint = self._folder / "metadata"
        new = [path for path in self._folder.rglob("*") if path.is_file() and path != checkpoint]
        self.objects += sum(1 for _ in self._uploads.map(self._upload, new))
        self._upload(checkpoint)

    def _upload(self, path: Path) -> None:
        key = f"{self._prefix}/{path.relative_to(self._folder).as_posix()}"
        self._client.put_object(Bucket=BUCKET, Key=key, Body=path.read_bytes())
        path.unlink()

    def _tso(self, seconds: float) -> int:
        return int((self._epoch + seconds) * 1000) << _LOGICAL_BITS


def _keep(kept: State, statement: Statement, at: Callable[[int], State]) -> None:
    """What the trash of the statement's database has after it. A table that is truncated while empty leaves none."""
    before = at(statement.ts - 1).get(statement.table, {})
    if statement.action == Action.DROP_SCHEMA:
        kept.clear()
    elif statement.action == Action.DROP_TABLE or (statement.action == Action.TRUNCATE_TABLE and before):
        kept[f"__trash_{statement.ts}_{statement.table}"] = before
