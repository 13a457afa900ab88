"""The replica: a target, the commands that are run on it, and the moments at which they can die."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pymysql

import consumer.sink.mysql.sink as mysql_sink
import consumer.sink.mysql.statements.execute as mysql_ddl
from consumer import app
from consumer.app import parts
from consumer.config.load import load
from consumer.config.settings import Settings
from consumer.errors import TargetBusy
from consumer.model.check import VerifyResult
from consumer.model.names import TableName
from consumer.results import PlanResult, RunResult
from consumer.sink import sink_for
from consumer.sink.mysql.progress.store import store
from consumer.sink.mysql.server.errors import server_error
from consumer.target import Sink, TargetOptions
from tests.servers import SqlServer
from tests.support.crashes import CrashingLoader, CrashingSink, Fuse
from tests.support.inline_loader import InlineLoader
from tests.support.observers import Recorder
from tests.support.random_ddl.original import PREFIX, ZONE, Original, Snapshot

NAMES = itertools.count()


class Replica:
    """A target: `url` is where it is, `state` what it holds, `kept` what it keeps of the original, `reset` empties it.
    `older` makes a table beforehand (None: it cannot). `executes`: upstream's statements, and tells which."""

    policies: Sequence[Mapping[str, object]] = ()
    routes: Sequence[str] = ()

    def __init__(
        self,
        url: str,
        state: Callable[[], Snapshot],
        kept: Callable[[Snapshot], Snapshot],
        reset: Callable[[], object],
        older: Callable[[str], object] | None = None,
    ) -> None:
        self.url, self.state, self.kept, self.older, self._reset = url, state, kept, older, reset
        self._name = f"random{next(NAMES)}"
        self.executed: list[str] = []

    @property
    def executes(self) -> bool:
        return self.older is not None

    @classmethod
    def on(cls, original: Original, server: SqlServer) -> Replica:
        """Databases of the original's own server."""
        return cls(
            server.url(), lambda: original.snapshot(""), lambda snapshot: snapshot, original.drop_replica,
            original.execute,
        )  # fmt: skip

    def reset(self) -> None:
        """Empty the target, which is another consumer's from now on."""
        self._reset()
        self._name = f"random{next(NAMES)}"

    def once(self, folder: Path, fuse: Fuse, keyed: int, round_bytes: str) -> RunResult:
        with self._dying(fuse):
            return app.once(self._settings(folder, round_bytes), Recorder(), CrashingLoader(fuse, keyed))

    def resync(self, folder: Path, table: TableName, fuse: Fuse) -> RunResult:
        with self._dying(fuse):
            return app.resync(self._settings(folder), Recorder(), table, CrashingLoader(fuse))

    def replay(self, folder: Path, after: int | None, end: int, fuse: Fuse) -> RunResult:
        moments = (None if after is None else str(after), str(end))
        with self._dying(fuse):
            return app.replay(self._settings(folder), Recorder(), *moments, CrashingLoader(fuse))

    def verify(self, folder: Path) -> VerifyResult:
        return app.verify(self._settings(folder), Recorder(), loader=InlineLoader())

    def plan(self, folder: Path) -> PlanResult:
        with self._dying(Fuse()):
            return app.plan(self._settings(folder), Recorder())

    def refuse(self, folder: Path, kinds: Sequence[str]) -> RunResult:
        """`once`, with statements of `kinds` not allowed."""
        rules = [*self.policies, {"action": "fail", "kinds": list(kinds)}]
        with self._dying(Fuse()):
            return app.once(self._settings(folder, ddl={"rules": rules}), Recorder(), CrashingLoader(Fuse()))

    def _sink(self, uri: str, options: TargetOptions) -> Sink:
        return sink_for(uri, options)

    @contextmanager
    def _dying(self, fuse: Fuse) -> Iterator[None]:
        """Moments at which the run can die: around intents, each statement, facts, commits. Statements are noted in
        `executed`, but for a try that waited for a lock in vain."""
        execute = fuse.around(mysql_ddl._execute)

        def noting(cursor: Any, step: Any, statement: str) -> Any:
            self.executed.append(statement)
            try:
                return execute(cursor, step, statement)
            except pymysql.MySQLError as error:
                if isinstance(server_error(error, "ddl"), TargetBusy):
                    self.executed.remove(statement)
                raise

        with (
            patch.object(parts, "sink_for", lambda *given: _BesideTheOriginal(self._sink(*given), fuse)),
            patch.object(mysql_sink, "store", fuse.around(store)),
            patch.object(mysql_ddl, "_execute", noting),
        ):
            yield

    def _settings(self, folder: Path, round_bytes: str = "1GiB", ddl: object = None) -> Settings:
        flags: dict[str, Any] = {
            "upstream_uri": f"file://{folder}?protocol=canal-json", "downstream_uri": self.url, "name": self._name,
            "tz": ZONE, "round_bytes": round_bytes, "ddl": ddl or {"rules": self.policies},
            "routes": self.routes,
        }  # fmt: skip
        return load(flags, {}).settings


class _BesideTheOriginal(CrashingSink):
    """The databases of the original are not upstream's own: no name of a statement can mean their tables."""

    def called(self, fits: Callable[[TableName], object]) -> Mapping[TableName, Collection[str]]:
        found = self._sink.called(fits)
        return {name: columns for name, columns in found.items() if not name.database.startswith(PREFIX)}
