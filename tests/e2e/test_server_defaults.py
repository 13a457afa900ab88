"""Defaults that somebody gave a server for all sessions: none changes what is read, written or told."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from consumer import app
from consumer.model.actions import Action
from consumer.model.check import Repairing
from consumer.model.columns import Column
from tests.servers import MariaDb, SqlServer, mariadb_template
from tests.support.build import ID, VALUE
from tests.support.crashes import Crash, Fuse
from tests.support.feed import Feed, Replica
from tests.support.inline_loader import InlineLoader
from tests.support.lettered import COLUMNS, KEYLESS, TABLE, Storage
from tests.support.observers import Recorder
from tests.support.scripts import run_on_server

EVERYWHERE = {
    "sql_select_limit": "1",
    "completion_type": "'CHAIN'",
    "autocommit": "0",
    "sql_safe_updates": "1",
    "max_join_size": "1",
    "default_storage_engine": "'MyISAM'",
    "max_error_count": "0",
    "sql_mode": "'ANSI_QUOTES,NO_BACKSLASH_ESCAPES,PAD_CHAR_TO_FULL_LENGTH'",
}
OF = {
    "mariadb": EVERYWHERE | {"sql_if_exists": "1", "max_statement_time": "0.001", "tx_isolation": "'SERIALIZABLE'"},
    "mysql": EVERYWHERE | {"max_execution_time": "1", "transaction_isolation": "'SERIALIZABLE'"},
}
CASES = [(server, name, value) for server, values in OF.items() for name, value in values.items()]


@contextmanager
def default(server: SqlServer, name: str, value: str) -> Iterator[None]:
    """For all sessions that begin."""
    ((before,),) = server.execute(f"SELECT @@GLOBAL.{name}")
    server.execute(f"SET GLOBAL {name} = {value}")
    try:
        yield
    finally:
        server.execute(f"SET GLOBAL {name} = " + (f"'{before}'" if isinstance(before, str) else str(before)))


@pytest.mark.parametrize("keyless", [False, True], ids=["key", "no key"])
@pytest.mark.parametrize(("kind", "name", "value"), CASES, ids=[f"{kind}-{name}" for kind, name, _ in CASES])
def test_it_changes_nothing(
    request: pytest.FixtureRequest, kind: str, name: str, value: str, keyless: bool, tmp_path: Path
) -> None:
    """Neither in the first run, nor where there are rows, statements and progress to be read."""
    server: SqlServer = request.getfixturevalue(f"fresh_{kind}")
    storage = Storage(tmp_path, columns=KEYLESS if keyless else COLUMNS)
    with default(server, name, value):
        storage.file(*(storage.line((10 + n, str(n), str(n), "a")) for n in range(4)))
        storage.feed.statement("d.t", 18, Action.TRUNCATE_TABLE, "TRUNCATE TABLE `t`", storage.columns)
        storage.file(*(storage.line((20 + n, str(n), str(n), "b")) for n in range(4)), version=18)
        assert storage.once(server.url(), 30).exit_code == 0
        changes = [storage.line((31, "2", "9", "c"), "UPDATE", old=(22, "2", "2", "b"))]
        storage.file(*changes, storage.line((32, "3", "3", "b"), "DELETE"), version=18)
        assert storage.once(server.url(), 40).exit_code == 0
        (check,) = app.verify(storage.settings(server.url()), Recorder(), loader=InlineLoader()).tables
    assert (check.table, check.state) == (TABLE, "equal")
    assert server.execute("SELECT * FROM d.t ORDER BY id") == [(0, 0, "b"), (1, 1, "b"), (2, 9, "c")]


@pytest.mark.parametrize(
    ("name", "value"),
    [("completion_type", "'RELEASE'"), ("sql_safe_updates", "1"), ("max_join_size", "1"), ("autocommit", "0")],
)
@pytest.mark.parametrize("kind", OF)
def test_it_does_not_end_a_file_of_statements(
    request: pytest.FixtureRequest, kind: str, name: str, value: str, tmp_path: Path
) -> None:
    """One of several tables."""
    server: SqlServer = request.getfixturevalue(f"fresh_{kind}")
    storage, script = Storage(tmp_path, columns=KEYLESS), tmp_path / "right.sql"
    storage.file(*(storage.line((10 + n, str(n), str(n), "a")) for n in range(4)))
    storage.feed.create("d.u", 3)
    storage.feed.puts("d.u", 3, {11: (1, "1"), 12: (2, "2")})
    assert storage.once(server.url(), 30).exit_code == 0
    server.execute("DELETE FROM d.t WHERE id < 2", "UPDATE d.t SET v = 7 WHERE id = 3")
    server.execute("UPDATE d.u SET v = 7 WHERE id = 1", "DELETE FROM d.u WHERE id = 2")
    settings = storage.settings(server.url())
    app.verify(settings, Recorder(), loader=InlineLoader(), repairing=Repairing(sql=str(script)))
    with default(server, name, value):
        run_on_server(script, server)
    assert {check.state for check in app.verify(settings, Recorder(), loader=InlineLoader()).tables} == {"equal"}


@pytest.mark.parametrize("kind", OF)
@pytest.mark.parametrize(("name", "value"), [("max_error_count", "0"), ("sql_notes", "0"), ("sql_mode", "''")])
def test_what_is_cut_off_is_told(
    request: pytest.FixtureRequest, kind: str, name: str, value: str, tmp_path: Path
) -> None:
    server: SqlServer = request.getfixturevalue(f"fresh_{kind}")
    storage = Storage(tmp_path)
    storage.file(storage.line((10, "1", "1", "12345678 ")))
    with default(server, name, value):
        assert storage.once(server.url(), 15, on_bad_row="stop").exit_code == 3
    stopped = storage.stopped()
    assert stopped is not None
    assert ("Data truncated" in stopped.message) or ("it would store another value" in stopped.message)


@pytest.mark.parametrize(
    ("kind", "name", "value"),
    [
        ("mariadb", "sql_quote_show_create", "0"),
        ("mysql", "sql_quote_show_create", "0"),
        ("mysql", "show_create_table_verbosity", "1"),
    ],
)
def test_a_statement_that_did_not_run_is_not_taken_for_one_that_did(
    request: pytest.FixtureRequest,
    kind: str,
    name: str,
    value: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The process dies between the record that it is to run and its begin, and definitions are shown in another way."""
    server: SqlServer = request.getfixturevalue(f"fresh_{kind}")
    server.execute("CREATE USER u IDENTIFIED BY 'pw'", "GRANT ALL ON d.* TO u", "GRANT ALL ON storage_consumer.* TO u")
    feed = Feed(tmp_path)
    replica = Replica(feed, server.url("u", "pw"))
    feed.database("d", 1)
    feed.create("d.t", 2)
    feed.puts("d.t", 2, {10: (1, "1")})
    assert replica.once(20).exit_code == 0
    altered = (ID, VALUE, Column("w", "INT", default="5"))
    feed.statement("d.t", 25, Action.ADD_COLUMN, "ALTER TABLE `t` ADD COLUMN `w` INT DEFAULT 5", altered)
    with monkeypatch.context() as patch:
        patch.setattr("consumer.sink.mysql.sink.execute_ddls", Fuse(0).around(lambda: None))
        with pytest.raises(Crash):
            replica.once(30)
    with default(server, name, value):
        assert replica.once(30).exit_code == 0
    assert server.execute("SELECT * FROM d.t") == [(1, 1, 5)]


def test_a_statement_is_executed_in_whichever_way_it_can_be(fresh_mariadb: SqlServer, tmp_path: Path) -> None:
    feed = Feed(tmp_path)
    feed.database("d", 1)
    feed.create("d.t", 2)
    wider = Column("v", "BIGINT")
    feed.statement("d.t", 5, Action.MODIFY_COLUMN, "ALTER TABLE `t` MODIFY COLUMN `v` BIGINT", (ID, wider))
    with default(fresh_mariadb, "alter_algorithm", "'INSTANT'"):
        assert Replica(feed, fresh_mariadb.url()).once(30).exit_code == 0


def test_a_server_that_lets_no_session_set_the_time_refuses_statements_that_need_it(tmp_path: Path) -> None:
    """Others are executed, and it is no outage, which would be waited for."""
    feed = Feed(tmp_path / "storage")
    feed.database("d", 1)
    feed.create("d.t", 2)
    now = Column("w", "DATETIME", default="CURRENT_TIMESTAMP")
    query = "ALTER TABLE `t` ADD COLUMN `w` DATETIME DEFAULT CURRENT_TIMESTAMP"
    feed.statement("d.t", 5, Action.ADD_COLUMN, query, (ID, VALUE, now))
    server = MariaDb(mariadb_template(tmp_path), ["--secure-timestamp=YES"])
    server.start()
    try:
        result = Replica(feed, server.url()).once(30)
    finally:
        server.stop()
    stopped = result.tables[TABLE]
    assert result.exit_code == 5
    assert "the target lets no session set that" in stopped.error
    assert "secure_timestamp" in stopped.hint


def test_a_key_that_the_server_makes_is_named(fresh_mysql: SqlServer, tmp_path: Path) -> None:
    storage = Storage(tmp_path, columns=KEYLESS)
    storage.file(storage.line((10, "1", "1", "a")))
    with default(fresh_mysql, "sql_generate_invisible_primary_key", "1"):
        assert storage.once(fresh_mysql.url(), 15).exit_code == 3
    stopped = storage.stopped()
    assert stopped is not None
    assert "my_row_id" in stopped.message
    fresh_mysql.execute(stopped.hint.partition(";")[0])
    assert storage.once(fresh_mysql.url(), 15).exit_code == 0
    assert fresh_mysql.execute("SELECT * FROM d.t") == [(1, 1, "a")]
