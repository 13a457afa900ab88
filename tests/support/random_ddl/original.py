"""The upstream of random statements: databases of a server in which they are run directly, and what those hold then.

Upstream's database `shop` is `original_shop` here, so a consumer can keep its replica on the same server.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from consumer.model.columns import Column
from consumer.model.names import TableName
from tests.servers import SqlServer

DATABASES = ("shop", "key")
PREFIX = "original_"
ZONE = "+05:30"
"""The changefeed's time zone, and that of all sessions."""
OFFSET = timedelta(hours=5, minutes=30)
SESSION = (
    f"SET time_zone = '{ZONE}', foreign_key_checks = 0, character_set_server = utf8mb4,"
    " collation_server = utf8mb4_bin, sql_mode = 'STRICT_TRANS_TABLES,NO_AUTO_VALUE_ON_ZERO,ALLOW_INVALID_DATES'"
)
VIEW_COLUMN = "UNSPECIFIED"

Row = dict[str, str | None]
"""Column -> value as canal-JSON has it."""
Snapshot = dict[str, dict[str, Any]]
"""Object -> what is known of it. Databases are objects too."""


@dataclass(frozen=True)
class Index:
    """`columns` in order, none where it is of an `expression`; `whole`: none of them is a prefix or can be NULL."""

    name: str
    unique: bool
    columns: tuple[str, ...]
    whole: bool
    expression: bool = False


@dataclass(frozen=True)
class Shape:
    """What upstream says of a table. `generated` are columns that are not written, `virtual` those of them that rows
    lack; `bounds` are the partitions' names with their upper bounds (None: no range)."""

    columns: tuple[Column, ...]
    indexes: tuple[Index, ...]
    generated: frozenset[str]
    virtual: frozenset[str]
    bounds: tuple[tuple[str, int | None], ...]

    @property
    def key(self) -> tuple[str, ...]:
        """The handle key, as TiCDC chooses it; () for none."""
        keys = [index for index in self.indexes if index.unique and index.whole]
        return min(keys, key=lambda index: (index.name != "PRIMARY", len(index.columns)), default=_NO_KEY).columns

    @property
    def described(self) -> tuple[Column, ...]:
        """The columns as a schema file has them: each index of an expression brings a hidden one."""
        hidden = (Column(f"_V$_{index.name}_0", "BIGINT") for index in self.indexes if index.expression)
        return (*self.columns, *hidden)

    @property
    def unique_columns(self) -> frozenset[str]:
        return frozenset(column for index in self.indexes if index.unique for column in index.columns)


_NO_KEY = Index("", True, (), True)


def quoted(*names: str) -> str:
    return ".".join("`" + name.replace("`", "``") + "`" for name in names)


class Original:
    """One connection to the server. `place` says where a table of the upstream is, in SQL."""

    def __init__(self, server: SqlServer) -> None:
        self._is_mysql, self.is_tidb = server.name == "MySQL", server.name == "TiDB"
        self._connection = server.connect()
        self._cursor = self._connection.cursor()
        self.execute(SESSION)

    @property
    def has_expression_indexes(self) -> bool:
        return self._is_mysql or self.is_tidb

    def close(self) -> None:
        self._connection.close()

    def reset(self) -> None:
        """Drop what earlier upstreams and replicas of them have left behind."""
        for database in DATABASES:
            self.execute(f"DROP DATABASE IF EXISTS {quoted(PREFIX + database)}")
        self.drop_replica()

    def drop_replica(self) -> None:
        """And the progress of all consumers."""
        for database in (*DATABASES, "storage_consumer"):
            self.execute(f"DROP DATABASE IF EXISTS {quoted(database)}")

    def execute(self, statement: str, seconds: float = 0) -> list[tuple[Any, ...]]:
        """Run it, as if `seconds` since 1970 were now. pymysql's errors pass through."""
        if seconds:
            self._cursor.execute(f"SET timestamp = {seconds!r}")
        if self._is_mysql and not statement.startswith(("CREATE", "DROP DATABASE")):
            statement = _CONDITION.sub("", statement)  # upstream and MariaDB have more of these; they all hold here
        self._cursor.execute(statement)
        return list(self._cursor.fetchall())

    @staticmethod
    def place(name: TableName) -> str:
        return quoted(PREFIX + name.database, name.table)

    def rows(self, name: TableName, shape: Shape, condition: str = "") -> list[Row]:
        columns = [column for column in shape.columns if column.name not in shape.virtual]
        texts = [f"CAST({quoted(column.name)}{'+0' if column.type == 'ENUM' else ''} AS CHAR)" for column in columns]
        found = self.execute(f"SELECT {','.join(texts)} FROM {self.place(name)}{condition}")
        return [dict(zip([column.name for column in columns], row, strict=True)) for row in found]

    def shape(self, name: TableName) -> Shape:
        where = f"WHERE table_schema = {_text(PREFIX + name.database)} AND table_name = {_text(name.table)}"
        columns = self.execute(
            "SELECT column_name, column_type, is_nullable, column_default, extra FROM information_schema.columns "
            f"{where} ORDER BY ordinal_position"
        )
        parts = self.execute(
            "SELECT index_name, non_unique + 0, column_name, sub_part, nullable FROM information_schema.statistics "
            f"{where} AND index_type = 'BTREE'"
        )
        bounds = self.execute(
            "SELECT partition_name, partition_description FROM information_schema.partitions "
            f"{where} AND partition_name IS NOT NULL ORDER BY partition_ordinal_position"
        )
        indexes = []
        for index in dict.fromkeys(part[0] for part in parts):
            own = [part for part in parts if part[0] == index]
            if any(part[2] in (None, "NULL") for part in own):  # the word where it is a TiDB's
                indexes.append(Index(index, not own[0][1], (), whole=False, expression=True))
                continue
            whole = all(prefix is None and nullable != "YES" for *_, prefix, nullable in own)
            indexes.append(Index(index, not own[0][1], tuple(part[2] for part in own), whole))
        primary = next((index.columns for index in indexes if index.name == "PRIMARY"), ())
        return Shape(
            tuple(self._column(*column[:4], is_pk=column[0] in primary) for column in columns),
            tuple(indexes),
            frozenset(column[0] for column in columns if " GENERATED" in column[4]),
            frozenset(column[0] for column in columns if "VIRTUAL GENERATED" in column[4]),
            tuple((part, int(bound) if bound else None) for part, bound in bounds),
        )

    def copy(self, name: TableName, other: TableName, shape: Shape) -> None:
        """Make `other` of the table's definition and rows."""
        columns = ",".join(quoted(column.name) for column in shape.columns if column.name not in shape.generated)
        self.execute(f"CREATE TABLE {self.place(other)} LIKE {self.place(name)}")
        self.execute(f"INSERT INTO {self.place(other)} ({columns}) SELECT {columns} FROM {self.place(name)}")

    def view_columns(self, name: TableName) -> tuple[Column, ...]:
        return tuple(Column(column.name, VIEW_COLUMN) for column in self.shape(name).columns)

    def snapshot(self, prefix: str = PREFIX, databases: Collection[str] = DATABASES) -> Snapshot:
        """The databases with this prefix: tables as they are defined and what is in them."""
        names = ",".join(_text(prefix + database) for database in databases)
        found: Snapshot = {}
        for (database,) in self.execute(
            f"SELECT schema_name FROM information_schema.schemata WHERE schema_name IN ({names})"
        ):
            found[database.removeprefix(prefix)] = {"collation": self.collation(database)}
        for database, table, kind in self.execute(
            "SELECT table_schema, table_name, table_type FROM information_schema.tables "
            f"WHERE table_schema IN ({names})"
        ):
            name = f"{database.removeprefix(prefix)}.{table}"
            found[name] = self._content(quoted(database, table), kind, prefix)
        return found

    def collation(self, database: str) -> str:
        where = f"WHERE schema_name = {_text(database)}"
        return str(self.execute(f"SELECT default_collation_name FROM information_schema.schemata {where}")[0][0])

    def _content(self, place: str, kind: str, prefix: str) -> dict[str, Any]:
        if kind == "VIEW":
            definition = ""
        else:
            definition = re.sub(r" AUTO_INCREMENT=\d+", "", self.execute(f"SHOW CREATE TABLE {place}")[0][1])
            definition = definition.replace(quoted(prefix)[:-1], "`") if prefix else definition
            definition = _in_order(_without_names(definition))
        try:
            rows = self.execute(f"SELECT * FROM {place}")
        except Exception:  # a view of what is no more
            return {"kind": kind, "broken": True}
        columns = [column[0] for column in self._cursor.description]
        return {"kind": kind, "definition": definition, "columns": columns, "rows": sorted(rows, key=repr)}

    def _column(self, name: str, text: str, nullable: str, default: str | None, *, is_pk: bool) -> Column:
        """As TiDB describes it."""
        kind, _, rest = text.partition("(")
        kind = kind.split(" ")[0].upper()
        sizes = [int(size) for size in re.findall(r"\d+", rest)] if kind != "ENUM" else []
        timed = kind in ("DATETIME", "TIMESTAMP")
        return Column(
            name,
            kind,
            unsigned="unsigned" in rest,
            length=None if timed or not sizes else sizes[0],
            scale=(sizes[0] if sizes else None) if timed else (sizes[1] if kind == "DECIMAL" else None),
            nullable=nullable == "YES",
            is_pk=is_pk,
            default=self._default(kind, default),
            elements=tuple(re.findall(r"'([^']*)'", rest)) if kind == "ENUM" else (),
        )

    def _default(self, kind: str, default: str | None) -> str | None:
        if default is None or default == "NULL":
            return None
        if default.lower().startswith("current_timestamp"):
            return "CURRENT_TIMESTAMP"
        value = default if self._is_mysql or self.is_tidb else str(self.execute(f"SELECT {default}")[0][0])
        return str(datetime.fromisoformat(value) - OFFSET) if kind == "TIMESTAMP" else value


def loosened(snapshot: Snapshot, tables: Collection[str]) -> Snapshot:
    """`snapshot` without the comments and defaults of these tables."""
    return {
        name: {key: _LOOSE.sub("", part) if key == "definition" else part for key, part in found.items()}
        if name in tables
        else found
        for name, found in snapshot.items()
    }


_CONDITION = re.compile(r"\bIF (?:NOT )?EXISTS ")
_CONSTRAINT = re.compile(r",\n  CONSTRAINT `(?:[^`]|``)*` (FOREIGN KEY [^\n]*?)(?=,?\n)")
_KEY = re.compile(r",\n  ((?:UNIQUE )?KEY [^\n]*?)(?=,?\n)")
_LOOSE = re.compile(r" (?:DEFAULT |COMMENT[ =])(?:current_timestamp\(\d?\)|'(?:[^']|'')*'|[^ ,\n]+)")


def _without_names(definition: str) -> str:
    """Foreign keys at its end, without names: those are a database's own on servers, and a table's own upstream."""
    return "\n".join([_CONSTRAINT.sub("", definition), *sorted(_CONSTRAINT.findall(definition))])


def _in_order(definition: str) -> str:
    """MariaDB sorts unique keys of a BLOB, which it hashes, among the others when it happens to copy the table."""
    keys = _KEY.findall(definition)
    return (
        "\n".join([_KEY.sub("", definition), *sorted(keys)])
        if any(" USING HASH" in key for key in keys)
        else definition
    )


def _text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"
