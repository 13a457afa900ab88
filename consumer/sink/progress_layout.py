"""The columns and keys of the tables in schema `storage_consumer`, the same on every target that speaks SQL.

A target maps each kind of column to a type of its own. It may add columns and tables (its ``progress/schema.py``).
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
"""The kind of a column. An integer is the maximum length of a text in characters. Times are in UTC. A `tso` can be as
great as MAX_TSO."""

_TABLE: Mapping[str, Kind] = {"name": NAME_LIMIT, "database_name": NAME_LIMIT, "table_name": NAME_LIMIT}
COLUMNS: Mapping[str, Mapping[str, Kind]] = {
    # `written_by` is the release that acquired the target last.
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
    # Every table that received rows or statements. `table_progress` holds only the exceptions.
    "known_table": _TABLE,
    # The owner of each table of the target. The row is written before anything is done to the table, and is removed
    # with it. Tables have the target's names, in lower case if the target ignores case.
    "owned_table": {"database_name": NAME_LIMIT, "table_name": NAME_LIMIT, "name": NAME_LIMIT},
    # The quarantined rows. Their dead letters have the details.
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
    # Losses that the operator accepted so that their tables do not stop.
    "loss": {**_TABLE, "id": 32, "reason": "long text", "path": "long text", "after_ts": "tso", "to_ts": "tso"},
    # Public, like the view `replica`: moments at which all tables were complete. With `is_current` 1 they still are.
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
"""The key columns of each table whose key is not the consumer name alone."""


def columns_in(spelled: Callable[[Kind], str]) -> dict[str, dict[str, str]]:
    """Returns `COLUMNS` with the types of a target. `spelled` maps a kind to the target's type."""
    return {table: {name: spelled(kind) for name, kind in columns.items()} for table, columns in COLUMNS.items()}


def unnamed_columns(table: str) -> str:
    """Returns all columns but the consumer name, as a SELECT list."""
    return ", ".join(name for name in COLUMNS[table] if name != "name")


LAYOUTS = f"SELECT DISTINCT format, written_by FROM {SCHEMA}.consumer"
"""The query for `check_layout`, in the SQL of every target. Every layout has these two columns."""


def check_layout(number: int, written_by: str) -> None:
    """Raises BadConfig if the progress has another layout than this program's. Whoever reads or acquires a target calls
    this for all of its consumers.

    There is no migration yet, because no other layout was ever released. Once a release has a layout and a table or
    column of `COLUMNS` is to change:

    1. Raise FORMAT_VERSION (model/progress.py).
    2. Let the function of each target that creates the schema convert an older layout.
    3. Let this function accept the older layout for readers.

    On a server each statement commits by itself. So a conversion must do nothing where it is already done, and must
    raise the number last.
    """
    if number != FORMAT_VERSION:
        raise BadConfig(
            f"the progress in the target has layout {number}, written by release {written_by}, and this program"
            f" (release {__version__}) knows layout {FORMAT_VERSION}",
            hint=f"continue with the program that wrote it (release {written_by}), or fill an empty target with this"
            " one",
        )


def damaged(why: str) -> BadConfig:
    """Returns the error for progress that no release writes in this form: somebody has changed it by hand."""
    return BadConfig(
        f"the progress in the target is not as any release leaves it: {why}",
        hint=f"put {SCHEMA} back as it was, with the tables of the same moment, from a backup of the target; or fill an"
        " empty target",
    )
