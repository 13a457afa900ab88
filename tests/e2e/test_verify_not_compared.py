"""What `verify` has not looked at is named, and never ends with exit code 0."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pytest

from consumer import app
from consumer.app import parts
from consumer.codec.csv.options import CsvFormat
from consumer.errors import CannotBeExact, TableMissing
from consumer.model.check import Repairing, VerifyResult
from tests.support.crashes import Crash, CrashingLoader, CrashingSink, Fuse
from tests.support.inline_loader import InlineLoader
from tests.support.lettered import FORMS, KEYLESS, TABLE, Storage
from tests.support.observers import Recorder


@pytest.fixture
def storage(tmp_path: Path) -> Storage:
    storage = Storage(tmp_path)
    storage.file(storage.line((10, "1", "1", "a")), storage.line((11, "2", "1", "a")))
    storage.feed.create("d.other", 3)
    return storage


def verified(storage: Storage, target: str) -> VerifyResult:
    return app.verify(storage.settings(target), Recorder(), loader=InlineLoader())


def test_a_table_whose_resync_was_ended(storage: Storage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whenever it was ended: its rows are there, or the table is named."""
    target = f"duckdb:///{tmp_path}/replica.duckdb"
    storage.once(target, 20)
    real, moment, named = parts.sink_of, 0, set[str]()
    while True:
        fuse = Fuse(moment)
        with monkeypatch.context() as patch:
            patch.setattr(parts, "sink_of", lambda *given, fuse=fuse: CrashingSink(real(*given), fuse))
            try:
                app.resync(storage.settings(target), Recorder(), TABLE, CrashingLoader(fuse))
                break
            except Crash:
                moment += 1
        result = verified(storage, target)
        (check,) = [check for check in result.tables if check.table == TABLE]
        if isinstance(check.error, TableMissing):
            named.add(check.error.message)
        error = result.verdict(strict=False)
        assert (check.state == "equal") == (error is None)
        assert error is None or error.exit_code == 3
        assert storage.once(target, 20).exit_code == 0
    (why,) = named
    assert "all of its rows were loaded beside it, and are to take its place" in why


def test_a_table_that_the_storage_cannot_prove(tmp_path: Path) -> None:
    """It has no key, and a file of it is gone."""
    storage, target = Storage(tmp_path, columns=KEYLESS), f"duckdb:///{tmp_path}/replica.duckdb"
    first = storage.file(storage.line((10, "1", "1", "a")))
    storage.file(storage.line((11, "2", "1", "a")))
    storage.once(target, 20)
    (storage.feed.folder / first).unlink()
    error = verified(storage, target).verdict(strict=False)
    assert isinstance(error, CannotBeExact)
    assert error.exit_code == 3


@pytest.mark.parametrize("form", ["csv", "canal-json"])
def test_a_file_that_is_another_than_was_read_where_only_files_tell_how_far_the_target_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: str
) -> None:
    """The next run reads it again. Until then nothing of the table is wrong."""
    monkeypatch.setitem(FORMS, "csv", CsvFormat(include_commit_ts=False))
    storage, target = Storage(tmp_path, form), f"duckdb:///{tmp_path}/replica.duckdb"
    path = storage.feed.folder / storage.file(storage.line((10, "1", "1", "a")))
    flags = {} if form == "csv" else {"checkpoint_ts": "max"}

    def once(checkpoint: int) -> int:
        if not flags:
            storage.feed.checkpoint(checkpoint)
        return app.once(storage.settings(target, **flags), Recorder(), InlineLoader()).exit_code

    def repaired() -> VerifyResult:
        settings = storage.settings(target, **flags)
        return app.verify(settings, Recorder(), loader=InlineLoader(), repairing=Repairing(write=True))

    assert once(20) == 0
    path.write_bytes(path.read_bytes() + storage.line((11, "2", "1", "a")) + b"\r\n")
    (check,) = repaired().tables
    assert isinstance(check.error, CannotBeExact)
    assert "run `once` first" in check.error.hint
    with duckdb.connect(str(tmp_path / "replica.duckdb"), read_only=True) as connection:
        assert connection.execute("SELECT id FROM d.t").fetchall() == [(1,)]
    assert once(30) == 0
    (check,) = repaired().tables
    # Rows without a time do not tell which of them the file had before.
    state = ("equal in part", 0) if form == "csv" else ("equal", 2)
    assert (check.state, check.counted.expected, check.repaired) == (*state, None)


def test_a_file_from_before_a_truncate_that_is_another_now(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No row of it counts any more, whatever it is."""
    monkeypatch.setitem(FORMS, "csv", CsvFormat(include_commit_ts=False))
    storage, target = Storage(tmp_path, "csv"), f"duckdb:///{tmp_path}/replica.duckdb"
    path = storage.feed.folder / storage.file(storage.line((10, "1", "1", "a")))
    storage.once(target, 15)
    storage.feed.truncate("d.t", 20, storage.columns)
    storage.file(storage.line((21, "3", "3", "a")), version=20)
    storage.once(target, 30)
    path.write_bytes(path.read_bytes() + storage.line((11, "2", "1", "a")) + b"\r\n")
    for _ in range(2):
        (check,) = verified(storage, target).tables
        assert (check.error, check.state, check.counted.expected) == (None, "equal", 1)
        storage.once(target, 40)
