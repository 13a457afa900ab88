"""What keeps a server's or a file's table from taking rows, mended as the hint says: the table goes on."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

import duckdb
import pytest

from consumer import app
from consumer.model.actions import Action
from consumer.model.columns import Column
from consumer.model.names import TableName
from consumer.results import RunResult, TableResult
from consumer.sink.mysql.progress.lease import lock_name
from tests.servers import MariaDb, SqlServer
from tests.support.build import ID, VALUE
from tests.support.canal_json import row_line
from tests.support.command_line import CommandLine
from tests.support.feed import Feed, Replica
from tests.support.inline_loader import InlineLoader
from tests.support.observers import Recorder

TRIGGER = "CREATE TRIGGER du.x AFTER INSERT ON du.t FOR EACH ROW SET @a = 1"


@pytest.mark.parametrize(
    ("by_hand", "words", "mend", "parameters"),
    [
        (TRIGGER, "drop them", "DROP TRIGGER du.x", ""),
        (TRIGGER, "allow-triggers=true", "", "&allow-triggers=true"),
        ("ALTER TABLE du.t DROP COLUMN v", "storage-consumer resync --table du.t", "resync", ""),
        ("RENAME TABLE du.t TO du.away", "storage-consumer resync --table du.t", "resync", ""),
        ("RENAME TABLE du.t TO du.away", "it was dropped there", "RENAME TABLE du.away TO du.t", ""),
    ],
)  # fmt: skip
def test_a_table_that_was_changed_by_hand(
    by_hand: str, words: str, mend: str, parameters: str, cli: CommandLine, fresh_mariadb: MariaDb
) -> None:
    checkpoint = (cli.storage / "metadata").read_bytes()
    target = f"{fresh_mariadb.url()}?ssl-mode=DISABLED"
    (cli.storage / "metadata").write_text('{"checkpoint-ts":470611618500000000}', encoding="utf-8")
    assert cli.run("once", "--downstream-uri", target).code == 0
    fresh_mariadb.execute(by_hand)
    (cli.storage / "metadata").write_bytes(checkpoint)
    left = cli.run("once", "--downstream-uri", target)
    assert left.code == 3, left
    assert words in left.err
    if mend == "resync":
        assert cli.run("resync", "--table", "du.t", "--downstream-uri", target).code == 0
    elif mend:
        fresh_mariadb.execute(mend)
    assert cli.run("once", "--downstream-uri", target + parameters).code == 0
    assert fresh_mariadb.execute("SELECT id, v FROM du.t WHERE id < 5 ORDER BY id") == [(1, 10), (2, 22), (4, 4)]


def test_a_consumer_that_is_still_at_work(cli: CommandLine, fresh_mariadb: MariaDb) -> None:
    target = ("--downstream-uri", f"{fresh_mariadb.url()}?ssl-mode=DISABLED", "--max-wait", "0", "--name", "default")
    assert cli.run("once", *target).code == 0
    with fresh_mariadb.connect() as other, other.cursor() as cursor:
        cursor.execute("SELECT GET_LOCK(%s, 0)", (lock_name("default"),))
        for command in (("once",), ("forget", "--yes")):
            left = cli.run(*command, *target)
            assert (left.code, "wait until it has ended, or end it" in left.err) == (4, True)
    assert cli.run("once", *target).code == 0
    assert cli.run("forget", "--yes", *target).code == 0


@pytest.mark.parametrize(
    ("wrong", "words", "mend", "right"),
    [
        ("u:pw@{}/", "grant the target's user all privileges on storage_consumer", "GRANT ALL ON *.* TO u", "u:pw@{}/"),
        ("u:no@{}/", "check the user and the password in --downstream-uri", "GRANT ALL ON *.* TO u", "u:pw@{}/"),
        ("root@{}/du", "leave out the database that it names", "", "root@{}/"),
        ("root@{}/?ssl-mode=VERIFY_CA", "or ask for less: ssl-mode=", "", "root@{}/?ssl-mode=PREFERRED"),
    ],
)
def test_a_server_that_does_not_let_us_in(
    wrong: str, words: str, mend: str, right: str, cli: CommandLine, fresh_mariadb: MariaDb
) -> None:
    fresh_mariadb.execute("CREATE USER u IDENTIFIED BY 'pw'")
    address = f"127.0.0.1:{fresh_mariadb.port}"
    left = cli.run("once", "--downstream-uri", "mysql://" + wrong.format(address))
    assert (left.code, words in left.err) == (2, True), left
    if mend:
        fresh_mariadb.execute(mend)
    assert cli.run("once", "--downstream-uri", "mysql://" + right.format(address)).code == 0


@pytest.mark.parametrize("kind", ["fresh_mariadb", "fresh_mysql"])
def test_a_password_that_has_expired(kind: str, cli: CommandLine, request: pytest.FixtureRequest) -> None:
    server: SqlServer = request.getfixturevalue(kind)
    server.execute("CREATE USER u IDENTIFIED BY 'pw' PASSWORD EXPIRE", "GRANT ALL ON *.* TO u")
    left = cli.run("once", "--downstream-uri", server.url("u", "pw"))
    assert (left.code, "give the user a new password on the server (ALTER USER)" in left.err) == (2, True), left
    server.execute("ALTER USER u IDENTIFIED BY 'new'")
    assert cli.run("once", "--downstream-uri", server.url("u", "new")).code == 0


def test_a_server_that_takes_no_writes(cli: CommandLine, fresh_mariadb: MariaDb) -> None:
    fresh_mariadb.execute("CREATE USER u IDENTIFIED BY 'pw'", "GRANT ALL ON du.* TO u")
    fresh_mariadb.execute("GRANT ALL ON storage_consumer.* TO u", "SET GLOBAL read_only = 1")
    target = ("--downstream-uri", fresh_mariadb.url("u", "pw"))
    try:
        left = cli.run("once", *target, "--max-wait", "0")
        assert (left.code, "try again once it takes writes" in left.err) == (4, True)
    finally:
        fresh_mariadb.execute("SET GLOBAL read_only = 0")
    assert cli.run("once", *target).code == 0


def test_a_password_command_that_cannot_be_run(cli: CommandLine, fresh_mariadb: MariaDb, tmp_path: Path) -> None:
    fresh_mariadb.execute("CREATE USER u IDENTIFIED BY 'pw'", "GRANT ALL ON *.* TO u")
    script = tmp_path / "token"
    target = ("--downstream-uri", f"{fresh_mariadb.url('u')}?password-command={script}", "--max-wait", "0")
    left = cli.run("once", *target)
    assert (left.code, "give the path of a program of this machine" in left.err) == (2, True)
    script.write_text("#!/bin/sh\nexit 7\n")
    script.chmod(0o755)
    left = cli.run("once", *target)
    assert (left.code, "run it by hand as this user" in left.err) == (4, True)
    script.write_text("#!/bin/sh\necho pw\n")
    assert cli.run("once", *target).code == 0


_ALTER = re.compile(r"ALTER TABLE [^;]*")
ODD = "d.it's"


@pytest.fixture
def feed(tmp_path: Path) -> Feed:
    feed = Feed(tmp_path / "feed")
    feed.folder.mkdir()
    feed.database("d", 1)
    feed.create(ODD, 2)
    feed.puts(ODD, 2, {10: (1, "1"), 11: (2, "2")})
    return feed


def only(result: RunResult) -> TableResult:
    (stopped,) = (table for table in result.tables.values() if table.state == "stopped")
    return stopped


@pytest.mark.parametrize(
    "by_hand",
    [
        "ADD COLUMN `ex tra` INT NOT NULL, ADD COLUMN more INT NOT NULL",
        "DROP PRIMARY KEY",
        "DROP PRIMARY KEY, ADD PRIMARY KEY (`id`, `v`), MODIFY COLUMN `v` INT NOT NULL",
        "ADD UNIQUE KEY `a ``b` (`v`)",
        "MODIFY COLUMN `v` FLOAT",
    ],
)
def test_on_a_server(by_hand: str, feed: Feed, fresh_mariadb: MariaDb) -> None:
    replica = Replica(feed, fresh_mariadb.url())
    assert replica.once(12).exit_code == 0
    fresh_mariadb.execute(f"ALTER TABLE d.`it's` {by_hand}")
    feed.puts(ODD, 2, {20: (3, "300"), 21: (4, "2")})
    hint = only(replica.once(25)).hint
    (statement,) = _ALTER.findall(hint)
    fresh_mariadb.execute(statement)
    assert replica.once(25).exit_code == 0, hint
    assert fresh_mariadb.execute("SELECT id, v FROM d.`it's` ORDER BY id") == [(1, 1), (2, 2), (3, 300), (4, 2)]


def test_a_table_with_no_key_gets_an_engine_with_transactions(feed: Feed, fresh_mariadb: MariaDb) -> None:
    column = Column("v", "INT")
    feed.statement("d.k s", 16, Action.CREATE_TABLE, "CREATE TABLE `k s` (`v` INT)", (column,))
    replica = Replica(feed, fresh_mariadb.url())
    assert replica.once(17).exit_code == 0
    fresh_mariadb.execute("ALTER TABLE d.`k s` ENGINE = MyISAM")
    line = feed._line("d.k s", 20, 1, "7").replace(b'"pkNames": ["id"]', b'"pkNames": []')
    feed.file("d.k s", 16, line.replace(b'"id": "1", ', b"").replace(b'"id": 4, ', b"").replace(b'"id": "int", ', b""))
    hint = only(replica.once(25)).hint
    fresh_mariadb.execute(hint)
    assert replica.once(25).exit_code == 0
    assert fresh_mariadb.execute("SELECT v FROM d.`k s`") == [(7,)]


def test_on_a_file(feed: Feed, tmp_path: Path) -> None:
    file = str(tmp_path / "replica.duckdb")
    replica = Replica(feed, f"duckdb:///{file}")
    assert replica.once(12).exit_code == 0
    with duckdb.connect(file) as connection:
        for name in ('"ex tra"', "more"):
            connection.execute(f"""ALTER TABLE d."it's" ADD COLUMN {name} INT DEFAULT 0""")
            connection.execute(f"""ALTER TABLE d."it's" ALTER COLUMN {name} SET NOT NULL""")
            connection.execute(f"""ALTER TABLE d."it's" ALTER COLUMN {name} DROP DEFAULT""")
    feed.puts(ODD, 2, {20: (3, "300")})
    hint = only(replica.once(25)).hint
    with duckdb.connect(file) as connection:
        statements = _ALTER.findall(hint)
        assert len(statements) == 2
        for statement in statements:
            connection.execute(statement)
    assert replica.once(25).exit_code == 0
    with duckdb.connect(file) as connection:
        rows = connection.execute("""SELECT * FROM d."it's" ORDER BY id""").fetchall()
    assert rows == [(1, 1, 0, 0), (2, 2, 0, 0), (3, 300, 0, 0)]


T = TableName("d", "t")
_SQL = re.compile(r"ALTER TABLE .*?(?=; then run again| makes it|$)")
LABELS = ("b😀", "it's", "a;b")


def json_row(ts: int, row: dict[str, str | None], kind: str = "INSERT", **types: str) -> bytes:
    known = {"mysqlType": {**dict.fromkeys(row, "varchar"), **types}}
    return row_line(kind, row, commit_ts=ts, pkNames=["id"] if "id" in row else [], **known) + b"\r\n"


@dataclass(frozen=True)
class Case:
    """A table made by hand that does not fit. `mend`: what the hint leaves to the operator to write."""

    body: str
    columns: tuple[Column, ...]
    row: bytes
    words: str
    shown: str
    value: object
    mend: str = ""
    flags: dict[str, object] = field(default_factory=dict)
    server: str = "mariadb"


E = Column("e", "ENUM", elements=LABELS)
AT = Column("at", "TIMESTAMP")
CASES = {
    "sink/mysql/tables/prepare.py:_check_labels": Case(
        "id INT PRIMARY KEY, e ENUM('it''s','b😀')",
        (ID, E),
        json_row(10, {"id": "1", "e": "3"}),
        *("MODIFY COLUMN `e`", "e", "a;b"),
    ),
    "codec/errors.py:mislabelled": Case(
        "id INT PRIMARY KEY, e ENUM('y','x')",
        (ID, Column("e", "ENUM")),
        json_row(10, {"id": "1", "e": "1"}, e="enum('x','y')"),
        "give the target's column the type that the row shows, enum('x','y'), and run again",
        *("e", "x", "MODIFY COLUMN e ENUM('x','y')"),
    ),
    "sink/mysql/tables/checks.py:refuse_indistinct": Case(
        "id INT PRIMARY KEY, v DOUBLE(20,4), UNIQUE (v)",
        (ID, Column("v", "DOUBLE")),
        json_row(10, {"id": "1", "v": "7.5"}),
        *("the type DOUBLE", "v", 7.5, "MODIFY COLUMN v DOUBLE"),
    ),
    "sink/mysql/tables/checks.py:_refused": Case(
        "id INT PRIMARY KEY, at TIMESTAMP NULL, h INT AS (HOUR(at)) STORED",
        (ID, AT, Column("h", "INT")),
        json_row(10, {"id": "1", "at": "2026-07-01 08:00:00", "h": "8"}),
        *("makes it a plain column", "h", 8),
        flags={"tz": "Asia/Shanghai"},
    ),
    "sink/mysql/rows/statements.py:_refused": Case(
        "id INT PRIMARY KEY, v INT, CHECK (v < 5)",
        (ID, VALUE),
        json_row(10, {"id": "1", "v": "7"}),
        *("let the target's column take it", "v", 7, "DROP CONSTRAINT `CONSTRAINT_1`"),
    ),
    "sink/mysql/rows/staged.py:_check_computed": Case(
        "a INT, k INT AS (a + 2) STORED NOT NULL, PRIMARY KEY (k)",
        (Column("a", "INT"), Column("k", "INT", nullable=False, is_pk=True)),
        json_row(10, {"a": "1", "k": "2"}),
        *("make them plain columns in d.t, then run again", "k", 2, "MODIFY COLUMN k INT NOT NULL"),
        server="mysql",
    ),
    "sink/mysql/tables/prepare.py:_drift": Case(
        "v INT, more INT",
        (VALUE,),
        json_row(10, {"v": "7"}),
        *("bring the target table's columns in line", "v", 7, "DROP COLUMN more"),
    ),
    "sink/mysql/rows/values.py:value_form": Case(
        "id INT PRIMARY KEY, e VARCHAR(9)",
        (ID, E),
        json_row(10, {"id": "1", "e": "3"}),
        *("give the target's column the upstream's type", "e", "a;b", "MODIFY COLUMN e ENUM('b😀','it''s','a;b')"),
    ),
    "sink/mysql/rows/values.py:_written": Case(
        "id INT PRIMARY KEY, at TIMESTAMP NOT NULL",
        (ID, AT),
        json_row(10, {"id": "1", "at": None}),
        *("MODIFY COLUMN `at` timestamp NULL", "at", None),
    ),
    "codec/values.py:_each_distinct": Case(
        "id INT PRIMARY KEY, e ENUM('x')",
        (ID, Column("e", "ENUM")),
        b'"I","t","d",10,1,"y"\r\n',
        *("alter it, then run again", "e", "y", "MODIFY COLUMN e ENUM('x','y')"),
        flags={"csv_include_commit_ts": True},
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES.values(), ids=list(CASES))
def test_a_table_is_made_to_fit(case: Case, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    server: SqlServer = request.getfixturevalue(f"fresh_{case.server}")
    server.execute("CREATE DATABASE d CHARACTER SET utf8mb4", f"CREATE TABLE d.t ({case.body})")
    feed = Feed(tmp_path)
    feed.describe("d.t", 2, case.columns)
    csv = case.row.startswith(b'"')
    feed.file("d.t", 2, case.row, extension="csv" if csv else "json")
    replica = Replica(feed, server.url())
    said = {
        "upstream_uri": f"file://{feed.folder}?protocol={'csv' if csv else 'canal-json'}",
        "tz": "UTC",
        **case.flags,
    }
    stopped = replica.once(20, **said)
    assert stopped.exit_code == 3
    hint = stopped.tables[T].hint
    assert case.words in hint
    for statement in [f"ALTER TABLE d.t {case.mend}"] if case.mend else _SQL.findall(hint):
        server.execute(statement)
    assert replica.once(**said).exit_code == 0, hint
    assert server.execute(f"SELECT {case.shown} FROM d.t") == [(case.value,)]


def test_a_row_with_no_key_that_was_taken_away_by_hand(tmp_path: Path, fresh_mariadb: MariaDb) -> None:
    feed = Feed(tmp_path)
    feed.database("d", 1)
    feed.statement("d.t", 2, Action.CREATE_TABLE, "CREATE TABLE `t` (`v` INT)", (VALUE,))
    feed.file("d.t", 2, json_row(10, {"v": "7"}) + json_row(11, {"v": "8"}))
    replica = Replica(feed, fresh_mariadb.url())
    assert replica.once(15).exit_code == 0
    fresh_mariadb.execute("DELETE FROM d.t WHERE v = 7")
    feed.file("d.t", 2, json_row(16, {"v": "7"}, "DELETE"))
    stopped = replica.once(20)
    assert stopped.exit_code == 3
    assert "storage-consumer resync --table d.t" in stopped.tables[T].hint
    assert app.resync(replica.settings(), Recorder(), T, InlineLoader()).exit_code == 0
    assert fresh_mariadb.execute("SELECT v FROM d.t") == [(8,)]
