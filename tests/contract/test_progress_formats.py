"""Progress that an earlier release wrote: read as it is, brought forward by the one that takes the target.

`progress_formats/N.*.sql` is the schema as the last release with format N made it, with rows.
"""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import duckdb
import pymysql
import pytest

from consumer.errors import BadConfig, LeaseHeld
from consumer.model.files import Folder
from consumer.model.names import TableName
from consumer.model.progress import (
    FORMAT_VERSION,
    DdlId,
    DdlRecord,
    DdlState,
    FolderProgress,
    OpenFile,
    Progress,
    ProgressChange,
    State,
    TableProgress,
)
from consumer.model.times import MAX_TSO
from consumer.sink import sink_for
from consumer.sink.mysql.progress import migrate
from consumer.sink.mysql.progress.lease import lock_name
from consumer.target import TargetOptions
from tests.contract.acts import UPSTREAM
from tests.contract.targets import DuckDb, Server

SNAPSHOTS = Path(__file__).parent / "progress_formats"
FIRST = Progress(
    upstream=UPSTREAM,
    applied_ts=40,
    start_ts=30,
    tables={TableName("shop", "item"): TableProgress(20, State.STOPPED, "a reason", "a hint")},
    folders={
        Folder("shop/item", 5, "7", "2026-01-02", "9"): FolderProgress(
            12, 34, "etag", (OpenFile(14, 35, 3, "s"),), last_ts=MAX_TSO
        )
    },
    ddls={
        record.id: record
        for record in (
            DdlRecord(DdlId("shop", "item", 5, 4294967295), DdlState.DONE, "{}"),
            DdlRecord(DdlId("shop", "log", 6, 1), DdlState.INTENT, '{"before": 1}'),
        )
    },
)
"""What the snapshots of format 1 hold of consumer "c"."""


class OldServer:
    suffix = "mysql"

    def __init__(self, target: Server) -> None:
        self.target = target

    def restore(self, statements: Sequence[str]) -> None:
        self.target.server.execute("DROP DATABASE IF EXISTS storage_consumer", *statements)

    def query(self, statement: str) -> list[tuple[Any, ...]]:
        return self.target.server.execute(statement)

    def layout(self) -> object:
        """All that the server says of the tables and the view."""
        names = [name for (name,) in self.query("SHOW TABLES FROM storage_consumer")]
        shown = {name: self.query(f"SHOW CREATE TABLE storage_consumer.{name}")[0][1] for name in names}
        # The next number of an AUTO_INCREMENT column is of the rows, not of the layout.
        return {name: re.sub(r" AUTO_INCREMENT=\d+", "", text) for name, text in shown.items()}


class OldFile:
    suffix = "duckdb"

    def __init__(self, target: DuckDb) -> None:
        self.target = target

    def restore(self, statements: Sequence[str]) -> None:
        self.target.path.unlink(missing_ok=True)
        with duckdb.connect(str(self.target.path)) as connection:
            for statement in statements:
                connection.execute(statement)

    def query(self, statement: str) -> list[tuple[Any, ...]]:
        with duckdb.connect(str(self.target.path)) as connection:
            return connection.execute(statement).fetchall()

    def layout(self) -> object:
        """All that the file says of the tables and the view."""
        described = "SELECT table_name, column_name, data_type, is_nullable, column_default FROM duckdb_columns()"
        return self.query(f"{described} ORDER BY table_name, column_index"), self.query(
            "SELECT sql FROM duckdb_views() WHERE NOT internal"
        )


@pytest.fixture(params=["duckdb", "fresh_mariadb", "fresh_mysql"])
def old(request: pytest.FixtureRequest, tmp_path: Path) -> OldServer | OldFile:
    """A target whose progress schema has format 1, with the progress of the consumers "c" and "other"."""
    found: OldServer | OldFile
    if request.param == "duckdb":
        found = OldFile(DuckDb(tmp_path / "replica.duckdb"))
    else:
        found = OldServer(Server(request.getfixturevalue(request.param)))
    found.restore(statements(1, found.suffix))
    return found


def statements(version: int, suffix: str) -> list[str]:
    text = (SNAPSHOTS / f"{version}.{suffix}.sql").read_text()
    return [statement for statement in text.split(";\n") if statement]


def bring_forward(old: OldServer | OldFile, name: str = "c", upstream: str = UPSTREAM) -> Progress:
    sink = old.target.sink(name)
    try:
        return sink.acquire(upstream)
    finally:
        sink.close()


def test_an_older_layout_is_read_as_it_is(old: OldServer | OldFile) -> None:
    before = old.layout()
    sink = old.target.sink()
    assert sink.progress() == FIRST
    assert sink.preview_ddls([]) == []
    sink.close()
    assert old.layout() == before
    assert old.query("SELECT DISTINCT format FROM storage_consumer.consumer") == [(1,)]


def test_who_takes_the_target_brings_it_forward(old: OldServer | OldFile) -> None:
    assert bring_forward(old) == FIRST
    assert old.query("SELECT DISTINCT format FROM storage_consumer.consumer") == [(FORMAT_VERSION,)]
    assert old.target.sink().progress() == FIRST
    assert old.target.sink("other").progress().tables == {TableName("shop", "item"): TableProgress(21)}
    view = "SELECT consumer, applied_ts, state FROM storage_consumer.replica ORDER BY applied_ts"
    assert old.query(view) == [("c", 20, "stopped"), ("c", 40, "ok")]


def test_the_layout_is_then_that_of_a_new_target(old: OldServer | OldFile) -> None:
    bring_forward(old)
    migrated = old.layout()
    old.restore([])
    bring_forward(old)
    assert migrated == old.layout()


def test_progress_goes_on_from_there(old: OldServer | OldFile) -> None:
    sink = old.target.sink()
    sink.acquire(UPSTREAM)
    change = ProgressChange(applied_ts=50, tables={TableName("shop", "item"): None}, forget_ddls=(*FIRST.ddls,))
    sink.record(change)
    assert sink.progress() == FIRST.after(change)
    sink.close()


def test_a_later_format_is_refused_with_the_release_that_wrote_it(old: OldServer | OldFile) -> None:
    bring_forward(old)
    later = "UPDATE storage_consumer.consumer SET format = 99, written_by = '9.8.7' WHERE name = 'other'"
    old.query(later)
    for name, upstream in (("c", UPSTREAM), ("other", "s3://bucket/other"), ("new", UPSTREAM)):
        with pytest.raises(BadConfig, match=r"format 99, written by release 9\.8\.7") as refused:
            bring_forward(old, name, upstream)
        assert refused.value.hint == "run release 9.8.7 or a later one"
    with pytest.raises(BadConfig, match=r"format 99, written by release 9\.8\.7"):
        old.target.sink("other").progress()


def test_a_schema_that_no_consumer_used_yet_is_brought_forward(old: OldServer | OldFile) -> None:
    old.restore(
        [line for line in statements(1, old.suffix) if not line.startswith("INSERT INTO storage_consumer.consumer")]
    )
    assert bring_forward(old) == Progress(
        upstream=UPSTREAM, tables=FIRST.tables, folders=FIRST.folders, ddls=FIRST.ddls
    )


@pytest.fixture(params=["fresh_mariadb", "fresh_mysql"])
def old_server(request: pytest.FixtureRequest) -> OldServer:
    found = OldServer(Server(request.getfixturevalue(request.param)))
    found.restore(statements(1, found.suffix))
    return found


def test_a_migration_that_ends_at_any_statement_is_taken_up(old_server: OldServer) -> None:
    whole = count_statements(old_server)
    assert whole > 10
    for allowed in range(whole):
        old_server.restore(statements(1, "mysql"))
        connection = old_server.target.server.connect(autocommit=False)
        with pytest.raises(ConnectionError):
            migrate.ensure_schema(Ending(connection.cursor(), allowed))
        assert old_server.target.sink().progress() == FIRST, allowed
        assert bring_forward(old_server) == FIRST, allowed
        assert old_server.query("SELECT DISTINCT format FROM storage_consumer.consumer") == [(FORMAT_VERSION,)]


def test_another_consumer_at_work_keeps_the_layout_as_it_is(
    old_server: OldServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(migrate, "_WAIT_SECONDS", 0)
    before = old_server.layout()
    working = old_server.target.server.connect()
    with working.cursor() as cursor:
        cursor.execute("SELECT GET_LOCK(%s, 0)", (lock_name("other"),))
        with pytest.raises(LeaseHeld, match="the consumer named 'other' is running"):
            bring_forward(old_server)
        assert old_server.layout() == before
        cursor.execute("SELECT RELEASE_LOCK(%s)", (lock_name("other"),))
    working.close()
    assert bring_forward(old_server) == FIRST


def test_one_that_lost_its_lock_and_comes_back_writes_nothing(old_server: OldServer) -> None:
    """Under its own name and under another: a process of the older release that was frozen meanwhile."""
    for name in ("c", "other"):
        upstream = old_server.query(f"SELECT upstream FROM storage_consumer.consumer WHERE name = '{name}'")[0][0]
        frozen = old_server.target.sink(name)
        frozen.acquire(upstream)
        frozen.record(ProgressChange(applied_ts=60))
        old_server.query("UPDATE storage_consumer.consumer SET format = 1")
        old_server.target.server.kill_clients()
        assert bring_forward(old_server).upstream == UPSTREAM
        with pytest.raises(LeaseHeld, match="was taken over"):
            frozen.record(ProgressChange(applied_ts=99))
        with pytest.raises(LeaseHeld):
            frozen.fence()
        frozen.close()
        assert old_server.query("SELECT count(*) FROM storage_consumer.consumer WHERE applied_ts = 99") == [(0,)]


KILLED = """
import os, sys
from consumer.sink import sink_for
from consumer.sink.duckdb.progress import migrate
from consumer.target import TargetOptions
step, when = migrate._STEPS[2], sys.argv[2]
def killed(connection):
    if when == "after":
        step(connection)
    os.kill(os.getpid(), 9)
migrate._STEPS = {2: killed}
sink_for(sys.argv[1], TargetOptions(name="c", time_zone="UTC")).acquire("x")
"""


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_file_whose_migration_is_killed_is_as_it_was(when: str, tmp_path: Path) -> None:
    old = OldFile(DuckDb(tmp_path / "replica.duckdb"))
    old.restore(statements(1, old.suffix))
    before = old.layout()
    command = [sys.executable, "-c", KILLED.replace('"x"', repr(UPSTREAM)), f"duckdb:///{old.target.path}", when]
    assert subprocess.run(command, capture_output=True, check=False).returncode == -signal.SIGKILL
    assert old.layout() == before
    assert bring_forward(old) == FIRST


class Ending(pymysql.cursors.Cursor):
    """A cursor whose connection is gone after some statements."""

    def __init__(self, cursor: pymysql.cursors.Cursor, allowed: int) -> None:
        super().__init__(cursor.connection)
        self.allowed = allowed

    def execute(self, query: str, args: object = None) -> int:
        if self.allowed == 0:
            self.connection.close()
            raise ConnectionError(query)
        self.allowed -= 1
        return super().execute(query, args)


def count_statements(old: OldServer) -> int:
    """How many statements the whole migration is."""
    connection = old.target.server.connect(autocommit=False)
    cursor = Ending(connection.cursor(), 1000)
    migrate.ensure_schema(cursor)
    connection.close()
    return 1000 - cursor.allowed


def test_a_file_with_timestamps_in_local_time_is_refused(tmp_path: Path) -> None:
    old = OldFile(DuckDb(tmp_path / "replica.duckdb"))
    old.restore(statements(1, old.suffix))
    sink = sink_for(f"duckdb:///{old.target.path}", TargetOptions(name="c", time_zone="Asia/Shanghai"))
    with pytest.raises(BadConfig, match="local time"):
        sink.acquire(UPSTREAM)
    sink.close()
    assert bring_forward(old) == FIRST  # under UTC the two are the same
