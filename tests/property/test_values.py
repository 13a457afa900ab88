"""Random types, composite keys of any of them or none, every way to write: the target holds what plain SQL makes of the
same values on the same server.

`RANDOM_VALUES=500 pytest tests/property/test_values.py` plays as many histories, with new seeds each time.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from random import Random

import duckdb
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from consumer import app
from consumer.codec.csv.options import CsvFormat
from consumer.config.load import load
from consumer.model.actions import Action
from consumer.model.columns import Family
from tests.servers import SqlServer
from tests.support.csv_rows import string
from tests.support.feed import Feed
from tests.support.inline_loader import InlineLoader
from tests.support.observers import Recorder
from tests.support.random_values import CASES, Change, History, Row, drawn, lines_of
from tests.support.type_cases import TypeCase, Value
from tests.support.type_storage import canal_string, csv_cell

HISTORIES = int(os.environ.get("RANDOM_VALUES", "0"))
PLAYED = settings(
    max_examples=HISTORIES or 12,
    derandomize=not HISTORIES,
    database=None,
    deadline=None,
    phases=[Phase.generate],
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
SEEDS = st.integers(0, 2**32)
FORMS = (
    None,
    CsvFormat(include_commit_ts=True, output_old_value=True),
    CsvFormat(delimiter="[*]", quote="", include_commit_ts=True, output_old_value=True, binary_encoding_method="hex"),
)
SESSION = "SET time_zone = '+00:00', sql_mode = 'NO_AUTO_VALUE_ON_ZERO,ALLOW_INVALID_DATES'"
UTF8 = "DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin"


@PLAYED
@given(seed=SEEDS)
@pytest.mark.parametrize("kind", ["fresh_mariadb", "fresh_mysql"])
def test_a_server_holds_what_the_same_statements_make(seed: int, kind: str, request: pytest.FixtureRequest) -> None:
    server: SqlServer = request.getfixturevalue(kind)
    random = Random(seed)
    server.drop_all()
    server.execute(f"SET GLOBAL local_infile = {random.randint(0, 1)}")
    try:
        history = drawn(random, CASES)
        with tempfile.TemporaryDirectory() as folder:
            for number, _ in enumerate(played(history, random, Path(folder), server.url())):
                insert(server, history, history.states[number])
                assert dump(server, history, "d") == dump(server, history, "original"), history.create
    finally:
        server.execute("SET GLOBAL local_infile = 1")


@PLAYED
@given(seed=SEEDS)
def test_a_file_holds_the_values(seed: int) -> None:
    random = Random(seed)
    history = drawn(random, tuple(case for case in CASES if not case.column.name.startswith("timestamp")))
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "replica.duckdb"
        for number, _ in enumerate(played(history, random, Path(folder), f"duckdb:///{file}")):
            with duckdb.connect(str(file)) as connection:
                found = connection.execute("SELECT * FROM d.t").fetchall()
            wanted = [[value and value.duckdb for value in row] for row in history.states[number]]
            assert sorted(map(repr, map(list, found))) == sorted(map(repr, wanted)), history.create


def played(history: History, random: Random, folder: Path, target: str) -> Iterator[None]:
    """Apply window after window; yields after each."""
    csv, loader = random.choice(FORMS), InlineLoader(random.choice((0, 3)))
    feed = Feed(folder / "storage")
    feed.database("d", 5)
    feed.statement("d.t", 10, Action.CREATE_TABLE, history.create, tuple(case.column for case in history.cases))
    flags: dict[str, object] = {"downstream_uri": target, "tz": "UTC"}
    flags["upstream_uri"] = f"file://{feed.folder}?protocol={'canal-json' if csv is None else 'csv'}"
    if csv is not None:
        flags |= {"csv_delimiter": csv.delimiter, "csv_quote": csv.quote or "none", "csv_null": csv.null}
        flags |= {"csv_include_commit_ts": True, "csv_output_old_value": True}
        flags |= {"csv_binary_encoding_method": csv.binary_encoding_method}
    for window in range(len(history.states)):
        changes = [change for change in history.changes if change.window == window]
        content = b"".join(canal(history, change) if csv is None else cells(history, change, csv) for change in changes)
        if content:
            feed.file("d.t", 10, content, extension="json" if csv is None else "csv")
        feed.checkpoint(changes[-1].ts if changes else window + 15)
        observer = Recorder()
        app.once(load(flags, {}).settings, observer, loader)
        assert {str(table): str(error) for table, error in observer.stopped.items()} == {}, history.create
        yield


def canal(history: History, change: Change) -> bytes:
    columns = [case.column for case in history.cases]

    def members(values: list[str]) -> str:
        return "{" + ",".join(f'"{column.name}":{value}' for column, value in zip(columns, values, strict=True)) + "}"

    def image(row: Row | None) -> str:
        shown = ["null" if value is None else canal_string(value.canal) for value in row or ()]
        return f"[{members(shown)}]" if row else "null"

    pk_names = (
        f"[{','.join(canal_string(columns[position].name) for position in history.key)}]" if history.key else "null"
    )
    types, numbers = members([f'"{case.mysql_type}"' for case in history.cases]), members(["12"] * len(columns))
    return b"".join(
        f'{{"id":0,"database":"d","table":"t","pkNames":{pk_names},"isDdl":false,"type":"{kind}","es":0,"ts":1,'
        f'"sql":"","sqlType":{numbers},"mysqlType":{types},"old":{image(old)},"data":{image(row)},'
        f'"_tidb":{{"commitTs":{change.ts}}}}}\r\n'.encode()
        for kind, row, old in split(history, change)
    )


def split(history: History, change: Change) -> list[tuple[str, Row, Row | None]]:
    """TiCDC splits the update of a key into a delete and an insert."""
    (found,) = lines_of(change)
    _, row, old = found
    if old is None or [row[position] for position in history.key] == [old[position] for position in history.key]:
        return [found]
    return [("DELETE", old, None), ("INSERT", row, None)]


def cells(history: History, change: Change, csv: CsvFormat) -> bytes:
    """With old values an update is two records."""
    (found,) = lines_of(change)
    kind, row, old = found
    written = b""
    for operation, values in ((kind[0], row),) if old is None else (("D", old), ("I", row)):
        head = [string(part, csv) for part in (operation, "t", "d")]
        head += [str(change.ts).encode(), b"true" if old else b"false"]
        body = [csv_cell(case, value, csv) for case, value in zip(history.cases, values, strict=True)]
        written += csv.delimiter.encode().join([*head, *body]) + b"\r\n"
    return written


def insert(server: SqlServer, history: History, rows: list[Row]) -> None:
    """The rows, in a table that plain SQL makes."""
    # A VECTOR is kept as text on servers. TiDB's latin1 holds every character.
    made = history.create.replace("VECTOR(3)", "LONGTEXT").replace("LATIN1", "UTF8MB4").replace("`t`", "original.t", 1)
    values = [[literal(*cell) for cell in zip(history.cases, row, strict=True)] for row in rows]
    statements = [f"INSERT INTO original.t VALUES ({','.join(row)})" for row in values]
    fresh = ("DROP DATABASE IF EXISTS original", f"CREATE DATABASE original {UTF8}")
    server.execute("SET NAMES utf8mb4", SESSION, *fresh, made, *statements)


def literal(case: TypeCase, value: Value | None) -> str:
    if value is None:
        return "NULL"
    label = case.column.family in (Family.ENUM, Family.SET)  # by its number
    zero = case.column.family in (Family.FLOAT, Family.DOUBLE) and value.canal == "0"  # TiDB stores no sign of it
    return value.canal if label or zero else value.example


def dump(server: SqlServer, history: History, database: str) -> list[str]:
    """All rows, so that no two values look the same."""
    shown = [case.read.format(f"`{case.column.name}`") for case in history.cases]
    rows = server.execute(SESSION, f"SELECT {', '.join(shown)} FROM {database}.t")
    return sorted(map(repr, rows))
