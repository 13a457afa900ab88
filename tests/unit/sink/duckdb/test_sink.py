"""The file and what lies beside it: who can open it, and when."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from consumer.errors import BadConfig, LeaseHeld, ProgressMoved, TargetUnavailable
from consumer.model.actions import Action
from consumer.model.columns import Column
from consumer.model.load import Dialect, LoadOutcome, LoadTask
from consumer.model.names import TableName
from consumer.model.progress import Progress, ProgressChange, State, TableProgress
from consumer.model.steps import Window
from consumer.model.times import MAX_TSO
from consumer.sink import sink_for
from consumer.sink.columnar.table import ReplicaTable
from consumer.sink.duckdb import connection
from consumer.sink.duckdb.settings import DuckDbSettings
from consumer.sink.duckdb.sink import DuckDbSink
from consumer.sink.duckdb.tables import replica_tables
from consumer.target import TargetOptions
from tests.unit.sink.duckdb.replica import ID, TABLE, Replica, V

HOLD = "import duckdb, sys; c = duckdb.connect(sys.argv[1]); print('open', flush=True); sys.stdin.read()"


def staged(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.rglob("*.parquet"))


def test_looking_at_progress_makes_no_file(tmp_path: Path) -> None:
    sink = sink_for(f"duckdb:///{tmp_path}/none.duckdb", TargetOptions("c"))
    assert sink.progress() == Progress()
    assert os.listdir(tmp_path) == []


def test_the_file_can_be_read_between_rounds(replica: Replica) -> None:
    replica.put((ID,), [("1",)])
    replica.sink.record(ProgressChange(applied_ts=5))
    replica.sink.rest()
    read = "import duckdb, sys; print(duckdb.connect(sys.argv[1]).execute('SELECT * FROM db.t').fetchall())"
    found = subprocess.run([sys.executable, "-c", read, str(replica.path)], capture_output=True, text=True, check=True)
    assert found.stdout == "[(1,)]\n"
    with pytest.raises(LeaseHeld, match=rf"pid {os.getpid()}"):
        DuckDbSink(DuckDbSettings(str(replica.path), "other")).acquire("file:///elsewhere")


def test_the_file_is_opened_anew_after_many_tables(replica: Replica, monkeypatch: pytest.MonkeyPatch) -> None:
    """DuckDB gives back what it keeps of tables that got rows only when the file is closed."""
    monkeypatch.setattr(connection, "_WRITTEN_TABLES", 2)
    opened, real = [], duckdb.connect
    monkeypatch.setattr(duckdb, "connect", lambda *given, **named: opened.append(given) or real(*given, **named))
    for number in range(1, 7):
        replica.put((ID,), [(str(number),)])
    assert len(opened) == 2
    assert len(replica.rows()) == 6


def test_a_file_that_is_kept_still_is_opened_once(filled: Replica, monkeypatch: pytest.MonkeyPatch) -> None:
    filled.sink.close()
    opened, real = [], duckdb.connect
    monkeypatch.setattr(duckdb, "connect", lambda *given, **named: opened.append(given) or real(*given, **named))
    looking = DuckDbSink(DuckDbSettings(str(filled.path), "c"))
    with looking.still():
        assert [looking.tables_in("db") for _ in range(3)] == [[TABLE]] * 3
        assert len(opened) == 1
    assert list(looking.tables_in("db")) == [TABLE]
    assert len(opened) == 2
    with duckdb.connect(str(filled.path)) as writer:  # nobody else has it open
        assert writer.execute("INSERT INTO db.t VALUES (3, 30)").fetchall() == [(1,)]


def test_tables_of_an_open_file_are_described_a_few_times(replica: Replica, monkeypatch: pytest.MonkeyPatch) -> None:
    times = []

    def counted(*args: Any) -> dict[TableName, ReplicaTable]:
        times.append(1)
        return replica_tables(*args)

    monkeypatch.setattr("consumer.sink.duckdb.tables.replica_tables", counted)
    monkeypatch.setattr("consumer.sink.duckdb.sink.replica_tables", counted)
    for number in range(50):
        name, more = TableName("db", f"t{number}"), (ID, V, Column("w", "INT"))
        replica.put((ID, V), [("1", "10")], name)
        replica.apply(Action.ADD_COLUMN, f"ALTER TABLE `t{number}` ADD COLUMN w INT", more, table=name)
        replica.put(more, [("2", "20", "30")], name)
    assert len(times) < 10
    replica.close_file()
    assert len(replica.query("SELECT * FROM db.t49")) == 2


def test_a_file_that_is_open_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "OPEN_SECONDS", 0.1)
    path = str(tmp_path / "r.duckdb")
    with subprocess.Popen([sys.executable, "-c", HOLD, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"open\n"
        sink = DuckDbSink(DuckDbSettings(path, "c"))
        with pytest.raises(TargetUnavailable, match="open in another process"):
            sink.acquire("file:///upstream")
        with pytest.raises(TargetUnavailable, match="open in another process"):
            sink.progress()
    assert sink.acquire("file:///upstream").applied_ts == 0
    sink.close()


def test_a_file_of_another_kind(tmp_path: Path) -> None:
    path = tmp_path / "r.duckdb"
    path.write_bytes(b"not a database" * 1000)
    with pytest.raises(BadConfig, match="not a DuckDB file"):
        DuckDbSink(DuckDbSettings(str(path), "c")).acquire("file:///upstream")


def test_published_files_are_removed(replica: Replica) -> None:
    replica.put((ID,), [("1",)])
    assert staged(replica.path.parent) == []


def test_what_was_not_published_is_removed(replica: Replica) -> None:
    def stage() -> None:
        with replica.sink.writer().session() as session:
            session.write(replica.target((ID,)), pa.table({"put": [True], "c0": ["2"]}))
        assert len(staged(replica.path.parent)) == 1

    stage()
    replica.sink.fence()
    assert staged(replica.path.parent) == []
    stage()
    replica.sink.close()
    assert staged(replica.path.parent) == []
    killed = Path(f"{replica.path}.staging") / "0"
    killed.mkdir()
    (killed / "x.parquet").write_bytes(b"")
    replica.sink.acquire("file:///upstream")
    assert not killed.exists()
    assert replica.rows() == []


def test_a_staged_file_that_is_lost(replica: Replica) -> None:
    target = replica.target((ID,))
    with replica.sink.writer().session() as session:
        receipt = session.write(target, pa.table({"put": [True], "c0": ["2"]}))
    os.unlink(receipt.staged)
    task = LoadTask(0, target, Window(1, 2), (), Dialect())
    with pytest.raises(TargetUnavailable):
        replica.sink.commit([LoadOutcome(task, (), (receipt,))], ProgressChange(applied_ts=9))
    assert replica.sink.progress().applied_ts == 0


def test_rows_without_a_key_and_without_a_checkpoint(replica: Replica) -> None:
    """``--checkpoint-ts max``: the table's place does not move, so every commit counts."""
    target = replica.target((Column("a", "INT"),))
    window = Window(0, MAX_TSO)
    for _ in range(2):
        with replica.sink.writer().session() as session:
            receipt = session.write_multiset(target, pa.table({"n": pa.array([1], pa.int64()), "c0": ["7"]}), window)
        task = LoadTask(0, target, window, (), Dialect())
        replica.sink.commit([LoadOutcome(task, (), (receipt,))], ProgressChange())
    assert replica.rows() == [(7,), (7,)]


def test_rows_without_a_key_from_the_middle_of_a_window(replica: Replica) -> None:
    target = replica.target((Column("a", "INT"),))
    replica.sink.record(ProgressChange(tables={TABLE: TableProgress(15)}))
    with replica.sink.writer().session() as session:
        receipt = session.write_multiset(
            target, pa.table({"n": pa.array([1], pa.int64()), "c0": ["7"]}), Window(10, 20)
        )
    with pytest.raises(ProgressMoved):
        replica.sink.commit(
            [LoadOutcome(LoadTask(0, target, Window(10, 20), (), Dialect()), (), (receipt,))], ProgressChange()
        )
    assert replica.rows() == []


def test_the_public_view(replica: Replica) -> None:
    replica.put((ID,), [("1",)])
    replica.sink.record(ProgressChange(applied_ts=470611625733521409))
    look = 'SELECT consumer, "table", applied_ts, CAST(applied_time AS VARCHAR), state FROM storage_consumer.replica'
    assert replica.query(look) == [("c", "db.t", 470611625733521409, "2026-11-21 06:01:21.857", "ok")]
    replica.sink.record(ProgressChange(tables={TABLE: TableProgress(1 << 18, State.STOPPED, "why")}, rewind=True))
    assert replica.query(look) == [("c", "db.t", 1 << 18, "1970-01-01 00:00:00.001", "stopped")]
    replica.sink.record(ProgressChange(tables={TABLE: TableProgress(1 << 18, State.DROPPED)}))
    replica.sink.record(ProgressChange(tables={TABLE: None}))
    assert replica.query(look) == []


@pytest.mark.parametrize(
    ("uri", "path"),
    [
        ("duckdb:///r.duckdb", "{cwd}/r.duckdb"),
        ("duckdb:///sub/r.duckdb", "{cwd}/sub/r.duckdb"),
        ("duckdb:////{cwd}/a%20b.duckdb", "{cwd}/a b.duckdb"),
    ],
)
def test_uris(uri: str, path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "sub").mkdir()
    settings = DuckDbSettings.from_uri(uri.format(cwd=str(tmp_path).lstrip("/")), name="c")
    assert (settings.path, settings.copy) == (path.format(cwd=tmp_path), "")
    copied = DuckDbSettings.from_uri(f"{uri.format(cwd=str(tmp_path).lstrip('/'))}?copy=sub/a%20b%25.duckdb", name="c")
    assert (copied.path, copied.copy) == (settings.path, f"{tmp_path}/sub/a b%.duckdb")


@pytest.mark.parametrize(
    "uri",
    [
        "duckdb://host/r.duckdb",
        "duckdb:///",
        "duckdb:///:memory:",
        "duckdb:///r.duckdb?threads=1",
        "duckdb:///r.duckdb?copy",
        "duckdb:///r.duckdb?copy=c.duckdb&threads=1",
        "duckdb:///r.duckdb?storage-version=1.2",
        "duckdb:///folder/",
        "duckdb:///r%3F.duckdb",
        "duckdb:////no/such/folder/r.duckdb",
        "oracle://host/",
    ],
)
def test_uris_that_are_refused(uri: str) -> None:
    with pytest.raises(BadConfig):
        sink_for(uri, TargetOptions("c"))


@pytest.mark.parametrize(("option", "version"), [("", "v1.2.0+"), ("?storage-version=v1.4.0", "v1.4.0+")])
def test_a_new_file_is_written_for_a_release_and_keeps_to_it(option: str, version: str, tmp_path: Path) -> None:
    for given in (option, "?storage-version=v1.3.0"):
        sink = sink_for(f"duckdb:///{tmp_path}/r.duckdb{given}", TargetOptions("c"))
        sink.acquire("file:///cdc")
        sink.record(ProgressChange(applied_ts=1))
        sink.close()
        with duckdb.connect(tmp_path / "r.duckdb") as connection:
            ((tags,),) = connection.execute("SELECT tags FROM duckdb_databases() WHERE NOT internal").fetchall()
        assert tags["storage_version"] == version


def test_a_storage_version_that_this_release_of_duckdb_does_not_know(tmp_path: Path) -> None:
    sink = sink_for(f"duckdb:///{tmp_path}/r.duckdb?storage-version=v99.0.0", TargetOptions("c"))
    with pytest.raises(BadConfig, match=r"does not write the storage version v99\.0\.0"):
        sink.acquire("file:///cdc")
    assert not (tmp_path / "r.duckdb").exists()


def test_an_absolute_path_with_too_few_slashes_is_explained(tmp_path: Path) -> None:
    with pytest.raises(BadConfig) as caught:
        sink_for(f"duckdb://{tmp_path}/r.duckdb", TargetOptions("c"))
    assert f"duckdb:///{tmp_path}/r.duckdb" in caught.value.hint


@pytest.mark.parametrize("zone", ["Mars/Base", "+8", "25:00"])
def test_time_zones_that_are_refused(zone: str) -> None:
    with pytest.raises(BadConfig, match="time zone"):
        DuckDbSettings("/r.duckdb", "c", zone)


def test_unknown_schemes_are_told_what_there_is() -> None:
    with pytest.raises(BadConfig, match=r"mysql://.*duckdb://"):
        sink_for("oracle://host/", TargetOptions("c"))


def test_a_round_with_nothing_new_needs_no_arrow() -> None:
    """Arrow takes longer to import than such a round takes."""
    code = "import consumer.sink.duckdb.sink, sys; sys.exit('pyarrow' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
