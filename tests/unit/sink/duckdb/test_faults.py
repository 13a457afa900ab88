"""What the file system, or another process, does to the file and to what is staged beside it."""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest

from consumer.errors import BadConfig, ConsumerError, StagedRowsGone, TargetUnavailable
from consumer.model.actions import Action
from consumer.model.columns import Column
from consumer.model.load import Dialect, LoadOutcome, LoadTask
from consumer.model.names import TableName
from consumer.model.progress import ProgressChange
from consumer.model.steps import Window
from consumer.sink.duckdb.settings import DuckDbSettings
from consumer.sink.duckdb.sink import DuckDbSink
from tests.unit.sink.duckdb.replica import ID, TABLE, Replica
from tests.unit.sink.duckdb.test_names import V, write_net

HOLD = "import duckdb, sys, time; c = duckdb.connect(sys.argv[1], read_only=True); print(1, flush=True); time.sleep(1)"


def test_a_reader_is_waited_for(replica: Replica) -> None:
    replica.sink.close()
    with subprocess.Popen([sys.executable, "-c", HOLD, str(replica.path)], stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        other.stdout.readline()
        replica.sink.acquire("file:///upstream")
    replica.put((ID,), [("1",)])
    assert replica.rows() == [(1,)]


def _outcome(replica: Replica) -> LoadOutcome:
    target = replica.target((ID,))
    with replica.sink.writer().session() as session:
        receipt = session.write(target, pa.table({"put": [True], "c0": ["2"]}))
    return LoadOutcome(LoadTask(0, target, Window(1, 2), (), Dialect()), (), (receipt,))


def test_a_staged_file_that_is_damaged_is_staged_again(replica: Replica) -> None:
    outcome = _outcome(replica)
    path = Path(outcome.receipts[0].staged)
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(StagedRowsGone, match="gone or damaged") as caught:
        replica.sink.commit([outcome], ProgressChange())
    assert "run again" in caught.value.hint
    replica.sink.fence()
    replica.sink.commit([_outcome(replica)], ProgressChange())
    assert replica.rows() == [(2,)]


def test_what_is_published_counts_though_its_file_cannot_be_removed(
    replica: Replica, monkeypatch: pytest.MonkeyPatch
) -> None:
    outcome = _outcome(replica)

    def gone(path: str) -> None:
        monkeypatch.undo()
        shutil.rmtree(f"{replica.path}.staging")
        os.unlink(path)

    monkeypatch.setattr(os, "unlink", gone)
    replica.sink.commit([outcome], ProgressChange(applied_ts=9))
    assert replica.rows() == [(2,)]
    assert replica.sink.progress().applied_ts == 9


@pytest.mark.parametrize(
    ("function", "number", "kind"),
    [
        ("flock", errno.ENOLCK, BadConfig),
        ("flock", errno.EOPNOTSUPP, BadConfig),
        ("pwrite", errno.ENOSPC, TargetUnavailable),
    ],
)
def test_a_file_system_without_locks_or_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, function: str, number: int, kind: type[ConsumerError]
) -> None:
    def refused(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(fcntl if function == "flock" else os, function, refused)
    with pytest.raises(kind, match=os.strerror(number)) as caught:
        DuckDbSink(DuckDbSettings(str(tmp_path / "r.duckdb"), "c")).acquire("file:///upstream")
    assert caught.value.hint


@pytest.mark.parametrize("name", ["storage_consumer.duckdb", "Information_Schema.db"])
def test_a_file_that_duckdb_takes_for_a_schema_in_it(tmp_path: Path, name: str) -> None:
    with pytest.raises(BadConfig, match="cannot be named"):
        DuckDbSettings.from_uri(f"duckdb:///{tmp_path}/{name}", name="c")


@pytest.mark.parametrize("database", ["temp", "main", "system", "memory", "replica"])
def test_an_upstream_database_of_a_name_that_duckdb_has_too(replica: Replica, database: str) -> None:
    other = TableName(database, "t")
    replica.apply(Action.CREATE_SCHEMA, f"CREATE DATABASE `{database}`", table=TableName(database, ""))
    replica.put((ID, V), [("1", "1")], other)
    assert replica.query(f'SELECT * FROM replica."{database}".t') == [(1, 1)]
    columns = (Column("a", "INT"), V)
    write_net(replica, columns, (2, "1", "1"), (1, "2", "2"))
    write_net(replica, columns, (-1, "1", "1"))
    assert replica.query(f"SELECT * FROM replica.{TABLE} ORDER BY ALL") == [(1, 1), (2, 2)]
    replica.put((ID, Column("w", "INT")), [("1", "1")], TableName("db", "kept"))
    replica.query('ALTER TABLE replica."db".kept ADD COLUMN mine INT DEFAULT 7')
    replica.put((ID, Column("w", "INT")), [("1", "2")], TableName("db", "kept"))
    assert replica.query('SELECT * FROM replica."db".kept') == [(1, 2, 7)]


def test_a_log_of_another_state_of_the_file_does_not_pass_by_itself(replica: Replica, tmp_path: Path) -> None:
    """An older copy is put in place of the file, beside the log that a killed run has left."""
    replica.put((ID,), [("1",)])
    replica.sink.close()
    older, log = tmp_path / "older", Path(f"{replica.path}.wal")
    shutil.copy(replica.path, older)
    for key in ("2", "3"):
        replica.sink.acquire("file:///upstream")
        replica.put((ID,), [(key,)])
        left = log.read_bytes()
        replica.sink.close()
    shutil.copy(older, replica.path)
    log.write_bytes(left)
    with pytest.raises(BadConfig, match="log beside it") as caught:
        replica.sink.acquire("file:///upstream")
    assert "move the log away" in caught.value.hint
    log.unlink()
    assert replica.rows() == [(1,)]
