"""`?copy=FILE`: readers of a DuckDB replica can always open the copy, and see all tables at one moment."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from pathlib import Path

import duckdb
import pytest

from consumer import app
from consumer.config.load import load
from consumer.errors import BadConfig, ConsumerError
from consumer.model.result import RunResult
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
        uris = {
            "upstream_uri": f"file://{self.feed.folder}?protocol=canal-json",
            "downstream_uri": f"duckdb:///{self.file}?copy={self.copy}",
        }
        return app.once(load({**uris, **self.flags}, {}).settings, Recorder(), InlineLoader())

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


def test_a_copy_stays_while_a_table_is_stopped(bank: Bank, caplog: pytest.LogCaptureFixture) -> None:
    bank.once()
    bank.move(7)
    damaged = bank.feed.file("d.b", 10, b"{no json\n")
    assert bank.once().exit_code == 3
    assert bank.shown() == [(50, 50)]
    assert "d.b is not (stopped)" in caplog.text
    damaged.unlink()
    bank.flags["accept_gap"] = "true"
    assert bank.once().exit_code == 0
    assert bank.shown() == [(43, 57)]


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
    assert sorted(path.name for path in bank.copy.parent.glob("copy*")) == ["copy.duckdb"]


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
    bank.copy.rename(bank.copy.parent / "mine.duckdb")
    assert bank.once().exit_code == 0
    assert bank.shown() == [(50, 50)]


@pytest.mark.parametrize(
    ("copy", "words"),
    [
        ("{folder}/work.duckdb", "must be another file"),
        ("{folder}/none/copy.duckdb", "does not exist"),
        ("", "must be a file"),
        ("{folder}/information_schema.duckdb", "cannot be named"),
    ],
)
def test_copies_that_are_refused(bank: Bank, copy: str, words: str) -> None:
    bank.copy = Path(copy.format(folder=bank.copy.parent)) if copy else ""  # type: ignore[assignment]
    with pytest.raises(ConsumerError, match=words) as refused:
        bank.once()
    assert isinstance(refused.value, BadConfig)
    assert not bank.file.exists()
