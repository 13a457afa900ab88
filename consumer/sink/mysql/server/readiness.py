"""Reports what a server and its user lack for a replica: version, variables, rights by name. Changes nothing."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping

import pymysql

from consumer.model.names import quote
from consumer.model.readiness import Readiness
from consumer.model.texts import count_text, size_text
from consumer.sink.mysql.server.connection import Flavor, FlavorName, flavor_from_greeting
from consumer.sink.progress_layout import SCHEMA

TESTED: Mapping[FlavorName, tuple[int, ...]] = {"mariadb": (10, 11), "mysql": (8, 0), "tidb": (7, 5)}
"""The oldest versions on which something was tried."""
_ROWS = ("SELECT", "INSERT", "UPDATE", "DELETE")
_OF_TABLES = (*_ROWS, "CREATE", "DROP", "ALTER", "INDEX", "LOCK TABLES", "REFERENCES", "CREATE VIEW")
_OF_PROGRESS = (*_OF_TABLES, "CREATE TEMPORARY TABLES")
"""The rights that docs/servers.md grants. test_grants.py shows that they are enough."""
_SMALL_PACKET = 16 << 20
_GRANT = re.compile(r"GRANT (?P<rights>.+?) ON (?:TABLE )?(?P<where>\*\.\*|(?:`(?:[^`]|``)*`|\w+)\.\*) TO ")
_ROLE = re.compile(r"GRANT (?!.* ON ).* TO ")


def readiness(cursor: pymysql.cursors.Cursor, databases: Collection[str]) -> Iterator[Readiness]:
    """Yields the results for `databases`, the target's databases that the replica fills."""
    flavor = flavor_from_greeting(cursor.connection)
    yield _version(flavor)
    yield from _variables(cursor, flavor)
    cursor.execute("SELECT CURRENT_USER()")
    user = str(cursor.fetchone()[0])
    cursor.execute("SHOW GRANTS")
    yield from rights([str(row[0]) for row in cursor.fetchall()], user, databases)


def _version(flavor: Flavor) -> Readiness:
    text = f"{flavor.name} {'.'.join(map(str, flavor.version))}"
    oldest = TESTED[flavor.name]
    if flavor.version >= oldest:
        return Readiness("server", "ok", text)
    oldest_text = ".".join(map(str, oldest))
    return Readiness(
        "server", "warn", f"{text} is older than {oldest_text}, the oldest that was tried", "see docs/servers.md"
    )


def _variables(cursor: pymysql.cursors.Cursor, flavor: Flavor) -> Iterator[Readiness]:
    cursor.execute("SHOW VARIABLES")
    variables = {str(name).lower(): str(value) for name, value in cursor.fetchall()}
    read_only = [
        name for name in ("read_only", "super_read_only") if variables.get(name, "OFF") not in ("OFF", "0", "")
    ]
    if read_only:
        yield Readiness("variables", "fail", f"{read_only[-1]} is on: the server takes no writes", "name the primary")
    if variables.get("sql_generate_invisible_primary_key") == "ON":
        yield Readiness(
            "variables",
            "warn",
            "sql_generate_invisible_primary_key is on: a table without a key would get one, and stops",
            "SET GLOBAL sql_generate_invisible_primary_key = OFF",
        )
    if variables.get("sql_require_primary_key") == "ON":
        yield Readiness(
            "variables",
            "warn",
            "sql_require_primary_key is on: the CREATE of a table without a key is refused",
            "SET GLOBAL sql_require_primary_key = OFF",
        )
    packet = int(variables.get("max_allowed_packet", _SMALL_PACKET))
    if packet < _SMALL_PACKET:
        text = f"max_allowed_packet is {size_text(packet)}: a row with more is refused"
        yield Readiness("variables", "warn", text, f"SET GLOBAL max_allowed_packet = {4 * _SMALL_PACKET}")
    if flavor.name != "tidb" and variables.get("local_infile", "ON") == "OFF":
        text = "local_infile is off: many rows at a time are written more slowly"
        yield Readiness("variables", "warn", text, "SET GLOBAL local_infile = ON")


def rights(grants: Iterable[str], user: str, databases: Collection[str]) -> Iterator[Readiness]:
    """Yields what `user` lacks according to SHOW GRANTS, with the GRANT that gives it."""
    lines = list(grants)
    held = [(_pattern(match["where"]), _named(match["rights"])) for match in map(_GRANT.match, lines) if match]
    roles = any(map(_ROLE.match, lines))
    account = "@".join(f"'{part}'" for part in user.rpartition("@")[::2])
    complete = True
    for database, needed in {**dict.fromkeys(sorted(databases), _OF_TABLES), SCHEMA: _OF_PROGRESS}.items():
        granted = {right for pattern, named in held if pattern.fullmatch(database) for right in named}
        missing = [] if "ALL PRIVILEGES" in granted else [right for right in needed if right not in granted]
        if missing:
            complete = False
            text = f"{user} lacks {', '.join(missing)} on {database}"
            if roles:
                text += ", unless one of its roles has them"
            grant = f"GRANT {', '.join(missing)} ON {quote(database)}.* TO {account};"
            yield Readiness("rights", "warn" if roles else "fail", text, grant)
    if complete:
        text = f"{user} has all that are needed on {SCHEMA} and {count_text(len(databases), 'database')}"
        yield Readiness("rights", "ok", text)


def _named(text: str) -> set[str]:
    """Returns rights by name, without rights for some columns only."""
    return {right.strip().upper() for right in re.sub(r" \([^)]*\)", "!", text).split(",") if not right.endswith("!")}


def _pattern(where: str) -> re.Pattern[str]:
    """Returns the pattern of databases for which a grant is: `%` and `_` are wildcards unless they are escaped."""
    name = where[:-2]
    if name == "*":
        return re.compile(".*", re.DOTALL)
    plain = name.strip("`").replace("``", "`")
    wild = {"%": ".*", "_": "."}
    parts = re.findall(r"\\[%_]|.", plain, re.DOTALL)
    return re.compile("".join(wild.get(part) or re.escape(part[-1]) for part in parts), re.DOTALL | re.IGNORECASE)
