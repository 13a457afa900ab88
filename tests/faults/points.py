"""The named points of a round."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

_MYSQL, _DUCKDB = "consumer.sink.mysql.sink:MySqlSink", "consumer.sink.duckdb.sink:DuckDbSink"
_LAKE = "consumer.sink.lake.sink:LakeSink"
_PUBLISH = "consumer.sink.mysql.rows.publish"
_STATEMENT = "consumer.sink.mysql.statements.execute:_run"


@dataclass(frozen=True)
class Point:
    """`places` are the functions (``module:name``) before or after whose calls the process stops."""

    name: str
    when: Literal["before", "after"]
    places: tuple[str, ...]


def _sink(name: str, when: Literal["before", "after"], method: str) -> Point:
    return Point(name, when, tuple(f"{target}.{method}" for target in (_MYSQL, _DUCKDB, _LAKE)))


POINTS = (
    _sink("the lease is taken", "after", "acquire"),
    Point("the checkpoint is read", "after", ("consumer.storage.reader:ChangefeedReader.checkpoint",)),
    Point("the storage is listed", "after", ("consumer.storage.reader:ChangefeedReader.listing",)),
    _sink("before statements", "before", "apply_ddls"),
    Point("an intent is recorded", "before", (_STATEMENT,)),
    Point("a statement has run", "after", (_STATEMENT, "consumer.sink.lake.statements:Executing.run")),
    _sink("statements are recorded", "after", "apply_ddls"),
    Point("a file is being read", "after", ("consumer.storage.local:LocalFiles.read",)),
    Point("rows are decoded", "before", ("consumer.spark.tasks:changes_to_write", "consumer.spark.packed:net_changes")),
    Point(
        "rows are written or staged",
        "after",
        (
            "consumer.sink.mysql.rows.writer:MySqlSession.write",
            "consumer.sink.mysql.rows.writer:MySqlSession.write_packed",
            "consumer.sink.mysql.rows.writer:MySqlSession.write_multiset",
            "consumer.sink.columnar.writer:ParquetSession.write",
            "consumer.sink.columnar.writer:ParquetSession.write_multiset",
        ),
    ),
    _sink("a load has ended", "before", "end"),
    _sink("before a commit", "before", "commit"),
    Point(
        "rows are being published",
        "after",
        (
            f"{_PUBLISH}:Publication.write",
            "consumer.sink.duckdb.sink:publish_staged_files",
            "consumer.sink.lake.merge:Merging.publish",
        ),
    ),
    Point("a lake's progress is written", "before", ("consumer.sink.lake.progress:LakeProgress._save",)),
    Point("rows and progress are published, and not committed", "after", (f"{_PUBLISH}:store",)),
    Point("all is written, and not committed", "after", ("consumer.sink.mysql.sink:store",)),
    _sink("a commit is done", "after", "commit"),
    _sink("progress is recorded", "after", "record"),
)

_SHARED = ("a file is being read", "rows are decoded", "rows are written or staged")
OF_TASKS = (
    *(point for point in POINTS if point.name in _SHARED),
    Point(
        "all is written, and not committed",
        "after",
        (
            "consumer.sink.mysql.rows.transactions:leave_proof",
            "consumer.spark.packed:write_some",
            "consumer.spark.tasks:_written",
        ),
    ),
)
"""Those that a Spark task comes to. The driver commits what is staged: there the last one is a task that ends next."""


def points_of(target: str, consistency: str) -> list[Point]:
    """Those that a command can come to. On a server only staged rows are published."""
    own = {"duckdb": "sink.duckdb", "delta": "sink.lake", "iceberg": "sink.lake"}.get(target, "sink.mysql")
    never = [*({"sink.duckdb", "sink.mysql", "sink.lake"} - {own}), *([_PUBLISH] if consistency == "row" else [])]
    return [p for p in POINTS if not all(any(part in place for part in never) for place in p.places)]
