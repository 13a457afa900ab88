"""Translates error numbers of servers and the client to the consumer's errors. No other module knows these numbers."""

from __future__ import annotations

import re
from typing import Literal

import pymysql

from consumer.errors import (
    BadConfig,
    ConsumerError,
    DdlRefused,
    Retryable,
    RowRefused,
    SchemaDrift,
    TableMissing,
    TargetBusy,
    TargetUnavailable,
)
from consumer.model.hints import GRANT
from consumer.sink.progress_layout import SCHEMA, damaged

Doing = Literal["start", "rows", "ddl"]
"""What caused the error: connecting and preparing, writing rows or progress, or executing an upstream statement."""

_READ_ONLY = (1290, 1792, 1836)
_FULL = (1021, 1037, 1038, 1041, 1114, 3675)
"""The server has no disk space or memory."""
_OF_FILES = (*range(1, 100), 1004, 1005, 1006, 1010, 1016, 1017, 1023, 1024, 1025, 1026, 1030, 1878)
"""The server, or an engine, has trouble with a file. The text has the system's error number."""
_SAYS_FULL = re.compile(r"No space left on device|Disk quota exceeded|\b(?:errno|Errcode|error):? (?:28|122)\b")
_LOST = (
    *(0, 2000, 2002, 2003, 2005, 2006, 2012, 2013, 2014, 2027, 2055),  # the client's own
    *(*_FULL, 1026, 1030, 1878),  # the last three: a file cannot be written, an engine error, a temporary file
    *(1040, 1203, 1226, 1129, 1135),  # too many connections
    *(1053, 1077, 1079, 1080, 1152, 1158, 1159, 1160, 1161, 1184, 1189, 1190, 1927, 3169, 4031),  # connection ended
    *(*_READ_ONLY, 1047, 3032, 3168),  # not serving; 1047 is a node of a Galera cluster that has lost the others
    *(9001, 9002, 9005, 9012, 9013),  # TiDB: PD, TiKV or TiFlash does not answer
)
_BUSY = (
    *(1205, 1213, 1020, 1180, 1206, 1222, 1412, 1613, 1614, 1615, 1637, 3058, 3101, 3572),  # locks and conflicts
    1684,  # a query about a table that another statement is changing
    *(1317, 1969, 3024),  # interrupted, statement time
    *(8002, 8005, 8018, 8020, 8022, 8024, 8027, 8028, 8141, 8175, 9003, 9004, 9006, 9007, 9008),  # TiDB
)
_LOGIN = (1045, 1130, 1251, 1698, 1820, 1862, 2026, 2058, 2059, 2061, 3118, 3159, 3955, 4151, 1298, 1193, 1231)
_PASSWORD = (1045, 1698)
_EXPIRED = (1820, 1862)
_GRANT = (1044, 1142, 1143, 1227, 1370, 1410, 1419, 8121)
_VALUE = (
    *(1048, 1062, 1364, 1022, 1169, 1263),  # nulls and duplicates
    *(1264, 1265, 1292, 1300, 1366, 1367, 1406, 1411, 1416, 1441, 1690, 3140, 3141, 3156, 4038, 1525, 1526, 1748),
    *(1216, 1217, 1451, 1452, 3819, 4025, 1118, 1153, 1261, 1262, 1301, 8004, 8025),
)

ERRORS: dict[int, type[ConsumerError]] = {
    **dict.fromkeys(_LOST, TargetUnavailable),
    **dict.fromkeys(_BUSY, TargetBusy),
    **dict.fromkeys(_LOGIN, BadConfig),
    **dict.fromkeys(_GRANT, BadConfig),
    **dict.fromkeys(_VALUE, RowRefused),
    **dict.fromkeys((1054, 1136, 1906, 3105), SchemaDrift),
    **dict.fromkeys((1046, 1049, 1146), TableMissing),
}
"""Maps an error number to its meaning while rows are written. `server_error` adapts it for a start and for DDL."""

TOO_LARGE = frozenset({1197, 3100, 8004})
"""The transaction has more rows or bytes than the binary log's cache, the group or TiDB accepts."""

LOCAL_INFILE_OFF = frozenset({1148, 3948, 4166})
"""LOAD DATA LOCAL is switched off on the server."""

MISSING = frozenset({1008, 1049, 1051, 1146, 4092})
"""The database, table or view does not exist."""

NO_RIGHT = frozenset({1044, 1142})
"""The user has no right to a database or table, whether it exists or not."""

ALREADY_DONE = MISSING | {
    *(1007, 1050, 1060, 1061, 1068, 1826),  # database, table, column, index, primary key, constraint exists
    *(1091, 1054, 1176, 1507, 1508, 1517),  # column, index, partition does not, or does
}
"""Errors of a statement that was executed before."""

NOT_COMPUTED = frozenset({1064, 1235, 1305, 1370, 1901, 3102, 3763, 3764, 3770, 3772, 4161})
"""The server has no such function or expression, or does not accept it in a default or generated column. If the user
has no right to call any routine, the server does not say which ones exist."""

TOO_LONG = frozenset({1071, 1118})
"""A key or a row would be longer than the server accepts."""

DUPLICATE = frozenset({1022, 1062, 1586})
"""A row has the same value of a unique key as another row."""

NO_ANSWER = frozenset({1064, 1193, 1227})
"""The server does not know the query, or the user has no right to it."""

NOT_A_NAME = frozenset({1267, 1270, 1271, 1300, 3854, 3988})
"""The server's own names are in a character set that cannot spell this name."""

NO_TABLE, BROKEN_VIEW, NO_COLUMN, LOCK_WAIT_TIMEOUT = 1146, 1356, 1054, 1205
_HINTS: dict[type[ConsumerError], str] = {
    TargetUnavailable: "try again once the target answers; nothing is lost",
    TargetBusy: "try again; nothing is lost",
}


def server_error(error: pymysql.MySQLError, doing: Doing = "rows", *, table: str = "") -> ConsumerError:
    """Returns the consumer's error for one of pymysql's. The caller raises it from `error`."""
    number = errno(error)
    if number == NO_TABLE and f"{SCHEMA}." in str(error.args[-1]):
        return damaged(_message(error))
    full = _is_full(error)
    kind = TargetUnavailable if full else _kind(number, doing)
    if full:
        prefix: str | None = "the target has no room"
    elif number in _READ_ONLY:
        prefix = "the target takes no writes"
    elif number in _OF_FILES and kind is TargetUnavailable:
        prefix = "the target cannot use its files"
    else:
        prefix = _FORE.get(kind)
    text = f"{prefix}: {_message(error)}" if prefix else _message(error)
    hint: str = _HINTS.get(kind, "")
    if number in _GRANT:
        hint = GRANT + ", then run again"
    elif number in _PASSWORD:
        hint = "check the user and the password in --downstream-uri"
    elif number in _EXPIRED:
        hint = "give the user a new password on the server (ALTER USER), and put it into --downstream-uri"
    elif number in _READ_ONLY:
        hint = "try again once it takes writes, or name the server that does in --downstream-uri; nothing is lost"
    elif full:
        hint = "make room on its disk or in its memory, then run again; nothing is lost"
    translated = kind(text, hint=hint, table=table)
    if isinstance(translated, RowRefused):
        translated.of_data = number in _VALUE
    return translated


def errno(error: pymysql.MySQLError) -> int:
    """Returns the error number; 0 (pymysql's own for "not connected") if there is none."""
    return error.args[0] if error.args and isinstance(error.args[0], int) else 0


def server_errno(error: ConsumerError) -> int:
    """Returns the number of the server error from which `error` was raised."""
    cause = error.__cause__
    return errno(cause) if isinstance(cause, pymysql.MySQLError) else 0


def _is_full(error: pymysql.MySQLError) -> bool:
    number = errno(error)
    return number in _FULL or (number in _OF_FILES and bool(_SAYS_FULL.search(str(error.args[-1]))))


def _kind(number: int, doing: Doing) -> type[ConsumerError]:
    client_side = 2000 <= number < 3000 or number < 1000
    kind = ERRORS.get(number, TargetUnavailable if client_side else RowRefused)
    if issubclass(kind, Retryable) or number in _LOGIN[:14]:
        return kind
    if doing == "ddl":
        return DdlRefused
    return BadConfig if doing == "start" else kind


_REMARKS = {
    4025: "; if it is the check of a JSON: MariaDB reads JSON of at most 31 levels, a LONGTEXT column takes more",
    8025: "; a greater tidb_txn_entry_size_limit (or txn-entry-size-limit of its configuration) has it take such rows",
}
"""Explanations that a server's message lacks."""

_FORE: dict[type[ConsumerError], str] = {
    TargetUnavailable: "the target does not answer",
    TargetBusy: "the target is busy",
    RowRefused: "the target refuses a row",
    DdlRefused: "the target refuses the statement",
    BadConfig: "the target refuses this user or setting",
    SchemaDrift: "the target table has other columns",
    TableMissing: "the target lacks the table",
}


def _message(error: pymysql.MySQLError) -> str:
    text = str(error.args[1]) if len(error.args) > 1 else str(error)
    return f"{text or 'the connection is closed'} (error {errno(error)}){_REMARKS.get(errno(error), '')}"
