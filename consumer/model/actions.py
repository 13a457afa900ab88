"""TiDB's DDL action types that TiCDC writes to storage."""

from __future__ import annotations

import enum


class Action(enum.IntEnum):
    """The ``Type`` of a schema file."""

    NONE = 0
    CREATE_SCHEMA = 1
    DROP_SCHEMA = 2
    CREATE_TABLE = 3
    DROP_TABLE = 4
    ADD_COLUMN = 5
    DROP_COLUMN = 6
    ADD_INDEX = 7
    DROP_INDEX = 8
    ADD_FOREIGN_KEY = 9
    DROP_FOREIGN_KEY = 10
    TRUNCATE_TABLE = 11
    MODIFY_COLUMN = 12
    REBASE_AUTO_ID = 13
    RENAME_TABLE = 14
    SET_DEFAULT_VALUE = 15
    MODIFY_TABLE_COMMENT = 17
    RENAME_INDEX = 18
    ADD_PARTITION = 19
    DROP_PARTITION = 20
    CREATE_VIEW = 21
    MODIFY_TABLE_CHARSET = 22
    TRUNCATE_PARTITION = 23
    DROP_VIEW = 24
    RECOVER_TABLE = 25
    MODIFY_SCHEMA_CHARSET = 26
    ADD_PRIMARY_KEY = 32
    DROP_PRIMARY_KEY = 33
    ADD_COLUMNS = 37
    DROP_COLUMNS = 38
    ALTER_INDEX_VISIBILITY = 41
    EXCHANGE_PARTITION = 42
    RENAME_TABLES = 47
    CREATE_TABLES = 60
    MULTI_SCHEMA_CHANGE = 61
    REORGANIZE_PARTITION = 64
    ALTER_TTL = 65
    REMOVE_TTL = 67
    ALTER_TABLE_PARTITIONING = 71
    REMOVE_PARTITIONING = 72
    FULLTEXT_INDEX = 230
    HYBRID_INDEX = 231

    @property
    def words(self) -> str:
        """The name as words, as ``drop table``."""
        return self.name.lower().replace("_", " ")


DATABASE_ACTIONS = frozenset({Action.CREATE_SCHEMA, Action.DROP_SCHEMA, Action.MODIFY_SCHEMA_CHARSET})
CREATE_ACTIONS = frozenset({Action.CREATE_TABLE, Action.CREATE_TABLES, Action.CREATE_VIEW, Action.RECOVER_TABLE})
DROP_ACTIONS = frozenset({Action.DROP_TABLE, Action.DROP_VIEW})
RENAME_ACTIONS = frozenset({Action.RENAME_TABLE, Action.RENAME_TABLES})
MULTI_FILE_ACTIONS = frozenset(
    {Action.RENAME_TABLE, Action.RENAME_TABLES, Action.EXCHANGE_PARTITION, Action.CREATE_TABLES}
)
"""Several files can have one version: at C == V they may not all exist yet (classic architecture)."""
TAKING_ACTIONS = frozenset({Action.DROP_PARTITION, Action.TRUNCATE_PARTITION, Action.EXCHANGE_PARTITION})
"""These remove the rows of partitions."""
PARTITION_ACTIONS = TAKING_ACTIONS | {Action.MULTI_SCHEMA_CHANGE}
"""After these, rows of the table's partitions can be gone or elsewhere."""
REMOVING_ACTIONS = frozenset(
    {
        Action.DROP_SCHEMA,
        Action.DROP_TABLE,
        Action.TRUNCATE_TABLE,
        Action.DROP_COLUMN,
        Action.DROP_COLUMNS,
        Action.DROP_PARTITION,
        Action.TRUNCATE_PARTITION,
    }
)
"""These remove rows or values permanently."""
INDEX_ACTIONS = frozenset(
    {
        Action.ADD_COLUMN,
        Action.ADD_COLUMNS,
        Action.DROP_COLUMN,
        Action.DROP_COLUMNS,
        Action.MODIFY_COLUMN,
        Action.ADD_INDEX,
        Action.DROP_INDEX,
        Action.RENAME_INDEX,
        Action.ALTER_INDEX_VISIBILITY,
        Action.ADD_PRIMARY_KEY,
        Action.DROP_PRIMARY_KEY,
        Action.ADD_FOREIGN_KEY,
        Action.DROP_FOREIGN_KEY,
        Action.FULLTEXT_INDEX,
        Action.HYBRID_INDEX,
        Action.MULTI_SCHEMA_CHANGE,
    }
)
"""Statements that create, drop, rename or hide indexes and foreign keys, or their columns."""
HEALING_ACTIONS = frozenset({Action.DROP_TABLE, Action.TRUNCATE_TABLE, Action.DROP_SCHEMA})
"""After these the rows below their version no longer matter, so a stopped table resumes."""
PARTITION_ALTERS = frozenset(
    {
        Action.ADD_PARTITION,
        Action.DROP_PARTITION,
        Action.REORGANIZE_PARTITION,
        Action.ALTER_TABLE_PARTITIONING,
        Action.REMOVE_PARTITIONING,
        Action.MULTI_SCHEMA_CHANGE,
        Action.MODIFY_COLUMN,
        Action.MODIFY_TABLE_CHARSET,
        Action.DROP_COLUMN,
        Action.DROP_COLUMNS,
    }
)
"""Statements that change how a table is partitioned, or what is known of its columns."""
