"""The named points of a round, and a process that stops at one of them."""

from __future__ import annotations

import functools
import importlib
import os
import signal
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

_MYSQL, _DUCKDB = "consumer.sink.mysql.sink:MySqlSink", "consumer.sink.duckdb.sink:DuckDbSink"
_PUBLISH = "consumer.sink.mysql.rows.publish"
_STATEMENT = "consumer.sink.mysql.statements.execute:_run"


@dataclass(frozen=True)
class Point:
    """`places` are the functions (``module:name``) before or after whose calls the process stops."""

    name: str
    when: Literal["before", "after"]
    places: tuple[str, ...]


def _both(name: str, when: Literal["before", "after"], method: str) -> Point:
    return Point(name, when, (f"{_MYSQL}.{method}", f"{_DUCKDB}.{method}"))


POINTS = (
    _both("the lease is taken", "after", "acquire"),
    Point("the checkpoint is read", "after", ("consumer.storage.reader:FsspecReader.checkpoint",)),
    Point("the storage is listed", "after", ("consumer.storage.reader:FsspecReader.listing",)),
    _both("before statements", "before", "apply_ddls"),
    Point("an intent is recorded", "before", (_STATEMENT,)),
    Point("a statement has run", "after", (_STATEMENT,)),
    _both("statements are recorded", "after", "apply_ddls"),
    Point("a file is being read", "after", ("consumer.storage.local:LocalFiles.read",)),
    Point("rows are decoded", "before", ("consumer.spark.tasks:fold", "consumer.spark.tasks:net_rows")),
    Point(
        "rows are written or staged",
        "after",
        (
            "consumer.sink.mysql.rows.writer:MySqlSession.write",
            "consumer.sink.mysql.rows.writer:MySqlSession.write_multiset",
            "consumer.sink.columnar.writer:ParquetSession.write",
            "consumer.sink.columnar.writer:ParquetSession.write_multiset",
        ),
    ),
    _both("a load has ended", "before", "end"),
    _both("before a commit", "before", "commit"),
    Point("rows are being published", "after", (f"{_PUBLISH}:Publication.write", "consumer.sink.duckdb.sink:publish")),
    Point("all is written, and not committed", "after", ("consumer.sink.mysql.sink:store",)),
    _both("a commit is done", "after", "commit"),
    _both("progress is recorded", "after", "record"),
)


def points_of(server: bool, consistency: str) -> list[Point]:
    """Those that a command can come to. On a server only staged rows are published."""
    never = ("sink.duckdb" if server else "sink.mysql", *([_PUBLISH] if consistency == "row" else []))
    return [p for p in POINTS if not all(any(part in place for part in never) for place in p.places)]


def command(arguments: Sequence[str], point: Point | None, number: int, reached: str, log: str) -> None:
    """Run the command line without Spark, as a process of its own. It stops itself (SIGSTOP) at the `number`-th time
    that it comes to `point`, once the file `reached` is there."""
    from consumer.app import parts
    from consumer.cli.main import main
    from tests.support.inline_loader import InlineLoader

    with Path(log).open("a") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    setattr(parts, "SparkLoader", lambda _settings: InlineLoader())  # noqa: B010 - mypy sees no such name there
    if point is not None:
        stop = _Stop(number, Path(reached))
        for place in point.places:
            _watch(place, point.when, stop)
    sys.argv = ["storage-consumer", *arguments]
    main(arguments)


class _Stop:
    def __init__(self, number: int, reached: Path) -> None:
        self._left, self._reached = number, reached

    def __call__(self) -> None:
        self._left -= 1
        if self._left == 0:
            self._reached.touch()
            os.kill(os.getpid(), signal.SIGSTOP)


def _watch(place: str, when: str, stop: Callable[[], None]) -> None:
    module, _, path = place.partition(":")
    *outer, name = path.split(".")
    owner = functools.reduce(getattr, outer, importlib.import_module(module))
    called = getattr(owner, name)

    @functools.wraps(called)
    def watched(*given: Any, **named: Any) -> Any:
        if when == "before":
            stop()
        result = called(*given, **named)
        if when == "after":
            stop()
        return result

    setattr(owner, name, watched)
