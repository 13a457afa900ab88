"""A target in which every table and database has another name than upstream."""

from __future__ import annotations

import re
from pathlib import Path

from consumer.model.names import TableName
from consumer.model.routes import naming_of, routes_of
from tests.servers import SqlServer
from tests.support.random_ddl.duckdb_replica import duckdb_replica
from tests.support.random_ddl.original import DATABASES, Original, Snapshot
from tests.support.random_ddl.replica import Replica

PREFIX = "to_"
_DATABASES = tuple(PREFIX + database for database in DATABASES)
_QUOTED = re.compile(rf"(`(?:__(?:trash|partial)_\d+_)?){PREFIX}")


ROUTES = (f"*.* -> {PREFIX}*.{PREFIX}*",)
NAMING = naming_of(routes_of(ROUTES))


def other_name(name: TableName) -> TableName:
    return TableName(PREFIX + name.database, PREFIX + name.table if name.table else "")


def own_name(name: str) -> str:
    """``to_shop.to_t``, or its place in the trash, as upstream calls it."""
    database, dot, table = name.partition(".")
    return _plain(database) + dot + _plain(table)


def _plain(name: str) -> str:
    return _QUOTED.sub(r"\1", f"`{name}")[1:]


def as_upstream(snapshot: Snapshot) -> Snapshot:
    """What a target holds, under upstream's names."""
    return {
        own_name(name): {
            key: _QUOTED.sub(r"\1", part) if key == "definition" else part for key, part in content.items()
        }
        for name, content in snapshot.items()
    }


def renamed_server(original: Original, server: SqlServer) -> Replica:
    """Databases of the original's own server, as `Replica.on`."""

    def older(statement: str) -> None:
        for database in DATABASES:
            statement = statement.replace(f"`{database}`.`", f"`{PREFIX}{database}`.`{PREFIX}")
            statement = statement.replace(f"EXISTS `{database}`", f"EXISTS `{PREFIX}{database}`")
        original.execute(statement)

    def reset() -> None:
        for database in (*_DATABASES, "storage_consumer"):
            original.execute(f"DROP DATABASE IF EXISTS `{database}`")

    reset()
    replica = Replica(
        server.url(), lambda: as_upstream(original.snapshot("", _DATABASES)), lambda kept: kept, reset, older
    )
    replica.routes = ROUTES
    return replica


def renamed_file(folder: Path) -> Replica:
    replica = duckdb_replica(folder, _DATABASES)
    found = replica.state
    replica.state, replica.routes = lambda: as_upstream(found()), ROUTES
    return replica
