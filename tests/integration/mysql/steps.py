"""Short ways to say what the tests give the sink."""

from __future__ import annotations

from consumer.model.actions import Action
from consumer.model.columns import Column
from consumer.model.files import SchemaFile
from consumer.model.names import TableName
from consumer.model.progress import ProgressChange, TableProgress
from consumer.model.steps import ApplyDdl
from consumer.sink.mysql.settings import MySqlSettings
from consumer.sink.mysql.sink import MySqlSink
from tests.servers import MariaDb

UPSTREAM = "file:///bucket/prefix"


def settings(server: MariaDb, name: str = "replica") -> MySqlSettings:
    return MySqlSettings.from_uri(server.url(), name=name, time_zone="UTC")


def acquired(server: MariaDb, name: str = "replica") -> MySqlSink:
    sink = MySqlSink(settings(server, name))
    sink.acquire(UPSTREAM)
    return sink


def ddl(
    action: Action,
    database: str,
    table: str,
    version: int,
    query: str,
    *,
    old_name: TableName | None = None,
    touches: tuple[TableName, ...] = (),
    columns: tuple[Column, ...] = (),
) -> ApplyDdl:
    file = SchemaFile("f.json", f"{database}/{table}", database, table, version, 7, query, int(action), columns)
    names = touches or (TableName(database, table),)
    progress = {name: TableProgress(version) for name in names if name.table}
    return ApplyDdl(
        file, names, before=ProgressChange(tables=progress), after=ProgressChange(tables=progress), old_name=old_name
    )
