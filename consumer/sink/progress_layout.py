"""The tables of schema `storage_consumer`, on every target that speaks SQL: their columns and keys stand here alone.

A target says what it calls each kind of column, and may have further columns and tables (its ``progress/schema.py``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Literal

from consumer import __version__
from consumer.errors import BadConfig
from consumer.model.names import NAME_LIMIT
from consumer.model.progress import FORMAT_VERSION

SCHEMA = "storage_consumer"

Kind = Literal["flag", "number", "tso", "time", "text", "long text"] | int
"""A whole number is the most characters of a text. Rows are written in UTC; a `tso` may be as great as MAX_TSO."""

_TABLE: Mapping[str, Kind] = {"name": NAME_LIMIT, "database_name": NAME_LIMIT, "table_name": NAME_LIMIT}
COLUMNS: Mapping[str, Mapping[str, Kind]] = {
    # `written_by` is the last release that acquired the target.
    "consumer": {
        "name": NAME_LIMIT,
        "format": "flag",
        "upstream": "text",
        "applied_ts": "tso",
        "start_ts": "tso",
        "updated": "time",
        "written_by": "text",
        "time_zone": 64,
        "routes": "long text",
        "modes": "long text",
        "filters": "long text",
        "starts": "long text",
        "late": "flag",
    },
    "table_progress": {
        **_TABLE,
        "applied_ts": "tso",
        "state": 16,
        "reason": "long text",
        "hint": "long text",
        "code": 64,
    },
    "folder_progress": {
        "name": NAME_LIMIT,
        "root": "long text",
        "version": "tso",
        "part": 64,
        "date": 32,
        "dispatcher": 255,
        "done": "number",
        "size": "number",
        "stamp": "text",
        "open_files": "long text",
        "index_stamp": "text",
        "first_ts": "tso",
        "last_ts": "tso",
        "gone_ts": "tso",
        "checksum": "number",
        "file_first_ts": "tso",
        "head_ts": "tso",
    },
    "ddl": {
        **_TABLE,
        "version": "tso",
        "checksum": "tso",
        "state": 16,
        "before_state": "long text",
        "reason": "long text",
        "kind": 32,
    },
    # Every table that rows or statements went to: `table_progress` only holds the exceptions.
    "known_table": _TABLE,
    # To whom each table of the target belongs: recorded before anything is done to it, and gone with it. By the
    # target's name, in lower case where case makes no difference.
    "owned_table": {"database_name": NAME_LIMIT, "table_name": NAME_LIMIT, "name": NAME_LIMIT},
    # The rows that were quarantined; their letters tell more.
    "bad_row": {
        **_TABLE,
        "id": 32,
        "path": "long text",
        "line": "number",
        "position": "number",
        "version": "tso",
        "commit_ts": "tso",
        "letter": "long text",
        "reason": "long text",
    },
    # What tables lack as the operator has accepted it, rather than have them stop.
    "loss": {**_TABLE, "id": 32, "reason": "long text", "path": "long text", "after_ts": "tso", "to_ts": "tso"},
    # Public, as the view `replica` is: moments at which all tables are complete. `is_current` 1: they still are.
    "syncpoint": {
        "name": NAME_LIMIT,
        "upstream_ts": "tso",
        "upstream_time": "time",
        "position_kind": 16,
        "position": "long text",
        "written": "time",
        "is_current": "flag",
    },
    "audit": {
        "name": NAME_LIMIT,
        "epoch": "number",
        "finished": "time",
        "step": 64,
        "database_name": NAME_LIMIT,
        "table_name": NAME_LIMIT,
        "from_ts": "tso",
        "to_ts": "tso",
        "row_count": "number",
        "puts": "number",
        "deletes": "number",
        "dropped_rows": "number",
        "statement": "long text",
    },
}
KEYS: Mapping[str, tuple[str, ...]] = {
    "table_progress": tuple(_TABLE),
    "known_table": tuple(_TABLE),
    "owned_table": ("database_name", "table_name"),
    "folder_progress": ("name", "root", "version", "part", "date", "dispatcher"),
    "ddl": (*_TABLE, "version", "checksum"),
    "bad_row": (*_TABLE, "id"),
    "loss": (*_TABLE, "id"),
    "syncpoint": ("name", "upstream_ts"),
}
"""The key of each table that has another one than the consumer name."""


def columns_in(spelled: Callable[[Kind], str]) -> dict[str, dict[str, str]]:
    """`COLUMNS` in the types of a target, by what it calls each kind."""
    return {table: {name: spelled(kind) for name, kind in columns.items()} for table, columns in COLUMNS.items()}


def own_columns(table: str) -> str:
    """All columns but the consumer name, as a SELECT list."""
    return ", ".join(name for name in COLUMNS[table] if name != "name")


LAYOUTS = f"SELECT DISTINCT format, written_by FROM {SCHEMA}.consumer"
"""What `check_layout` is asked of, in the SQL of every target. These two columns are in every layout."""


def check_layout(found: int, written_by: str) -> None:
    """Raises BadConfig for progress that has another layout than this program's. Whoever reads or takes a target asks
    it of all consumers in it.

    A first migration would stand here. There is none, as no other layout was ever released. Once a release has a
    layout, and a table or column of `COLUMNS` is to change: raise FORMAT_VERSION (model/progress.py), let the
    `ensure_schema` of each target bring an older layout forward, and this function pass it for readers. On a server
    each statement commits by itself, so such a step must do nothing where its work is done already, and raise the
    number last.
    """
    if found != FORMAT_VERSION:
        raise BadConfig(
            f"the progress in the target has layout {found}, written by release {written_by}, and this program (release"
            f" {__version__}) knows layout {FORMAT_VERSION}",
            hint=f"go on with the program that wrote it (release {written_by}), or fill an empty target with this one",
        )


def damaged(why: str) -> BadConfig:
    """The error of progress that no release has left so: somebody changed it by hand."""
    return BadConfig(
        f"the progress in the target is not as any release leaves it: {why}",
        hint=f"put {SCHEMA} back as it was, with the tables of the same moment, from a backup of the target; or fill an"
        " empty target",
    )
