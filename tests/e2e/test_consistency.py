"""`--consistency`: what is refused, what a fault leaves behind, and readers beside a live `run`."""

from __future__ import annotations

import os
import random
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pymysql
import pytest

from consumer import app
from consumer.errors import BadConfig, Retryable
from consumer.model.actions import Action
from consumer.model.events import Event, Retrying, RoundFinished, RoundStarted
from consumer.model.load import LoadOutcome, LoadTask
from consumer.ports import Moved, RangeReader, unheard
from consumer.sink.mysql.rows.publish import Publisher
from consumer.sink.mysql.server.wire import Connection
from consumer.sink.mysql.settings import MySqlSettings
from consumer.target import Writer
from tests.mysql_server import NO_MYSQL, MySql, has_mysql, mysql_template
from tests.servers import MariaDb, SqlServer, mariadb_template
from tests.support.build import VALUE
from tests.support.feed import Feed, Replica
from tests.support.inline_loader import InlineLoader
from tests.support.moments import both, every_state, held, two_accounts
from tests.support.observers import Recorder
from tests.tidb_server import checks_hold


@pytest.fixture(params=["fresh_mariadb", "fresh_mysql", "fresh_tidb"])
def server(request: pytest.FixtureRequest) -> SqlServer:
    found: SqlServer = request.getfixturevalue(request.param)
    return found


@pytest.fixture
def checking(server: SqlServer) -> Iterator[SqlServer]:
    with checks_hold(server):
        yield server


@pytest.fixture
def feed(tmp_path: Path) -> Feed:
    return two_accounts(tmp_path / "storage")


@pytest.fixture
def file(feed: Feed, tmp_path: Path) -> Replica:
    return Replica(feed, f"duckdb:///{tmp_path}/replica.duckdb")


def move(feed: Feed, ts: int, money: int) -> None:
    for table, now in (("d.a", 50 - money), ("d.b", 50 + money)):
        feed.puts(table, 10, {ts: (1, str(now))})


@pytest.mark.parametrize("level", ["table", "snapshot"])
def test_levels_that_need_times(feed: Feed, file: Replica, level: str, tmp_path: Path) -> None:
    with pytest.raises(BadConfig, match="needs a checkpoint") as refused:
        file.once(consistency=level, checkpoint_ts="max")
    assert "use --consistency row" in refused.value.hint
    assert file.once(checkpoint_ts="max").exit_code == 0
    csv = Replica(feed, f"duckdb:///{tmp_path}/csv.duckdb")
    feed.checkpoint(30)
    with pytest.raises(BadConfig, match="this changefeed does not say it"):
        csv.once(upstream_uri=f"file://{feed.folder}?protocol=csv", consistency=level)
    line = feed._line("d.b", 0, 1, "7").replace(b'"es": 0', b'"es": 1000').replace(b', "_tidb": {"commitTs": 0}', b"")
    feed.file("d.b", 10, line)
    with pytest.raises(BadConfig, match=r"rows of d\.b tell only the millisecond") as refused:
        csv.once(checkpoint=1001 << 18, consistency=level)
    assert "use --consistency row" in refused.value.hint
    assert csv.once().exit_code == 0


def test_a_transaction_that_is_too_large(feed: Feed, file: Replica) -> None:
    file.once(25)
    feed.puts("d.a", 10, {30: (1, "1")})
    feed.puts("d.b", 10, {30: (1, "2")})
    with pytest.raises(BadConfig, match=r"the transaction 30 has about \d+ bytes of change files") as refused:
        file.once(40, consistency="snapshot", publish_bytes="500")
    wanted = re.search(r"set publish-bytes to (\d+)", refused.value.hint)
    assert wanted is not None
    assert file.once(consistency="snapshot", publish_bytes=wanted[1]).exit_code == 0


def test_a_table_whose_transaction_is_too_large_stops_alone(feed: Feed, file: Replica) -> None:
    file.once(25)
    for key in range(4):
        feed.puts("d.a", 10, {30: (key, "1")})
    feed.puts("d.b", 10, {30: (1, "2")})
    flags: dict[str, object] = {"consistency": "table", "publish_bytes": "500"}
    result = file.once(40, **flags)
    states = {name.table: table for name, table in result.tables.items()}
    assert result.exit_code == 3
    assert [states["a"].state, states["b"].state] == ["stopped", "ok"]
    wanted = re.search(r"set publish-bytes to (\d+)", states["a"].hint)
    assert wanted is not None
    assert file.once(**{**flags, "publish_bytes": wanted[1]}).exit_code == 0


@pytest.fixture(params=["MariaDB", "MySQL"])
def small_log(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[SqlServer]:
    """A server whose binary log takes transactions of 64 KiB."""
    options = ("--log-bin=bin", "--server-id=1", "--binlog-cache-size=65536", "--max-binlog-cache-size=65536")
    if request.param == "MySQL" and not has_mysql():
        pytest.skip(NO_MYSQL)
    made = (
        MySql(mysql_template(), options) if request.param == "MySQL" else MariaDb(mariadb_template(tmp_path), options)
    )
    yield made.start()
    made.stop()


@pytest.mark.parametrize("level", ["table", "snapshot"])
def test_a_transaction_that_the_server_does_not_take(feed: Feed, small_log: SqlServer, level: str) -> None:
    replica = Replica(feed, small_log.url())
    assert replica.once(25, consistency=level).exit_code == 0
    for begin in range(0, 20000, 2000):
        for table in ("d.a", "d.b"):
            feed.puts(table, 10, {1000 + key: (key, str(key)) for key in range(begin, begin + 2000)})
    if level == "snapshot":
        with pytest.raises(BadConfig, match=r"does not take 40,?000 rows in one transaction") as refused:
            replica.once(30000, consistency=level)
        hint = refused.value.hint
    else:
        result = replica.once(30000, consistency=level)
        assert [table.state for table in result.tables.values() if table.watermark < 30000] == ["stopped"] * 2
        hint = next(table.hint for table in result.tables.values() if table.error)
    assert "set a smaller publish-bytes, or raise the server's limit" in hint
    assert both(small_log) == [50, 50]
    assert replica.once(consistency=level, publish_bytes="100KiB").exit_code == 0
    assert small_log.execute("SELECT COUNT(*) FROM d.a") == [(20000,)]


@pytest.mark.parametrize("level", ["table", "snapshot"])
def test_a_table_without_transactions(feed: Feed, server: SqlServer, level: str) -> None:
    replica = Replica(feed, server.url())
    assert replica.once(25).exit_code == 0
    server.execute("ALTER TABLE d.b ENGINE = MyISAM")
    feed.puts("d.a", 10, {30: (7, "7")})
    feed.puts("d.b", 10, {30: (7, "7")})
    result = replica.once(35, consistency=level)
    (stopped,) = (table for table in result.tables.values() if table.error)
    assert "MyISAM has none" in str(stopped.error)
    server.execute(stopped.hint)
    assert replica.once(35, consistency=level).exit_code == 0
    assert both(server) == [50, 7, 50, 7]


def test_an_answer_of_commit_that_is_lost(feed: Feed, server: SqlServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each transaction in turn; a table with no key shows what is applied twice."""
    feed.statement("d.log", 11, Action.CREATE_TABLE, "CREATE TABLE `log` (`v` INT)", (VALUE,))
    replica = Replica(feed, server.url())
    lost = 0
    for number in range(40):
        server.drop_all()
        left = [number]

        def commit(connection: Connection, left: list[int] = left) -> None:
            pymysql.Connection.commit(connection)
            left[0] -= 1
            if left[0] == -1:
                connection._force_close()
                raise pymysql.OperationalError(2013, "Lost connection to MySQL server during query")

        with monkeypatch.context() as patch:
            patch.setattr(Connection, "commit", commit)
            result = replica.once(25, consistency="snapshot")
        lost += left[0] < 0
        assert result.exit_code == 0
        assert both(server) == [50, 50]
        if left[0] >= 0:
            break
    assert 2 < lost < 40


def test_a_table_that_waits_holds_up_all(feed: Feed, server: SqlServer, monkeypatch: pytest.MonkeyPatch) -> None:
    replica = Replica(feed, server.url())
    replica.once(25)
    move(feed, 30, 5)
    monkeypatch.setattr("consumer.sink.mysql.server.connection.LOCK_WAIT_SECONDS", 1)
    holder = server.connect(autocommit=False)
    with holder.cursor() as cursor:
        cursor.execute("SELECT * FROM d.b FOR UPDATE")
    with pytest.raises(Retryable, match="the target is busy"):
        replica.once(40, consistency="snapshot", max_wait="0")
    assert both(server) == [50, 50]
    holder.rollback()
    assert replica.once(consistency="snapshot").exit_code == 0
    assert both(server) == [45, 55]


def test_a_stopped_table_comes_to_the_others_and_goes_on_with_them(
    feed: Feed, server: SqlServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    replica = Replica(feed, server.url())
    replica.once(25, consistency="snapshot")
    move(feed, 30, 5)
    damaged = feed.damaged("d.b", 10)
    assert replica.once(40, consistency="snapshot").exit_code == 3
    assert both(server) == [45, 50]
    damaged.unlink()
    move(feed, 50, 9)
    with every_state(server, monkeypatch) as seen:
        assert replica.once(60, consistency="snapshot", accept_gap_in=["*.*"]).exit_code == 0
    sums = [sum(rows[0][1] for _, rows in state) for state in seen]
    assert sums == [95, 100, 100]
    assert both(server) == [41, 59]


def test_rows_that_the_target_refuses(feed: Feed, checking: SqlServer, tmp_path: Path) -> None:
    server = checking
    replica = Replica(feed, server.url())
    replica.once(25, consistency="snapshot")
    server.execute("ALTER TABLE d.b ADD CONSTRAINT few CHECK (v < 100)")
    feed.puts("d.a", 10, {30: (2, "7")})
    feed.puts("d.b", 10, {30: (2, "700"), 31: (3, "8")})
    result = replica.once(40, consistency="snapshot")
    assert result.exit_code == 3
    assert "CDC00000000000000000002.json:1" in next(t.error for t in result.tables.values() if t.error)
    assert both(server) == [50, 7, 50]
    letters = tmp_path / "letters"
    letters.mkdir()
    flags: dict[str, object] = {"on_bad_row": "quarantine", "dead_letters": f"file://{letters}"}
    result = replica.once(consistency="snapshot", **flags)
    assert result.exit_code == 3
    assert both(server) == [50, 7, 50, 8]
    assert len(list(letters.rglob("*.json"))) == 1


@pytest.mark.parametrize("level", ["table", "snapshot"])
def test_a_line_that_lost_its_commit_ts(feed: Feed, file: Replica, level: str, tmp_path: Path) -> None:
    """It is quarantined: it says nothing about the rows that are written."""
    good = feed._line("d.b", 30 << 18, 2, "7").replace(b'"es": 0', b'"es": 30')
    damaged = good[: good.index(b'"_tidb"')] + b"\r\n"
    feed.file("d.b", 10, damaged)
    feed.puts("d.a", 10, {31 << 18: (2, "8")})
    flags: dict[str, object] = {"on_bad_row": "quarantine", "dead_letters": f"file://{tmp_path}/letters"}
    result = file.once(40 << 18, consistency=level, **flags)
    assert {name.table: (table.state, table.quarantined) for name, table in result.tables.items()} == {
        "a": ("ok", 0),
        "b": ("ok", 1),
    }
    assert not [note for note in file.seen.notes if "millisecond" in note]


def test_what_a_killed_run_left_is_removed(
    feed: Feed, server: SqlServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    staging = tmp_path / "staging"
    staging.mkdir()
    left = staging / "storage-consumer-rows-left" / "7" / "load"
    left.mkdir(parents=True)
    left.joinpath("rows.arrow").write_bytes(b"of another run")
    for folder in (staging, left.parent.parent):
        folder.chmod(0o700)
    seen: list[list[str]] = []
    write = Publisher.write

    def watched(*given: Any) -> Any:
        seen.append([path.name for path in staging.rglob("*.arrow")])
        return write(*given)

    monkeypatch.setattr(Publisher, "write", watched)
    replica = Replica(feed, f"{server.url()}?staging={staging}")
    assert replica.once(25, consistency="snapshot").exit_code == 0
    assert [len(names) for names in seen] == [2]
    assert os.listdir(staging) == []
    missing = Replica(feed, f"{server.url()}?staging={tmp_path}/none")
    with pytest.raises(BadConfig, match="rows cannot be staged in"):
        missing.once(consistency="snapshot")
    (tmp_path / "none").mkdir()
    assert missing.once(consistency="snapshot").exit_code == 0


def test_rows_are_staged_in_a_folder(
    feed: Feed, fresh_mariadb: SqlServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of this machine; one that is named from where the command runs has its whole name for workers elsewhere."""
    remote = Replica(feed, f"{fresh_mariadb.url()}?staging=s3://bucket/rows")
    with pytest.raises(BadConfig, match="rows are staged in a folder") as refused:
        remote.once(25, consistency="snapshot")
    assert "name one that this machine and all Spark workers see" in refused.value.hint
    (tmp_path / "rows").mkdir()
    monkeypatch.chdir(tmp_path)
    here = f"{fresh_mariadb.url()}?staging=rows"
    assert MySqlSettings.from_uri(here, name="n").staging == str(tmp_path / "rows")
    assert Replica(feed, here).once(25, consistency="snapshot").exit_code == 0


class Elsewhere(InlineLoader):
    """Its tasks run on a machine that does not have the folder for staged rows."""

    def load(
        self, tasks: Sequence[LoadTask], writer: Writer, reader: RangeReader, moved: Moved = unheard
    ) -> list[LoadOutcome]:
        return super().load(tasks, _elsewhere(writer), reader, moved)


def _elsewhere(writer: Any) -> Writer:
    return replace(writer, folder=f"/elsewhere{writer.folder}")


@pytest.mark.parametrize("target", ["server", "file"])
def test_workers_that_do_not_see_staged_rows(
    target: str, feed: Feed, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    """That is no table's fault: none is stopped for it."""
    url = request.getfixturevalue("fresh_mariadb").url() if target == "server" else f"duckdb:///{tmp_path}/r.duckdb"
    replica = Replica(feed, url)
    feed.checkpoint(25)
    settings = replica.settings(consistency="snapshot")
    with pytest.raises(BadConfig, match="a Spark worker does not see the folder /elsewhere") as refused:
        app.once(settings, Recorder(), Elsewhere())
    assert "all workers" in refused.value.hint
    assert {str(table.state) for table in app.status(settings, Recorder()).tables} == {"ok"}
    result = replica.once(consistency="snapshot")
    assert {name.table: table.rows for name, table in result.tables.items()} == {"a": 1, "b": 1}


class Removes(Recorder):
    """Takes the folder of rows away as the first round begins, then all around it, and brings that back."""

    def __init__(self, staging: Path) -> None:
        super().__init__()
        self._staging, self._gone, self.stop = staging, staging.with_name("gone"), threading.Event()
        self._left = deque([RoundStarted, Retrying, Retrying, RoundFinished])

    def tell(self, event: Event) -> None:
        if isinstance(event, self._left[0]):
            self._left.popleft()
            match len(self._left):
                case 3:
                    shutil.rmtree(next(self._staging.iterdir()))
                case 2:
                    self._staging.rename(self._gone)
                case 1:
                    self._gone.rename(self._staging)
                case _:
                    self.stop.set()
                    self._left.append(type(None))
        super().tell(event)


def test_a_staging_folder_that_is_removed_under_a_run(feed: Feed, server: SqlServer, tmp_path: Path) -> None:
    """As whoever tidies up temporary files does, or a share that is gone for a while."""
    staging = tmp_path / "staging"
    staging.mkdir()
    replica = Replica(feed, f"{server.url()}?staging={staging}")
    replica.once(25, consistency="snapshot")
    move(feed, 30, 5)
    feed.checkpoint(40)
    seen = Removes(staging)
    end = threading.Timer(60, seen.stop.set)
    end.start()
    settings = replica.settings(consistency="snapshot", flush_interval="10ms", max_wait="0")
    assert app.run(settings, seen, seen.stop, InlineLoader()).exit_code == 0
    end.cancel()
    assert any("rows cannot be staged in" in told for told in seen.retries)
    assert both(server) == [45, 55]


def test_a_reader_beside_a_live_run(feed: Feed, fresh_mariadb: SqlServer, tmp_path: Path) -> None:
    """The program itself, with Spark; killed in the middle and started again. Money moves between the two tables."""
    words = [
        str(Path(sys.executable).with_name("storage-consumer")), "run", "--tz", "UTC", "--flush-interval", "100ms",
        "--upstream-uri", f"file://{feed.folder}?protocol=canal-json", "--downstream-uri", fresh_mariadb.url(),
        "--consistency", "snapshot", "--master", "local[2]",
    ]  # fmt: skip
    feed.checkpoint(25)
    log = (tmp_path / "log").open("wb")
    seen: list[int] = []
    ts, moves = 100, random.Random(3)
    with log, closing(fresh_mariadb.connect()) as reader:
        for end in (signal.SIGKILL, signal.SIGKILL, signal.SIGTERM):
            process = subprocess.Popen(words, stderr=log, stdout=log, start_new_session=True)
            deadline, states = time.monotonic() + 60, len(set(seen))
            while len(set(seen)) < states + 4:
                assert time.monotonic() < deadline, (tmp_path / "log").read_text()
                ts += 10
                move(feed, ts, moves.randint(-50, 50))
                feed.checkpoint(ts + moves.randint(-4, 5))
                for _ in range(5):
                    if state := held(reader):
                        assert sum(rows[0][1] for _, rows in state) == 100
                        seen.append(state[0][1][0][1])
                    time.sleep(0.02)
            os.killpg(process.pid, end) if end is signal.SIGKILL else process.send_signal(end)
            process.wait(60)
    assert process.returncode == 0
    feed.checkpoint(ts + 5)
    assert Replica(feed, fresh_mariadb.url()).once(consistency="snapshot").exit_code == 0
    assert sum(both(fresh_mariadb)) == 100
