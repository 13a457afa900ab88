"""Files that were applied, and that the storage has no more: nobody takes the target's rows for wrong, or makes them
older."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import duckdb
import pytest

from consumer import app
from consumer.codec.csv.options import CsvFormat
from consumer.config.load import load
from consumer.config.settings import Settings
from consumer.errors import GapFound
from consumer.model.actions import Action
from consumer.model.check import Repairing, TableCheck
from consumer.model.times import ms_to_tso
from tests.support import csv_rows
from tests.support.build import ID, VALUE
from tests.support.feed import Feed
from tests.support.inline_loader import InlineLoader
from tests.support.lettered import KEYLESS, TABLE, Storage, recorded
from tests.support.observers import Recorder

Lose = Callable[[Storage, str], None]


@pytest.fixture
def target(tmp_path: Path) -> str:
    return f"duckdb:///{tmp_path}/replica.duckdb"


def rows_of(target: str) -> list[tuple[object, ...]]:
    with duckdb.connect(target.removeprefix("duckdb:///"), read_only=True) as connection:
        return connection.execute("SELECT id, v, s FROM d.t ORDER BY ALL").fetchall()


def verified(storage: Storage, target: str, repair: bool = False) -> TableCheck:
    (check,) = app.verify(
        storage.settings(target), Recorder(), loader=InlineLoader(), repairing=Repairing(write=repair)
    ).tables
    return check


def written_anew(storage: Storage, target: str) -> None:
    """TiCDC begins again behind a stale index file, which names the first file, and nothing names the others."""
    for number, ts in ((2, 20), (3, 30)):
        storage.file(storage.line((ts, str(ts), "1", "anew")), number=number)
        storage.feed.index("d.t", 2, number)
        storage.once(target, ts + 5)


def written_anew_and_not_read(storage: Storage, target: str) -> None:
    storage.file(storage.line((20, "20", "1", "anew")), number=3)


def last_file_gone(storage: Storage, target: str) -> None:
    (storage.feed.folder / "d/t/2/CDC00000000000000000003.json").unlink()


def file_between_gone(storage: Storage, target: str) -> None:
    (storage.feed.folder / "d/t/2/CDC00000000000000000002.json").unlink()


def all_files_gone(storage: Storage, target: str) -> None:
    for number in (1, 2, 3):
        (storage.feed.folder / f"d/t/2/CDC0000000000000000000{number}.json").unlink()


LOSSES = [written_anew, written_anew_and_not_read, last_file_gone, file_between_gone, all_files_gone]


def begun(storage: Storage, target: str) -> bytes:
    """Three files were applied. Of row 1 the newest change is in the last one. The line that is bad."""
    bad = storage.line((11, "9", "9", "bad"))
    storage.file(storage.line((10, "1", "1", "old")), bad[:-9], number=1)
    storage.file(storage.line((12, "2", "1", "a")), number=2)
    storage.file(storage.line((13, "1", "2", "new"), "UPDATE", old=(10, "1", "1", "old")), number=3)
    storage.feed.index("d.t", 2, 1)
    storage.once(target, 15)
    assert rows_of(target) == [(1, 2, "new"), (2, 1, "a")]
    return bad


@pytest.mark.parametrize("lose", LOSSES)
def test_right_rows_stay(tmp_path: Path, target: str, lose: Lose) -> None:
    storage = Storage(tmp_path)
    bad = begun(storage, target)
    lose(storage, target)
    right = rows_of(target)
    check = verified(storage, target)
    assert (check.state, check.counted.differences) == ("equal in part", 0)
    verified(storage, target, repair=True)
    assert rows_of(target) == right
    if lose is not all_files_gone:
        storage.file(storage.line((10, "1", "1", "old")), bad, number=1)
    (found,) = app.retry(storage.settings(target), Recorder(), lambda _: True, InlineLoader()).tables
    assert (found.taken_in, found.quarantined) == (0, 1)
    assert found.error
    assert rows_of(target) == right
    with pytest.raises(GapFound, match="some of its files are gone"):
        app.resync(storage.settings(target), Recorder(), TABLE, InlineLoader())
    assert rows_of(target) == right
    assert recorded(target)


def test_what_is_known_behind_it_is_compared(tmp_path: Path, target: str) -> None:
    storage = Storage(tmp_path)
    begun(storage, target)
    written_anew(storage, target)
    storage.file(storage.line((40, "2", "7", "b"), "UPDATE", old=(12, "2", "1", "a")), number=4)
    storage.once(target, 45)
    with duckdb.connect(target.removeprefix("duckdb:///")) as connection:
        connection.execute("UPDATE d.t SET v = 8 WHERE id IN (1, 2)")
    check = verified(storage, target)
    assert [dict(row.key)["id"] for row in check.counted.shown] == ["2"]
    verified(storage, target, repair=True)
    assert rows_of(target)[:2] == [(1, 8, "new"), (2, 7, "b")]


def test_a_row_whose_newest_change_may_have_been_in_a_file_between_is_left(tmp_path: Path, target: str) -> None:
    storage = Storage(tmp_path)
    storage.file(storage.line((10, "1", "1", "old")))
    storage.file(storage.line((11, "1", "2", "new"), "UPDATE", old=(10, "1", "1", "old")))
    storage.file(storage.line((12, "2", "1", "a")))
    storage.feed.index("d.t", 2, 3)
    storage.once(target, 15)
    file_between_gone(storage, target)
    check = verified(storage, target, repair=True)
    assert check.counted.differing == 1
    assert "may have had a newer change" in check.notes[-1]
    assert rows_of(target) == [(1, 2, "new"), (2, 1, "a")]


def test_a_truncate_ends_the_doubt(tmp_path: Path, target: str) -> None:
    storage = Storage(tmp_path)
    begun(storage, target)
    written_anew(storage, target)
    storage.feed.statement("d.t", 50, Action.TRUNCATE_TABLE, "TRUNCATE TABLE `t`", storage.columns)
    storage.file(storage.line((51, "5", "1", "a")), version=50)
    storage.once(target, 60)
    assert verified(storage, target).state == "equal"


def test_a_file_that_has_the_former_rows_too_is_no_loss(tmp_path: Path, target: str) -> None:
    """v8.5.5 ended between a file and its index file, and wrote it once more, with more rows."""
    storage = Storage(tmp_path)
    lines = [storage.line((10 + n, str(n), "1", "a")) for n in range(2)]
    storage.file(*lines, number=1)
    storage.once(target, 15)
    storage.file(*lines, storage.line((20, "9", "1", "a")), number=1)
    assert verified(storage, target).state == "equal"
    storage.once(target, 25)
    assert verified(storage, target).state == "equal"


def test_a_table_with_no_key_is_not_compared(tmp_path: Path, target: str) -> None:
    storage = Storage(tmp_path, columns=KEYLESS)
    for number in (1, 2):
        storage.file(storage.line((10 + number, "1", "1", "a")), number=number)
    storage.once(target, 15)
    (storage.feed.folder / "d/t/2/CDC00000000000000000002.json").unlink()
    check = verified(storage, target, repair=True)
    assert "are gone, or were written again" in str(check.error)
    assert len(rows_of(target)) == 2


class Daily:
    """d.t, to which a day's row is written in a folder of its date. All was read, and what came last."""

    def __init__(self, folder: Path, target: str, form: str, days: int) -> None:
        self.form, self.target = FORMS_BY_DATE[form], target
        self.feed = Feed(folder / "storage")
        self.feed.database("d", 1)
        self.flags: dict[str, object] = {"file_expiration_days": days, "downstream_uri": target, "tz": "UTC"}
        self.flags |= {"csv_output_old_value": True}
        protocol = "canal-json" if self.form is None else "csv"
        self.flags["upstream_uri"] = f"file://{self.feed.folder}?protocol={protocol}"
        self.columns, self.began = (ID, VALUE), self.at(1, 1)
        self.feed.create("d.t", self.began)

    @staticmethod
    def at(day: int, hour: int = 12) -> int:
        return ms_to_tso(round(datetime(2026, 11, day, hour, tzinfo=UTC).timestamp() * 1000))

    def settings(self) -> Settings:
        return load(self.flags, {}).settings

    def day(self, day: int) -> None:
        values = [str(day), str(day)]
        date = f"2026-11-{day:02}"
        if self.form is None:
            self.feed.puts("d.t", self.began, {self.at(day): (day, str(day))}, date=date)
        else:
            line = csv_rows.record("I", values, self.columns, self.form, self.at(day), owner="d.t")
            self.feed.file("d.t", self.began, line + b"\r\n", date=date, extension="csv")
        self.feed.checkpoint(self.at(day, 18))
        assert app.once(self.settings(), Recorder(), InlineLoader()).exit_code == 0

    def delete(self, *days: int) -> None:
        for day in days:
            shutil.rmtree(self.feed.folder / f"d/t/{self.began}/2026-11-{day:02}")

    def rows(self) -> list[int]:
        with duckdb.connect(self.target.removeprefix("duckdb:///"), read_only=True) as connection:
            return [int(key) for (key,) in connection.execute("SELECT id FROM d.t ORDER BY id").fetchall()]


FORMS_BY_DATE = {"canal-json": None, "csv without commit-ts": CsvFormat(output_old_value=True)}


@pytest.mark.parametrize("form", FORMS_BY_DATE)
@pytest.mark.parametrize(("days", "deleted"), [(0, (1,)), (30, (2, 3))], ids=str)
@pytest.mark.parametrize("later", [False, True], ids=["now", "later"])
def test_folders_that_the_setting_says_are_kept(
    tmp_path: Path, target: str, form: str, days: int, deleted: tuple[int, ...], later: bool
) -> None:
    """A bucket's own rule, or somebody, deletes them once they were read: the rows in the target are right."""
    daily = Daily(tmp_path, target, form, days)
    for day in (1, 2, 3):
        daily.day(day)
    daily.delete(*deleted)
    for day in (5, 6, 7) if later else ():
        daily.day(day)
    right = daily.rows()
    for repair in (False, True):
        repairing = Repairing(write=repair)
        (check,) = app.verify(daily.settings(), Recorder(), loader=InlineLoader(), repairing=repairing).tables
        assert (check.state, check.counted.differences) == ("equal in part", 0)
        assert daily.rows() == right
    with pytest.raises(GapFound, match="some of its files are gone"):
        app.resync(daily.settings(), Recorder(), TABLE, InlineLoader())
    assert daily.rows() == right
    with duckdb.connect(target.removeprefix("duckdb:///")) as connection:
        connection.execute("DELETE FROM d.t WHERE id = 7")
    (check,) = app.verify(daily.settings(), Recorder(), loader=InlineLoader()).tables
    assert check.counted.missing == (later and daily.form is None)
