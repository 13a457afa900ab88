"""A user that lacks one of the rights that docs/servers.md lists is told which, by each kind of server."""

from __future__ import annotations

import re
from pathlib import Path

import pymysql

from consumer.sink.mysql.server.connection import connect_to_server
from consumer.sink.mysql.server.errors import server_error
from consumer.sink.mysql.settings import MySqlSettings
from tests.servers import SqlServer

DOC = (Path(__file__).parents[3] / "docs/servers.md").read_text()
LISTED = {
    (where, right)
    for rights, where in re.findall(r"^GRANT (.*) ON (\w+)\.\* TO", DOC, re.MULTILINE)
    for right in rights.split(", ")
}
NEEDS = {
    "SELECT": "SELECT * FROM {}.t",
    "INSERT": "INSERT INTO {}.t VALUES (1, 1)",
    "UPDATE": "UPDATE {}.t SET v = 1",
    "DELETE": "DELETE FROM {}.t",
    "CREATE": "CREATE TABLE {}.u (id INT)",
    "CREATE TEMPORARY TABLES": "CREATE TEMPORARY TABLE {}.u (id INT)",
    "DROP": "DROP TABLE {}.t",
    "ALTER": "ALTER TABLE {}.t ADD COLUMN w INT",
    "INDEX": "CREATE INDEX i ON {}.t (v)",
    "LOCK TABLES": "LOCK TABLES {}.t WRITE",
    "REFERENCES": "CREATE TABLE {0}.u (id INT PRIMARY KEY, FOREIGN KEY (id) REFERENCES {0}.t (id))",
    "CREATE VIEW": "CREATE VIEW {0}.u AS SELECT * FROM {0}.t",
}
DATABASES = {
    "CREATE": "CREATE DATABASE IF NOT EXISTS {}",
    "ALTER": "ALTER DATABASE {} CHARACTER SET utf8mb4",
    "DROP": "DROP DATABASE {}",
}
MARIADB_ASKS_NOT = {"REFERENCES"}


def test_every_right_is_named_where_it_lacks(fresh_mariadb: SqlServer) -> None:
    server = fresh_mariadb
    for database in ("shop", "storage_consumer"):
        server.execute(f"CREATE DATABASE {database}", f"CREATE TABLE {database}.t (id INT PRIMARY KEY, v INT)")
    assert {right for _, right in LISTED} == set(NEEDS)
    for where, right in sorted(LISTED):
        statements = [NEEDS[right], *filter(None, [DATABASES.get(right)])]
        for statement in statements:
            server.execute("CREATE USER replica IDENTIFIED BY 'password'")
            for other, held in LISTED - {(where, right)}:
                server.execute(f"GRANT {held} ON {other}.* TO replica")
            told = refused(server, statement.format(where))
            server.execute("DROP USER replica")
            if right in MARIADB_ASKS_NOT and server.name == "MariaDB":
                assert told == ""
            else:
                assert right in told.upper().replace(statement.upper(), ""), (where, right, statement)
                assert "grant the target's user" in told


def refused(server: SqlServer, statement: str) -> str:
    """What is said about it, and its hint; "" where it runs."""
    with connect_to_server(
        MySqlSettings.from_uri(server.url("replica", "password"), name="c"), "ddl", autocommit=True
    ) as session:
        try:
            with session.cursor() as cursor:
                cursor.execute(statement)
        except pymysql.MySQLError as error:
            known = server_error(error, "ddl")
            return f"{known.message} {known.hint}"
    return ""
