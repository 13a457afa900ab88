"""`?copy=FILE`: readers of a DuckDB replica can always open the copy, and see all tables at one moment."""

from __future__ import annotations

import errno
import json
import os
import random
import stat
import subprocess
import sys
from pathlib import Path
from typing import BinaryIO

import duckdb
import pytest

from consumer import app
from consumer.config.load import load
from consumer.config.settings import Settings
from consumer.errors import BadConfig, ConsumerError, LeaseHeld, TargetUnavailable
from consumer.model.names import TableName
from consumer.results import RunResult
from tests.support.feed import Feed
from tests.support.inline_loader import InlineLoader
from tests.support.observers import Recorder

READS_SUMS = """
import duckdb, json, os, sys
seen = []
while not os.path.exists(sys.argv[2]):
    if os.path.exists(sys.argv[1]):
        with duckdb.connect(sys.argv[1], read_only=True) as connection:
            rows = connection.execute('SELECT id, CAST(v AS INT) FROM d.a UNION ALL SELECT id, CAST(v AS INT) FROM d.b')
            found = [row[1] for row in rows.fetchall()]
        if not seen or seen[-1] != found:
            seen.append(found)
print(json.dumps(seen))
"""


class Bank:
    """Two tables; each transaction moves money from a row of one to a row of the other."""

    def __init__(self, folder: Path) -> None:
        self.feed, self.file, self.copy = Feed(folder / "storage"), folder / "work.duckdb", folder / "copy.duckdb"
        self.copied = True
        self.flags: dict[str, str] = {}
        self._ts = 20
        self.feed.database("d", 5)
        for table in ("d.a", "d.b"):
            self.feed.create(table, 10)
            self.put(table, 50)

    def put(self, table: str, money: int) -> None:
        self._ts += 1
        self.feed.puts(table, 10, {self._ts: (1, str(money))})

    def move(self, money: int) -> None:
        self._ts += 1
        for table, now in (("d.a", 50 - money), ("d.b", 50 + money)):
            self.feed.puts(table, 10, {self._ts: (1, str(now))})

    def once(self) -> RunResult:
        self._ts += 1
        self.feed.checkpoint(self._ts)
        return self.without_checkpoint()

    def now(self) -> int:
        self._ts += 1
        return self._ts

    def without_checkpoint(self) -> RunResult:
        return app.once(self.settings(), Recorder(), InlineLoader())

    def settings(self) -> Settings:
        uris = {
            "upstream_uri": f"file://{self.feed.folder}?protocol=canal-json",
            "downstream_uri": f"duckdb:///{self.file}" + (f"?copy={self.copy}" if self.copied else ""),
        }
        return load({**uris, **self.flags}, {}).settings

    def shown(self) -> list[tuple[int, ...]]:
        with duckdb.connect(str(self.copy), read_only=True) as connection:
            return connection.execute("SELECT CAST(a.v AS INT), CAST(b.v AS INT) FROM d.a a, d.b b").fetchall()


@pytest.fixture
def bank(tmp_path: Path) -> Bank:
    return Bank(tmp_path)


def test_readers_see_all_tables_at_one_moment(bank: Bank, tmp_path: Path) -> None:
    ended = tmp_path / "ended"
    words = [sys.executable, "-c", READS_SUMS, str(bank.copy), str(ended)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as reader:
        for money in random.Random(1).sample(range(1, 50), 12):
            bank.move(money)
            assert bank.once().exit_code == 0
        ended.touch()
        seen, _ = reader.communicate(timeout=60)
    assert reader.returncode == 0
    states = json.loads(seen)
    assert len(states) > 2
    assert {(len(state), sum(state)) for state in states} == {(2, 100)}
    with duckdb.connect(str(bank.copy), read_only=True) as connection:
        places = connection.execute('SELECT "table", applied_ts FROM storage_consumer.replica ORDER BY ALL').fetchall()
    assert [name for name, _ in places] == ["d.a", "d.b"]
    assert len({applied_ts for _, applied_ts in places}) == 1


def test_a_copy_stays_while_a_table_is_stopped_or_has_a_loss(bank: Bank, caplog: pytest.LogCaptureFixture) -> None:
    bank.once()
    bank.move(7)
    damaged = bank.feed.file("d.b", 10, b"{no json\n")
    assert bank.once().exit_code == 3
    assert bank.shown() == [(50, 50)]
    assert "d.b is not (stopped)" in caplog.text
    damaged.unlink()
    bank.flags["accept_gap_in"] = "*.*"
    assert bank.once().exit_code == 0
    assert bank.shown() == [(50, 50)]
    assert "d.b has 1 accepted loss" in caplog.text
    del bank.flags["accept_gap_in"]
    assert app.resync(bank.settings(), Recorder(), TableName("d", "b"), InlineLoader()).exit_code == 0
    assert bank.once().exit_code == 0
    assert bank.shown() == [(43, 57)]


def test_a_copy_stays_while_a_quarantined_row_is_missing(bank: Bank, caplog: pytest.LogCaptureFixture) -> None:
    bank.once()
    bank.flags |= {"on_bad_row": "quarantine", "dead_letters": f"file://{bank.file.parent / 'letters'}"}
    (bank.file.parent / "letters").mkdir()
    bank.move(7)
    mended = bank.feed.puts("d.a", 10, {bank.now(): (2, "x")})
    bank.put("d.b", 58)
    for _ in range(2):
        assert bank.once().exit_code == 3
        assert bank.shown() == [(50, 50)]
    assert "d.a lacks 1 quarantined row" in caplog.text
    mended.write_bytes(mended.read_bytes().replace(b'"x"', b'"8"'))
    assert app.retry(bank.settings(), Recorder(), lambda _: True, InlineLoader()).tables[0].quarantined == 0
    assert bank.once().exit_code == 0
    with duckdb.connect(str(bank.copy), read_only=True) as connection:
        assert connection.execute("SELECT CAST(id AS INT), CAST(v AS INT) FROM d.a ORDER BY 1").fetchall() == [
            (1, 43),
            (2, 8),
        ]
        assert connection.execute("SELECT CAST(v AS INT) FROM d.b").fetchall() == [(58,)]


@pytest.mark.parametrize("at", ["copyfileobj", "replace"])
def test_what_was_not_copied_is_copied_by_the_next_run(bank: Bank, monkeypatch: pytest.MonkeyPatch, at: str) -> None:
    bank.once()
    bank.move(9)

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("fcntl.ioctl", _cannot)
        patch.setattr("shutil.copyfileobj" if at == "copyfileobj" else "os.replace", killed)
        bank.once()
    assert bank.shown() == [(50, 50)]
    assert bank.once().exit_code == 0
    assert bank.shown() == [(41, 59)]
    assert sorted(path.name for path in bank.copy.parent.rglob("copy*/**/*")) == ["lock"]


def _cannot(*_: object) -> None:
    raise OSError("this file system shares no blocks")


def test_where_nothing_changed_nothing_is_copied(bank: Bank) -> None:
    bank.once()
    before = os.stat(bank.copy).st_ino
    assert bank.once().exit_code == 0
    assert os.stat(bank.copy).st_ino == before
    bank.put("d.a", 51)
    bank.once()
    assert os.stat(bank.copy).st_ino != before


def test_what_readers_wrote_to_the_copy_is_gone(bank: Bank) -> None:
    bank.once()
    writes = "import duckdb, os, sys; c = duckdb.connect(sys.argv[1]); c.execute('DELETE FROM d.a'); os._exit(0)"
    subprocess.run([sys.executable, "-c", writes, str(bank.copy)], check=True)
    assert Path(f"{bank.copy}.wal").exists()
    bank.move(1)
    bank.once()
    assert bank.shown() == [(49, 51)]


@pytest.mark.parametrize("content", [b"", b"a,b\n1,2\n", None])
def test_another_file_is_not_replaced(bank: Bank, content: bytes | None) -> None:
    if content is None:
        with duckdb.connect(str(bank.copy)) as connection:
            connection.execute("CREATE TABLE mine AS SELECT 1 AS n")
    else:
        bank.copy.write_bytes(content)
    before = bank.copy.read_bytes()
    with pytest.raises(BadConfig, match="is no copy of this program"):
        bank.once()
    assert bank.copy.read_bytes() == before
    assert not bank.file.exists()
    bank.copy.rename(bank.copy.parent / "mine.duckdb")
    assert bank.once().exit_code == 0
    assert bank.shown() == [(50, 50)]


@pytest.mark.parametrize(
    ("copy", "words"),
    [
        ("{folder}/work.duckdb", "must be another file"),
        ("{folder}/work.duckdb.wal", "must be another file"),
        ("{folder}/work", "must be another file"),
        ("{folder}/none/copy.duckdb", "does not exist"),
        ("", "must be a file"),
        ("{folder}/information_schema.duckdb", "cannot be named"),
    ],
)
def test_copies_that_are_refused(bank: Bank, copy: str, words: str) -> None:
    if copy.endswith("work"):
        bank.file = bank.file.with_name("work.wal")
    bank.copy = Path(copy.format(folder=bank.copy.parent)) if copy else ""  # type: ignore[assignment]
    with pytest.raises(ConsumerError, match=words) as refused:
        bank.once()
    assert isinstance(refused.value, BadConfig)
    assert not bank.file.exists()


def test_one_consumer_at_a_time_makes_it(bank: Bank) -> None:
    bank.once()
    holds = (
        "import sys; from consumer.sink.columnar.lock import FileLock; "
        "FileLock(sys.argv[1], 'copy').take(); print('held', flush=True); sys.stdin.read()"
    )
    words = [sys.executable, "-c", holds, f"{bank.copy}.making"]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"held\n"
        bank.move(5)
        bank.flags["max_wait"] = "0"
        with pytest.raises(LeaseHeld, match="another consumer is running on this copy"):
            bank.once()
        assert bank.shown() == [(50, 50)]
    assert bank.once().exit_code == 0
    assert bank.shown() == [(45, 55)]


def test_the_copy_of_another_replica_is_not_replaced(bank: Bank, tmp_path: Path) -> None:
    (tmp_path / "second").mkdir()
    second = Bank(tmp_path / "second")
    second.copy = bank.copy
    bank.once()
    second.move(30)
    with pytest.raises(BadConfig, match="is one of another replica: of consumer 'default' of file:"):
        second.once()
    assert not second.file.exists()
    assert bank.shown() == [(50, 50)]
    bank.copy.rename(tmp_path / "of_bank.duckdb")
    assert second.once().exit_code == 0
    assert second.shown() == [(20, 80)]


def test_a_link_to_the_copy_stays_one(bank: Bank, tmp_path: Path) -> None:
    link = tmp_path / "link.duckdb"
    link.symlink_to(bank.copy)
    there, bank.copy = bank.copy, link
    for money in (11, 12):
        bank.move(money)
        assert bank.once().exit_code == 0
        assert link.is_symlink()
        assert not there.is_symlink()
        assert bank.shown() == [(50 - money, 50 + money)]


def test_a_full_disk_is_left_without_the_half_copy(bank: Bank, monkeypatch: pytest.MonkeyPatch) -> None:
    bank.once()
    bank.move(3)

    def full(_: object, copy: BinaryIO, __: int) -> None:
        copy.write(b"some of it")
        copy.flush()
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr("fcntl.ioctl", _cannot)
        patch.setattr("shutil.copyfileobj", full)
        with pytest.raises(TargetUnavailable, match="cannot be written: No space left") as refused:
            bank.once()
    assert "make room on its disk, then run again" in refused.value.hint
    assert os.listdir(f"{bank.copy}.making") == ["lock"]
    assert bank.shown() == [(50, 50)]
    Path(f"{bank.copy}.making", "part").write_bytes(b"of one that was killed")
    assert bank.once().exit_code == 0
    assert bank.shown() == [(47, 53)]
    assert os.listdir(f"{bank.copy}.making") == ["lock"]


def test_who_may_read_it_stays(bank: Bank) -> None:
    bank.once()
    bank.copy.chmod(0o640)
    bank.move(2)
    bank.once()
    assert stat.S_IMODE(bank.copy.stat().st_mode) == 0o640


def test_without_a_checkpoint_there_is_no_one_moment(bank: Bank, caplog: pytest.LogCaptureFixture) -> None:
    bank.once()
    (bank.feed.folder / "metadata").unlink()
    bank.move(4)
    bank.flags["checkpoint_ts"] = "max"
    with pytest.raises(BadConfig, match="cannot have all tables at one moment: without `metadata`"):
        bank.without_checkpoint()
    assert bank.shown() == [(50, 50)]
    bank.copied = False
    bank.put("d.a", 45)
    assert bank.without_checkpoint().exit_code == 0
    bank.copied = True
    del bank.flags["checkpoint_ts"]
    bank.feed.checkpoint(24)  # before what was read
    assert bank.without_checkpoint().exit_code == 0
    assert bank.shown() == [(50, 50)]
    assert "d/a is further or behind" in caplog.text
    assert bank.once().exit_code == 0
    assert bank.shown() == [(45, 54)]


def test_rows_of_the_checkpoints_own_millisecond_can_be_some_of_a_transaction(bank: Bank) -> None:
    """Without commit-ts they are read as far as they are there."""
    bank.once()
    ms = 1000 << 18

    def moved(table: str, money: int) -> None:
        line = bank.feed._line(table, 0, 1, str(money)).replace(b'"es": 0', b'"es": 1000')
        bank.feed.file(table, 10, line.replace(b', "_tidb": {"commitTs": 0}', b""))

    moved("d.a", 40)
    bank.feed.checkpoint(ms + 5)
    assert bank.without_checkpoint().exit_code == 0
    assert bank.shown() == [(50, 50)]
    moved("d.b", 60)
    bank.feed.checkpoint(ms + 7)
    bank.without_checkpoint()
    bank.feed.checkpoint((1001 << 18) + 7)
    assert bank.without_checkpoint().exit_code == 0
    assert bank.shown() == [(40, 60)]


def test_csv_without_commit_ts_has_no_one_moment(tmp_path: Path) -> None:
    feed = Feed(tmp_path / "storage")
    feed.database("d", 1)
    feed.create("d.a", 2)
    feed.file("d.a", 2, b'"I","a","d",1,5\r\n', extension="csv")
    feed.checkpoint(20)
    uris = {
        "upstream_uri": f"file://{feed.folder}?protocol=csv",
        "downstream_uri": f"duckdb:///{tmp_path}/w.duckdb?copy={tmp_path}/c.duckdb",
    }
    with pytest.raises(BadConfig, match=r"rows of d.a do not say when they were committed") as refused:
        app.once(load(uris, {}).settings, Recorder(), InlineLoader())
    assert "set include-commit-ts=true in the changefeed's [sink.csv]" in refused.value.hint
