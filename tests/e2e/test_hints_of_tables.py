"""What a server's table must be like before rows fit it: made so as the hint says, the table goes on."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from consumer import app
from consumer.model.actions import Action
from consumer.model.columns import Column
from consumer.model.names import TableName
from tests.servers import MariaDb, SqlServer
from tests.support.build import ID, VALUE
from tests.support.canal_json import row_line
from tests.support.feed import Feed, Replica
from tests.support.inline_loader import InlineLoader
from tests.support.observers import Recorder

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
    "sink/mysql/tables/rounded.py:refuse_indistinct": Case(
        "id INT PRIMARY KEY, v DOUBLE(20,4), UNIQUE (v)",
        (ID, Column("v", "DOUBLE")),
        json_row(10, {"id": "1", "v": "7.5"}),
        *("the type DOUBLE", "v", 7.5, "MODIFY COLUMN v DOUBLE"),
    ),
    "sink/mysql/tables/session_times.py:_refused": Case(
        "id INT PRIMARY KEY, at TIMESTAMP NULL, h INT AS (HOUR(at)) STORED",
        (ID, AT, Column("h", "INT")),
        json_row(10, {"id": "1", "at": "2026-07-01 08:00:00", "h": "8"}),
        *("makes it a plain column", "h", 8),
        flags={"tz": "Asia/Shanghai"},
    ),
    "sink/mysql/rows/replace.py:_refused": Case(
        "id INT PRIMARY KEY, v INT, CHECK (v < 5)",
        (ID, VALUE),
        json_row(10, {"id": "1", "v": "7"}),
        *("let the target's column take the value", "v", 7, "DROP CONSTRAINT `CONSTRAINT_1`"),
    ),
    "sink/mysql/rows/staged.py:_check_computed": Case(
        "a INT, k INT AS (a + 2) STORED NOT NULL, PRIMARY KEY (k)",
        (Column("a", "INT"), Column("k", "INT", nullable=False, is_pk=True)),
        json_row(10, {"a": "1", "k": "2"}),
        *("make them plain columns in d.t, then run again", "k", 2, "MODIFY COLUMN k INT NOT NULL"),
        server="mysql",
    ),
    "sink/mysql/tables/own.py:_drift": Case(
        "v INT, more INT",
        (VALUE,),
        json_row(10, {"v": "7"}),
        *("bring the target table's columns in line", "v", 7, "DROP COLUMN more"),
    ),
    "sink/mysql/rows/values.py:form_of": Case(
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
    "types/labels.py:_each_distinct": Case(
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
    assert "resync the table" in stopped.tables[T].hint
    assert app.resync(replica.settings(), Recorder(), T, InlineLoader()).exit_code == 0
    assert fresh_mariadb.execute("SELECT v FROM d.t") == [(8,)]
