"""Defines what to do with the upstream's statements. Pure code decides it by kind and table, and the step carries
it."""

from __future__ import annotations

import enum
import zlib
from typing import Protocol

from consumer.model.actions import Action
from consumer.model.names import NAME_LIMIT, TableName


class DdlPolicy(enum.StrEnum):
    EVOLVE = "evolve"
    """Execute the statement."""
    IGNORE = "ignore"
    """Do not execute it; it is recorded as skipped, and rows continue."""
    FAIL = "fail"
    """Stop the tables that the statement touches."""
    RENAME = "rename"
    """Keep the table that the statement drops, under a trash name."""


class PolicyOf(Protocol):
    def __call__(self, action: Action, table: TableName, query: str = "") -> DdlPolicy:
        """Returns the policy for a kind of statement on a table, or on a database (``table == ""``), with this text."""


_PLURAL = {
    Action.RENAME_TABLES: Action.RENAME_TABLE,
    Action.CREATE_TABLES: Action.CREATE_TABLE,
    Action.ADD_COLUMNS: Action.ADD_COLUMN,
    Action.DROP_COLUMNS: Action.DROP_COLUMN,
}
_OWN_NAMES = {
    Action.CREATE_SCHEMA: "create-database",
    Action.DROP_SCHEMA: "drop-database",
    Action.MODIFY_SCHEMA_CHARSET: "modify-database-charset",
}


def kind_of(action: Action) -> str:
    """Returns the name of an action in the settings, as ``drop-table``; several numbers can be one kind."""
    single = _PLURAL.get(action, action)
    return _OWN_NAMES.get(single) or single.words.replace(" ", "-")


KINDS = tuple(dict.fromkeys(kind_of(action) for action in Action if action is not Action.NONE))

GROUPS = {
    "database": ("create-database", "drop-database", "modify-database-charset"),
    "column": ("add-column", "drop-column", "modify-column", "set-default-value"),
    "index": ("add-index", "drop-index", "rename-index", "alter-index-visibility", "fulltext-index", "hybrid-index"),
    "primary-key": ("add-primary-key", "drop-primary-key"),
    "foreign-key": ("add-foreign-key", "drop-foreign-key"),
    "partition": tuple(kind for kind in KINDS if "partition" in kind),
    "view": ("create-view", "drop-view"),
    "ttl": ("alter-ttl", "remove-ttl"),
}
"""The kinds of each group."""

RENAMED_KINDS = ("drop-table", "truncate-table", "drop-database")
"""The kinds for which the policy `rename` exists."""

_OTHER_TABLE = "later rows would meet a table that is not there, or another one"
_STALE_UNIQUE = "a unique index that upstream no longer has would make later rows remove one another"
_OTHER_PARTITIONS = "a later statement about a partition would mean other rows"
_CUT_VALUES = "values that no longer fit their column could be cut without an error"

NEVER_IGNORED = {
    **dict.fromkeys(("rename-table", "recover-table", "exchange-partition"), _OTHER_TABLE),
    **dict.fromkeys(("drop-index", "rename-index", "drop-primary-key"), _STALE_UNIQUE),
    **dict.fromkeys(
        ("add-partition", "drop-partition", "reorganize-partition", "alter-table-partitioning", "remove-partitioning"),
        _OTHER_PARTITIONS,
    ),
    **dict.fromkeys(("modify-column", "modify-table-charset", "multi-schema-change"), _CUT_VALUES),
}
"""Kinds that must not be ignored, and why: rows would be wrong later, without an error."""


def evolve(action: Action, table: TableName, query: str = "") -> DdlPolicy:
    """The `PolicyOf` of a consumer without [consumer.ddl]."""
    return DdlPolicy.EVOLVE


def trash_name(version: int, name: TableName, complete: bool = True) -> TableName:
    """Returns the name to which the statement of `version` moves the table `name` (or the database, if ``table ==
    ""``).

    A table without all of its rows gets a name from which it is never restored. A name that is too long for a server is
    cut and ends with a checksum.
    """
    old = name.table or name.database
    prefix = f"__{'trash' if complete else 'partial'}_{version}_"
    new = prefix + old
    if len(new) > NAME_LIMIT:
        checksum = f"_{zlib.crc32(old.encode()):08x}"
        new = prefix + old[: NAME_LIMIT - len(prefix) - len(checksum)] + checksum
    return TableName(name.database, new) if name.table else TableName(new, "")


def is_trash(name: TableName) -> bool:
    """Returns whether it is a `trash_name`."""
    return name.table.startswith("__trash_")


def is_kept(name: TableName) -> bool:
    """Returns whether it is a `trash_name` of a table, complete or not."""
    return name.table.startswith(("__trash_", "__partial_"))


def trash_taken(trash: TableName) -> tuple[str, str]:
    """Returns why a table cannot be kept as `trash`, and what to do."""
    return (
        f"its rows must be kept as {trash}, and another table with other rows has that name",
        f"rename or drop {trash} in the target, then run again",
    )
