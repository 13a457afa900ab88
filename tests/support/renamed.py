"""A target in which every table and database has another name than upstream."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

from consumer.model.names import TableName
from consumer.model.naming import naming_of, routes_of
from tests.servers import SqlServer
from tests.support.random_ddl.duckdb_replica import duckdb_replica
from tests.support.random_ddl.original import DATABASES, Original, Snapshot
from tests.support.random_ddl.replica import Replica

PREFIX = "to_"
_OTHER = dict(zip(DATABASES, reversed(DATABASES), strict=True))
_DATABASE = re.compile(rf"(?<![`.])`({'|'.join(DATABASES)})`(?=\.`)|(?<=EXISTS )`({'|'.join(DATABASES)})`")
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
    return _prefixless(f"`{name}")[1:]


def _prefixless(text: str) -> str:
    return _QUOTED.sub(r"\1", text)


def _prefixed(statement: str) -> str:
    for database in DATABASES:
        statement = statement.replace(f"`{database}`.`", f"`{PREFIX}{database}`.`{PREFIX}")
        statement = statement.replace(f"EXISTS `{database}`", f"EXISTS `{PREFIX}{database}`")
    return statement


def _exchanged(text: str) -> str:
    """`text` with the two databases exchanged, where they stand in front of a table or behind EXISTS."""
    return _DATABASE.sub(lambda found: f"`{_OTHER[found[1] or found[2]]}`", text)


@dataclass(frozen=True)
class OtherNames:
    """What `routes` call upstream's databases: `databases`. `own` is a name of the target, `text` a definition there as
    upstream has it; `there` is a statement of upstream as the target takes it."""

    routes: Sequence[str]
    databases: Collection[str]
    own: Callable[[str], str]
    text: Callable[[str], str]
    there: Callable[[str], str]

    def as_upstream(self, snapshot: Snapshot) -> Snapshot:
        """What a target holds, under upstream's names."""
        return {
            self.own(name): {key: self.text(part) if key == "definition" else part for key, part in content.items()}
            for name, content in snapshot.items()
        }


PREFIXED = OtherNames(ROUTES, tuple(PREFIX + database for database in DATABASES), own_name, _prefixless, _prefixed)
EXCHANGED = OtherNames(
    tuple(f"{one}.* -> {other}.*" for one, other in _OTHER.items()),
    DATABASES,
    lambda name: ".".join((_OTHER[name.partition(".")[0]], *name.split(".")[1:])),
    _exchanged,
    _exchanged,
)
"""Every table gets the name that another one has upstream."""


def renamed_server(original: Original, server: SqlServer, names: OtherNames) -> Replica:
    """Databases of the original's own server, as `Replica.on`."""

    def reset() -> None:
        for database in (*names.databases, "storage_consumer"):
            original.execute(f"DROP DATABASE IF EXISTS `{database}`")

    reset()
    replica = Replica(
        server.url(),
        lambda: names.as_upstream(original.snapshot("", names.databases)),
        lambda kept: kept,
        reset,
        lambda statement: original.execute(names.there(statement)),
    )
    replica.routes = names.routes
    return replica


def renamed_file(folder: Path, names: OtherNames) -> Replica:
    replica = duckdb_replica(folder, names.databases)
    found = replica.state
    replica.state, replica.routes = lambda: names.as_upstream(found()), names.routes
    return replica
