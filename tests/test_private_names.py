"""What is used of a package beside its public part stands in one module, and is there under its name."""

from __future__ import annotations

import ast
import inspect
from pathlib import Path

import pymysql
import typer
from pymysql.connections import MySQLResult
from pyspark import SparkContext, find_spark_home, java_gateway
from pyspark.sql import SparkSession

from consumer.cli.program import UsageError
from consumer.sink.mysql.server.connection import connect_to_server
from consumer.sink.mysql.server.wire import Connection
from consumer.spark.jvm import TELLS_PORT
from tests.support.syntax import tree_of

ROOT = Path(__file__).parent.parent
GUARDED = {"consumer/sink/mysql/server/wire.py", "consumer/spark/internals.py"}
PUBLIC = {"_current_frames", "_exit", "_replace", "_value_"}
"""Python's own, and documented."""


PRIVATE: tuple[tuple[object, str], ...] = (
    (pymysql.Connection, "_create_ssl_ctx"),
    (pymysql.Connection, "_execute_command"),
    (pymysql.Connection, "_force_close"),
    (pymysql.Connection, "_process_auth"),
    (pymysql.Connection, "_read_packet"),
    (pymysql.Connection, "_read_query_result"),
    (pymysql.Connection, "write_packet"),
    (MySQLResult, "_check_packet_is_eof"),
    (MySQLResult, "_finish_unbuffered_query"),
    (MySQLResult, "_read_load_local_packet"),
    (MySQLResult, "_read_ok_packet"),
    (SparkContext, "_active_spark_context"),
    (SparkContext, "_ensure_initialized"),
    (SparkContext, "_gateway"),
    (SparkContext, "_jvm"),
    (SparkSession, "_instantiatedSession"),
    (find_spark_home, "_find_spark_home"),
)
SHOWN: tuple[tuple[object, str], ...] = (
    (pymysql.Connection.query, "self._execute_command(COMMAND.COM_QUERY, sql)"),
    (pymysql.Connection.query, "self._read_query_result(unbuffered=unbuffered)"),
    (pymysql.Connection._read_query_result, "self._result = "),
    (pymysql.Connection._request_authentication, "self._process_auth("),
    (pymysql.Connection._process_auth, '"dialog"'),
    (pymysql.Connection._process_auth, '"mysql_clear_password"'),
    (pymysql.Connection, "self._secure = True"),
    (pymysql.Connection._create_ssl_ctx, "(self, sslp)"),
    (MySQLResult, "self._read_load_local_packet(first_packet)"),
    (MySQLResult, "self.converters.append((encoding, converter))"),
    (MySQLResult._read_rowdata_packet_unbuffered, "if self._check_packet_is_eof(packet):"),
    (MySQLResult.__del__, "self._finish_unbuffered_query()"),
    (MySQLResult._finish_unbuffered_query, "while self.unbuffered_active"),
    (SparkContext, "self._jsc = "),
    (SparkContext, "self._accumulatorServer = "),
    (java_gateway.launch_gateway, TELLS_PORT),
    (java_gateway.launch_gateway, "PYSPARK_GATEWAY_PORT"),
)
"""What the code of others does with a name, by which we go."""


def test_private_names_are_there() -> None:
    assert [(owner, name) for owner, name in PRIVATE if not hasattr(owner, name)] == []


def test_what_others_do_with_them_is_what_we_go_by() -> None:
    assert [(owner, text) for owner, text in SHOWN if text not in inspect.getsource(owner)] == []  # type: ignore[arg-type]


def test_connections_are_those_that_send_no_file() -> None:
    assert Connection._read_query_result is not pymysql.Connection._read_query_result
    assert "Connection(" in inspect.getsource(inspect.getmodule(connect_to_server))  # type: ignore[arg-type]


def test_words_that_typer_cannot_make_sense_of_are_usage_errors() -> None:
    assert UsageError.__name__ == "UsageError"
    assert issubclass(typer.BadParameter, UsageError)
    assert not issubclass(typer.Exit, UsageError)


def test_nobody_else_uses_what_is_private_to_others() -> None:
    used = {str(path.relative_to(ROOT)): private_names(path) for path in (ROOT / "consumer").rglob("*.py")}
    assert {path: names for path, names in used.items() if names and path not in GUARDED} == {}


def private_names(path: Path) -> set[str]:
    """The private names of others that a module uses."""
    nodes = list(ast.walk(tree_of(path.read_text(encoding="utf-8"))))
    attributes = [node for node in nodes if isinstance(node, ast.Attribute)]
    own = {node.attr for node in attributes if is_own(node.value)}
    used = {node.attr for node in attributes if not is_own(node.value)} - own
    used |= {name.name for node in nodes if isinstance(node, ast.ImportFrom) for name in node.names}
    return {name for name in used - PUBLIC if name.startswith("_") and not name.startswith("__")}


def is_own(value: ast.expr) -> bool:
    return isinstance(value, ast.Name) and value.id in ("self", "cls")
