"""What a real Dumpling writes of a TiDB is loaded as it is there, or refused by name."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

import duckdb
import pytest

from consumer import app
from consumer.config.load import load
from consumer.config.settings import Settings
from consumer.errors import ConsumerError
from consumer.model.actions import Action
from consumer.ports import Loader
from consumer.results import RunResult
from consumer.spark.load import SparkLoader
from tests.s3_server import READER, WRITER, S3Server
from tests.servers import MariaDb, SqlServer
from tests.support.build import VALUE
from tests.support.canal_json import keyless
from tests.support.feed import Feed
from tests.support.inline_loader import InlineLoader
from tests.support.lakes import lake_tables
from tests.support.observers import Recorder
from tests.tidb_server import DUMPLING, TiDb

Rows = list[tuple[Any, ...]]
TABLES = {
    "all": (
        "id BIGINT UNSIGNED PRIMARY KEY, n DECIMAL(30,10), f DOUBLE, c VARCHAR(90), l VARCHAR(9) CHARACTER SET latin1,"
        " b BLOB, k BINARY(3), i BIT(12), d DATE, t DATETIME(6), s TIMESTAMP(3) NULL, h TIME(2), y YEAR,"
        " e ENUM('a','b,c'), m SET('x','y'), j JSON, g DOUBLE AS (id / 2) VIRTUAL, UNIQUE KEY u (c)",
        [
            "(1, 0.1, 1e300, 'a', 'é', 0x00FF27220A5C, 'k', 5, '2024-02-29', '2024-01-02 03:04:05.678901',"
            " '2024-01-02 03:04:05.678', '-12:34:56.78', 2024, 'b,c', 'x,y', '{\"a\": [1, null, \"\\\\n\"]}', DEFAULT)",
            "(18446744073709551615, -99999999999999999999.9999999999, -0.5, '\\\\N', '', '', 0x000000, 4095,"
            " '1000-01-01', '9999-12-31 23:59:59.999999', '1970-01-01 00:00:01', '838:59:58', 1901, 'a', '', '[]',"
            " DEFAULT)",
            "(3, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, DEFAULT)",
            "(4, 0, 0, 'quotes \\' \" ` \\\\ , and\\r\\nlines\\t\\0 NULL; 😀', 'x', 'b', 'abc', 0, '2024-01-01',"
            " '2024-01-01', '2024-01-01', '00:00:00', 2000, 'a', 'y', '\"NULL\"', DEFAULT)",
        ],
    ),
    "Odd.name-schema, `é": ('`a,b` INT, `q"t` TEXT, PRIMARY KEY (`a,b`)', [f"({n}, '{n * 'x'}')" for n in range(40)]),
    "keyless": ("a INT, b TEXT", ["(1, 'one')"] * 5 + ["(NULL, NULL)"] * 2),
    "parts": (
        "a INT PRIMARY KEY, b INT) PARTITION BY RANGE (a) (PARTITION p0 VALUES LESS THAN (5), PARTITION p1 VALUES LESS"
        " THAN MAXVALUE",
        [f"({n}, {n * n})" for n in range(9)],
    ),
    "empty": ("a INT PRIMARY KEY", []),
}
READ = [
    ("sql", "", (), ""),
    ("sql", "gzip", ("-r", "3"), "?rows=3"),
    ("sql", "snappy", ("-F", "200B"), ""),
    ("sql", "zstd", ("-r", "3", "-F", "200B"), ""),
    ("csv", "", ("-r", "3", "--escape-backslash=false"), "?rows=3&escape-backslash=false"),
    ("csv", "gzip", ("-F", "200B", "--no-header"), "?no-header=true"),
    ("csv", "snappy", ("--csv-null-value", "NIL"), "?csv-null-value=NIL"),
    ("csv", "zstd", ("--csv-separator", "|", "--csv-delimiter", "'"), "?csv-separator=|&csv-delimiter='"),
]
REFUSED = [
    (("--no-schemas",), "CREATE TABLE"),
    (("--output-filename-template", "{{.DB}}-{{.Table}}-{{.Index}}"), "name"),
    (("--sql", "SELECT * FROM d.all"), "name"),
]


@pytest.fixture
def upstream(fresh_tidb: TiDb) -> TiDb:
    fresh_tidb.execute("CREATE DATABASE d")
    for name, (body, rows) in TABLES.items():
        quoted = _quoted(name)
        fresh_tidb.execute(f"CREATE TABLE d.{quoted} ({body})")
        if rows:
            values = ", ".join(rows)
            fresh_tidb.execute("SET time_zone = '+00:00'", f"INSERT INTO d.{quoted} VALUES {values}")
    fresh_tidb.execute("CREATE SEQUENCE d.seq")
    return fresh_tidb


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def dumped(server: TiDb, place: Path | str, *flags: str, env: Mapping[str, str] | None = None) -> None:
    """To a folder, or a URI of S3."""
    given = ["-h", "127.0.0.1", "-P", str(server.port), "-u", "root", "-B", "d", "-o", str(place)]
    given += ["--no-sequences=false"]
    command = [str(DUMPLING), *given, *flags]
    done = subprocess.run(command, env={**os.environ, **(env or {})}, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]


def loaded(export: Path | str, url: str, work: Path) -> RunResult:
    """Into the target, beside a changefeed that has nothing above the export."""
    feed = Feed(work / "cdc")
    feed.database("older", 1)
    feed.checkpoint(2**62)
    return app.load_export(_settings(feed, url), Recorder(), str(export), None, InlineLoader())


def _settings(feed: Feed, url: str, **more: object) -> Settings:
    given = {"upstream_uri": f"file://{feed.folder}?protocol=canal-json", "downstream_uri": url, "tz": "UTC", **more}
    return load(given, {}).settings


@pytest.mark.parametrize(("kind", "compress", "flags", "query"), READ)
def test_what_it_writes_is_read(
    kind: str, compress: str, flags: Sequence[str], query: str, upstream: TiDb, fresh_mariadb: MariaDb, tmp_path: Path
) -> None:
    packed = ("-c", compress) if compress else ()
    dumped(upstream, tmp_path / "export", "--filetype", kind, "--params", "time_zone=+00:00", *packed, *flags)
    path = tmp_path / "r.duckdb"
    for url in (fresh_mariadb.url(), f"duckdb:///{path}"):
        result = loaded(f"{tmp_path}/export{query}", url, tmp_path)
        assert (result.exit_code, result.error) == (0, None), {str(n): t.error for n, t in result.tables.items()}

    def in_file(statement: str) -> Rows:
        with duckdb.connect(str(path)) as connection:
            return connection.execute(statement).fetchall()

    for name, (body, _) in TABLES.items():
        there = f"d.{_quoted(name)}"
        if name == "all":
            wanted = _as_text(upstream.execute, there)
            assert _as_text(fresh_mariadb.execute, there) == wanted
            typed = "SELECT id, n, f, c, l, b, k, d, t, y, e, j FROM d.{} ORDER BY id"
            assert _with_json(in_file(typed.format('"all"'))) == _with_json(upstream.execute(typed.format("`all`")))
            continue
        wanted = _sorted(upstream.execute(f"SELECT * FROM {there}"))
        assert _sorted(fresh_mariadb.execute(f"SELECT * FROM {there}")) == wanted
        assert _sorted(in_file('SELECT * FROM d."' + name + '"')) == wanted, body


def _as_text(execute: Callable[..., Rows], table: str) -> Rows:
    texts = [f"CAST({name} AS CHAR)" for name in ("n", "c", "l", "d", "t", "s", "h", "y", "e", "m")]
    listed = ", ".join(["id", "f", *texts, "HEX(b)", "HEX(k)", "i + 0", "g", "j"])
    return _with_json(execute("SET time_zone = '+00:00'", f"SELECT {listed} FROM {table} ORDER BY id"))


def _with_json(rows: Rows) -> Rows:
    """The last column is one."""
    return [(*row[:-1], None if row[-1] is None else json.loads(row[-1])) for row in rows]


def _sorted(rows: Rows) -> Rows:
    return sorted(rows, key=repr)


@pytest.mark.parametrize(("flags", "told"), REFUSED)
def test_what_is_not_read_is_refused(flags: Sequence[str], told: str, upstream: TiDb, tmp_path: Path) -> None:
    dumped(upstream, tmp_path / "export", *flags)
    url = f"duckdb:///{tmp_path / 'r.duckdb'}"
    with pytest.raises(ConsumerError, match=told):
        loaded(tmp_path / "export", url, tmp_path)


@pytest.mark.parametrize("target", ["mariadb", "same TiDB", "duckdb", "iceberg"])
@pytest.mark.parametrize("kind", ["sql", "csv"])
def test_the_changefeed_goes_on_from_its_moment(
    kind: str, target: str, fresh_tidb: TiDb, s3_server: S3Server, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    fresh_tidb.execute(
        "CREATE DATABASE d",
        "CREATE TABLE d.t (id INT PRIMARY KEY, v INT)",
        "INSERT INTO d.t VALUES (1, 10), (2, 20), (3, 30)",
        "CREATE TABLE d.k (v INT)",
        "INSERT INTO d.k VALUES (1), (1), (2)",
    )
    export = f"s3://ticdc/{tmp_path.name}"
    login = {"AWS_ACCESS_KEY_ID": WRITER[0], "AWS_SECRET_ACCESS_KEY": WRITER[1]}
    flags = ("--s3.endpoint", s3_server.endpoint, "--s3.region", "us-east-1")
    dumped(fresh_tidb, export, "--filetype", kind, *flags, env=login)
    read = (
        f"{export}?endpoint={s3_server.endpoint}&access-key={READER[0]}&secret-access-key={quote(READER[1], safe='')}"
    )
    metadata = s3_server.client().get_object(Bucket="ticdc", Key=f"{tmp_path.name}/metadata")["Body"].read().decode()
    moment = int(metadata.partition("Pos: ")[2].split()[0])
    feed = Feed(tmp_path / "cdc")
    feed.database("d", moment - 90)
    feed.create("d.t", moment - 80)
    feed.statement("d.k", moment - 79, Action.CREATE_TABLE, "CREATE TABLE `k` (`v` INT)", (VALUE,))
    # What is not above the moment was overwritten before it, or is in the export.
    feed.puts(
        "d.t", moment - 80, {moment - 70: (1, "66"), moment: (9, "66"), moment + 1: (2, "21"), moment + 2: (4, "40")}
    )
    feed.file("d.t", moment - 80, feed._line("d.t", moment + 3, 3, "30", "DELETE"))
    feed.file(
        "d.k", moment - 79, b"".join(keyless(ts, v) for ts, v in ((moment - 60, 1), (moment, 2), (moment + 1, 1)))
    )
    feed.checkpoint(moment + 4)

    loader, url, read_rows = _target(target, request, tmp_path)
    settings = _settings(feed, url, routes=("d.* -> copy.*",))
    done = app.load_export(settings, Recorder(), read, None, loader)
    assert (done.exit_code, done.error) == (0, None), {str(n): t.error for n, t in done.tables.items()}
    assert read_rows() == ([(1, 10), (2, 20), (3, 30)], [1, 1, 2])
    assert app.once(settings, Recorder(), loader).exit_code == 0
    assert read_rows() == ([(1, 10), (2, 21), (4, 40)], [1, 1, 1, 2])


def _target(
    kind: str, request: pytest.FixtureRequest, folder: Path
) -> tuple[Loader, str, Callable[[], tuple[Rows, list[int]]]]:
    """A loader for it, its URI, and what reads the rows of both tables."""
    if kind == "iceberg":
        loader: SparkLoader = request.getfixturevalue("lake_spark")
        uri = f"iceberg://{folder}/lake"

        def of_lake() -> tuple[Rows, list[int]]:
            tables = {name.table: table.to_pylist() for name, table in lake_tables(uri, loader).items()}
            return sorted((row["id"], row["v"]) for row in tables["t"]), sorted(row["v"] for row in tables["k"])

        return loader, uri, of_lake
    path = folder / "r.duckdb"
    server: SqlServer = request.getfixturevalue("fresh_mariadb" if kind == "mariadb" else "fresh_tidb")

    def ask(query: str) -> Rows:
        if kind != "duckdb":
            return server.execute(query)
        with duckdb.connect(str(path)) as connection:
            return connection.execute(query).fetchall()

    def of_tables() -> tuple[Rows, list[int]]:
        return ask("SELECT id, v FROM copy.t ORDER BY id"), [v for (v,) in ask("SELECT v FROM copy.k ORDER BY v")]

    return InlineLoader(), f"duckdb:///{path}" if kind == "duckdb" else server.url(), of_tables
