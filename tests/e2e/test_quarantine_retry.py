"""Quarantined rows come in again once what was wrong is mended, each in its right place in time."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pytest

from consumer import app
from consumer.codec.csv.options import CsvFormat
from consumer.errors import BadConfig
from consumer.model.actions import Action
from consumer.model.check import Repairing
from consumer.model.columns import Column
from consumer.model.hints import hint_with_options
from consumer.model.names import TableName
from consumer.results import RetryResult
from tests.e2e.test_quarantine_refused import Target, begin, target
from tests.servers import SqlServer
from tests.support.inline_loader import InlineLoader
from tests.support.lettered import COLUMNS, FORMS, KEYLESS, TABLE, Storage, recorded
from tests.support.observers import Recorder
from tests.support.scripts import run_on_file

__all__ = ["target"]


@pytest.fixture(params=["canal-json", "csv"])
def storage(tmp_path: Path, request: pytest.FixtureRequest) -> Storage:
    return Storage(tmp_path, request.param)


def retry(storage: Storage, target: Target) -> RetryResult:
    return app.retry(storage.settings(target.uri), Recorder(), lambda name: name == TABLE, InlineLoader())


def verify(storage: Storage, target: Target) -> tuple[str, list[str]]:
    (check,) = app.verify(storage.settings(target.uri), Recorder(), loader=InlineLoader()).tables
    return check.state, list(check.notes)


def widen(target: Target, kind: str) -> None:
    target.alter(f"ALTER TABLE d.t {'ALTER COLUMN v TYPE' if 'duckdb' in target.uri else 'MODIFY v'} {kind}")


def mend(storage: Storage, path: str, *lines: bytes) -> None:
    head = [(storage.feed.folder / path).read_bytes().split(b"\r\n")[0]] if storage.above else []
    (storage.feed.folder / path).write_bytes(b"".join(line + b"\r\n" for line in (*head, *lines)))


def test_a_line_that_was_mended_and_one_that_was_not(storage: Storage, target: Target) -> None:
    lines = [storage.line((10 + n, str(n), str(n), "a")) for n in range(6)]
    path = storage.file(lines[0], lines[1][:-9], lines[2], lines[3][:-9], *lines[4:])
    storage.once(target.uri, 50)
    state, notes = verify(storage, target)
    assert state == "equal in part"
    assert any("2 rows are quarantined" in note for note in notes)
    (nothing,) = retry(storage, target).tables
    assert (nothing.taken_in, nothing.quarantined) == (0, 2)
    mend(storage, path, *lines[:3], lines[3][:-9], *lines[4:])
    (found,) = retry(storage, target).tables
    assert (found.taken_in, found.quarantined) == (1, 1), found.error
    assert target.rows() == [(n, n, "a") for n in range(6) if n != 3]
    assert [("taken_in" in letter) for letter in storage.written()] == [True, False]
    assert storage.once(target.uri, 60).tables[TABLE].quarantined == 1
    mend(storage, path, *lines)
    assert retry(storage, target).tables[0].quarantined == 0
    assert target.rows() == [(n, n, "a") for n in range(6)]
    assert recorded(target.uri) == {}
    assert storage.once(target.uri, 70).exit_code == 0
    assert verify(storage, target)[0] == "equal"
    assert retry(storage, target).tables == ()


@pytest.mark.parametrize("kind", ["INT", "DOUBLE"])
def test_a_value_that_is_none_keeps_no_other_row_away(tmp_path: Path, target: Target, kind: str) -> None:
    good, none = {"INT": ("5", "x5"), "DOUBLE": ("0.5", "0.5.5")}[kind]
    columns = (COLUMNS[0], Column("v", kind), COLUMNS[2])
    storage = Storage(tmp_path, columns=columns)
    query = f"CREATE TABLE `t` (`id` INT PRIMARY KEY NOT NULL, `v` {kind}, `s` VARCHAR(8))"
    storage.feed.statement("d.t", 2, Action.CREATE_TABLE, query, columns)
    lines = [storage.line((10 + n, str(n), good, "a")) for n in range(4)]
    none_of_it = storage.line((12, "2", none, "a"))
    path = storage.file(lines[0], lines[1][:-9], none_of_it, lines[3])
    storage.once(target.uri, 50)
    assert len(recorded(target.uri)[TABLE]) == 2
    assert [row[0] for row in target.rows()] == [0, 3]
    compared = app.verify(storage.settings(target.uri), Recorder(), loader=InlineLoader())
    (check,), verdict = compared.tables, compared.verdict(strict=False)
    assert (check.error, check.counted.missing, check.counted.differences) == (None, 1, 1)
    assert verdict is not None
    assert hint_with_options(verdict.hint, "--dead-letters URI-OF-THE-DEAD-LETTERS") == (
        "2 rows are quarantined; once that is mended: storage-consumer retry --table d.t --dead-letters"
        " URI-OF-THE-DEAD-LETTERS"
    )
    mend(storage, path, *lines[:2], none_of_it, lines[3])
    (found,) = retry(storage, target).tables
    assert (found.taken_in, found.quarantined) == (1, 1), found.error
    assert [row[0] for row in target.rows()] == [0, 1, 3]
    mend(storage, path, *lines)
    (found,) = retry(storage, target).tables
    assert (found.taken_in, found.quarantined) == (1, 0), found.error


@pytest.mark.parametrize("columns", [COLUMNS, KEYLESS], ids=["key", "no key"])
@pytest.mark.parametrize("bad", [{0}, {2}, {0, 1, 2}], ids=str)
@pytest.mark.parametrize("retried", [False, True], ids=["run first", "retry first"])
def test_a_mended_line_at_the_end_of_a_file_is_no_late_row(
    tmp_path: Path, columns: tuple[Column, ...], bad: set[int], retried: bool
) -> None:
    """Nothing had told its time, and a run looks at the last file of a folder again."""
    target, storage = on_a_file(tmp_path), Storage(tmp_path, columns=columns)
    storage.file(storage.line((5, "9", "9", "a")))
    storage.once(target.uri, 7)
    lines = [storage.line((10 + n, str(n), str(n), "a")) for n in range(3)]
    file = storage.file(*(line[:-9] if n in bad else line for n, line in enumerate(lines)))
    storage.once(target.uri, 15)
    mend(storage, file, *lines)
    if not retried:
        assert storage.once(target.uri, 20).tables[TABLE].state == "ok"
    (found,) = retry(storage, target).tables
    assert (found.taken_in, found.quarantined) == (len(bad), 0)
    assert storage.once(target.uri, 30).exit_code == 0
    assert target.rows() == [(0, 0, "a"), (1, 1, "a"), (2, 2, "a"), (9, 9, "a")]


def on_a_file(tmp_path: Path) -> Target:
    path = tmp_path / "replica.duckdb"
    return Target(f"duckdb:///{path}", lambda query: duckdb.connect(str(path)).execute(query).fetchall())


@pytest.mark.parametrize("retried", [False, True], ids=["run first", "retry first"])
def test_nor_is_one_that_was_above_the_window_in_which_its_line_was_met(tmp_path: Path, retried: bool) -> None:
    target, storage = on_a_file(tmp_path), Storage(tmp_path)
    first, second = storage.line((10, "1", "1", "a")), storage.line((25, "2", "2", "b"))
    file = storage.file(first, second[:-9])
    for checkpoint in (20, 50):
        assert storage.once(target.uri, checkpoint).exit_code == 3
    mend(storage, file, first, second)
    if not retried:
        assert storage.once(target.uri, 60).tables[TABLE].state == "ok"
    assert retry(storage, target).tables[0].taken_in == 1
    for checkpoint in (60, 70):
        assert storage.once(target.uri, checkpoint).exit_code == 0
    assert target.rows() == [(1, 1, "a"), (2, 2, "b")]


@pytest.mark.parametrize("retried", [False, True])
@pytest.mark.parametrize("at_the_end", [False, True])
def test_a_file_that_comes_late_is_noticed_beside_a_bad_line(tmp_path: Path, at_the_end: bool, retried: bool) -> None:
    """What its time was is known once it is mended: no row of any other time was read."""
    target, storage = on_a_file(tmp_path), Storage(tmp_path)
    lines = [storage.line((10 + n, str(n), str(n), "a")) for n in range(3)]
    bad = len(lines) - 1 if at_the_end else 0
    file = storage.file(*(line[:-9] if n == bad else line for n, line in enumerate(lines)))
    storage.once(target.uri, 20)
    if retried:
        mend(storage, file, *lines)
        assert retry(storage, target).tables[0].taken_in == 1
        assert storage.once(target.uri, 20).exit_code == 0
    storage.file(storage.line((15, "9", "9", "z")))
    assert storage.once(target.uri, 30).exit_code == 3
    stopped = storage.stopped()
    assert stopped is not None
    assert "a row of commit-ts 15" in stopped.message


def test_a_newer_change_wins(storage: Storage, target: Target) -> None:
    first = storage.line((10, "1", "1", "a"))
    second = storage.line((20, "1", "2", "b"), "UPDATE", old=(10, "1", "1", "a"))
    third = storage.line((30, "1", "3", "c"), "UPDATE", old=(20, "1", "2", "b"))
    path = storage.file(first, second[:-9], third)
    storage.once(target.uri, 50)
    assert target.rows() == [(1, 3, "c")]
    mend(storage, path, first, second, third)
    assert retry(storage, target).tables[0].taken_in == 1
    assert target.rows() == [(1, 3, "c")]


def test_rows_below_files_that_were_written_anew_stay_quarantined_by_the_right_reason(tmp_path: Path) -> None:
    target, storage = on_a_file(tmp_path), Storage(tmp_path)
    first, *rest = (storage.line((ts, str(ts), "1", "a")) for ts in (11, 14, 16, 26))
    path = storage.file(first[:-9])
    anew = storage.file(rest[0], rest[1][:-9])
    storage.once(target.uri, 15)
    storage.file(rest[2])
    mend(storage, path, first)
    mend(storage, anew, rest[1])
    assert storage.once(target.uri, 31).exit_code == 3
    (found,) = retry(storage, target).tables
    assert (found.taken_in, found.quarantined) == (0, 2)
    assert "files were written again" in found.error


def test_a_mended_file_whose_rows_have_no_time_is_read_by_a_run_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(FORMS, "csv", CsvFormat(include_commit_ts=False, output_old_value=True))
    target, storage = on_a_file(tmp_path), Storage(tmp_path, "csv")
    lines = [storage.line((10 + n, str(n), str(n), "a")) for n in range(3)]
    path = storage.file(lines[0][:-9], *lines[1:])
    assert storage.once(target.uri, 20).exit_code == 3
    mend(storage, path, *lines)
    (found,) = retry(storage, target).tables
    assert (found.taken_in, found.quarantined) == (0, 1)
    assert "run `once` first" in found.hint
    assert target.rows() == [(1, 1, "a"), (2, 2, "a")]
    storage.once(target.uri, 30)
    (found,) = retry(storage, target).tables
    assert (found.taken_in, found.quarantined) == (1, 0)
    assert target.rows() == [(n, n, "a") for n in range(3)]


def test_statements_from_before_it_was_taken_in_do_not_put_it_back(storage: Storage, tmp_path: Path) -> None:
    target, script = on_a_file(tmp_path), tmp_path / "right.sql"
    put, after = storage.line((10, "1", "1", "a")), storage.line((30, "2", "2", "b"))
    bad = storage.line((20, "1", "2", "b"), "UPDATE", old=(10, "1", "1", "a"))
    path = storage.file(put, bad[:-9], after)
    storage.once(target.uri, 50)
    target.alter("UPDATE d.t SET v = 9 WHERE id = 1")
    settings = storage.settings(target.uri)
    app.verify(settings, Recorder(), loader=InlineLoader(), repairing=Repairing(sql=str(script)))
    mend(storage, path, put, bad, after)
    assert retry(storage, target).tables[0].taken_in == 1
    with pytest.raises(duckdb.Error, match="the consumer has continued"):
        run_on_file(script, tmp_path / "replica.duckdb")
    assert target.rows() == [(1, 2, "b"), (2, 2, "b")]


def test_a_delete_that_was_bad(storage: Storage, target: Target) -> None:
    put, gone = storage.line((10, "1", "1", "a")), storage.line((20, "1", "1", "a"), "DELETE")
    path = storage.file(put, gone[:-9], storage.line((30, "2", "2", "b")))
    storage.once(target.uri, 50)
    assert target.rows() == [(1, 1, "a"), (2, 2, "b")]
    mend(storage, path, put, gone, storage.line((30, "2", "2", "b")))
    assert retry(storage, target).tables[0].taken_in == 1
    assert target.rows() == [(2, 2, "b")]


def test_rows_that_the_target_takes_now(storage: Storage, target: Target) -> None:
    begin(storage, target)
    storage.file(storage.line((20, "2", "1000", "b")), storage.line((21, "3", "99999", "c")))
    storage.file(storage.line((30, "2", "2000", "d"), "UPDATE", old=(20, "2", "1000", "b")))
    storage.once(target.uri, 50)
    assert target.rows() == [(1, 1, "a")]
    assert retry(storage, target).tables[0].quarantined == 2
    wide = (
        "ALTER TABLE d.t ALTER COLUMN v TYPE SMALLINT"
        if "duckdb" in target.uri
        else "ALTER TABLE d.t MODIFY v SMALLINT"
    )
    target.alter(wide)
    (found,) = retry(storage, target).tables
    assert (found.taken_in, found.quarantined) == (1, 1), found.error
    assert target.rows() == [(1, 1, "a"), (2, 2000, "d")]
    widen(target, "INT")
    assert retry(storage, target).tables[0].quarantined == 0
    assert target.rows() == [(1, 1, "a"), (2, 2000, "d"), (3, 99999, "c")]
    assert recorded(target.uri) == {}


@pytest.mark.parametrize("form", ["canal-json", "csv"])
def test_a_table_with_no_key(form: str, target: Target, tmp_path: Path) -> None:
    storage = Storage(tmp_path, form, KEYLESS)
    begin(storage, target)
    row, bad = storage.line((21, "3", "3", "c")), storage.line((20, "2", "1000", "b"))
    path = storage.file(bad, bad, row, row[:-9])
    storage.once(target.uri, 25)
    storage.file(storage.line((30, "2", "1000", "b"), "DELETE"))
    storage.once(target.uri, 35)
    assert target.rows() == [(1, 1, "a"), (3, 3, "c")]
    target.alter(
        "ALTER TABLE d.t ALTER COLUMN v TYPE INT" if "duckdb" in target.uri else "ALTER TABLE d.t MODIFY v INT"
    )
    mend(storage, path, bad, bad, row, row)
    (found,) = retry(storage, target).tables
    assert found.quarantined == 0, found.error
    assert target.rows() == [(1, 1, "a"), (2, 1000, "b"), (3, 3, "c"), (3, 3, "c")]


def test_a_file_with_rows_above_the_watermark(storage: Storage, target: Target) -> None:
    """The line that was mended can be one of them: it is not there before the table is past it."""
    first, second = storage.line((10, "1", "1", "a")), storage.line((30, "2", "2", "b"))
    path = storage.file(first, second[: len(second) // 2])
    storage.once(target.uri, 20)
    mend(storage, path, first, second)
    (found,) = retry(storage, target).tables
    assert (found.taken_in, found.quarantined) == (0, 1)
    assert "above the table's watermark" in found.error
    assert target.rows() == [(1, 1, "a")]
    storage.once(target.uri, 40)
    assert retry(storage, target).tables[0].quarantined == 0
    assert target.rows() == [(1, 1, "a"), (2, 2, "b")]


def test_a_good_row_whose_line_was_damaged_later_stays(storage: Storage, target: Target) -> None:
    lines = [storage.line((10 + n, str(n), str(n), "a")) for n in range(4)]
    path = storage.file(lines[0], lines[1][:-9], *lines[2:])
    storage.once(target.uri, 50)
    mend(storage, path, lines[0], lines[1][:-9], lines[2][:-9], lines[3])
    (found,) = retry(storage, target).tables
    assert (found.taken_in, found.quarantined) == (0, 1)
    assert found.error
    assert target.rows() == [(n, n, "a") for n in (0, 2, 3)]


def test_a_file_that_is_gone_keeps_its_rows_quarantined(storage: Storage, target: Target) -> None:
    storage.file(storage.line((5, "9", "9", "z")))
    path = storage.file(storage.line((10, "1", "1", "a")), storage.line((11, "2", "2", "b"))[:-9])
    storage.once(target.uri, 50)
    storage.file(storage.line((60, "3", "3", "c")))
    storage.once(target.uri, 70)
    (storage.feed.folder / path).unlink()
    (found,) = retry(storage, target).tables
    assert (found.taken_in, found.quarantined) == (0, 1)
    assert found.error
    assert recorded(target.uri)[TableName("d", "t")]


@pytest.mark.parametrize("text", [b"", b"{", b"[]", b"5", b"\xff\xfe", b"[" * 100_000])
def test_a_letter_that_somebody_has_changed_stays_so(tmp_path: Path, text: bytes) -> None:
    storage, target = Storage(tmp_path), f"duckdb:///{tmp_path}/replica.duckdb"
    lines = [storage.line((10 + n, str(n), str(n), "a")) for n in range(3)]
    path = storage.file(lines[0], lines[1][:-9], lines[2][:-9])
    storage.once(target, 50)
    changed, whole = (storage.letters / row.letter for row in recorded(target)[TABLE].values())
    changed.write_bytes(text)
    mend(storage, path, *lines)
    (found,) = app.retry(storage.settings(target), Recorder(), lambda _: True, InlineLoader()).tables
    assert (found.taken_in, found.quarantined) == (2, 0)
    assert changed.read_bytes() == text
    assert b'"taken_in"' in whole.read_bytes()


def test_letters_that_nothing_would_mark_are_asked_for(tmp_path: Path, fresh_mariadb: SqlServer) -> None:
    storage, target = Storage(tmp_path), fresh_mariadb.url()
    good, bad = storage.line((10, "1", "1", "a")), storage.line((11, "2", "1000", "a"))
    path = storage.file(good, bad[:-9])
    storage.once(target, 50)
    fresh_mariadb.execute("ALTER TABLE d.t MODIFY v TINYINT")
    mend(storage, path, good, bad)
    without = storage.settings(target, dead_letters=None, on_bad_row="stop")
    before = recorded(target)
    with pytest.raises(BadConfig, match="the quarantined rows have letters") as refused:
        app.retry(without, Recorder(), lambda _: True, InlineLoader())
    assert "give --dead-letters" in refused.value.hint
    assert recorded(target) == before
    (found,) = app.retry(storage.settings(target), Recorder(), lambda _: True, InlineLoader()).tables
    assert (found.taken_in, found.quarantined) == (1, 1)
    fresh_mariadb.execute("ALTER TABLE d.t MODIFY v INT")
    (found,) = app.retry(storage.settings(target), Recorder(), lambda _: True, InlineLoader()).tables
    assert (found.taken_in, found.quarantined) == (1, 0)
    assert recorded(target) == {}
