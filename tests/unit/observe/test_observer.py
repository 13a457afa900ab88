"""The log speaks a fixed vocabulary, in text and in JSON."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from consumer.errors import BadConfig, CorruptFile, TargetBusy
from consumer.model.events import Note, NoteKind, Retrying, RoundFinished, RoundStarted, StepFinished, TableStopped
from consumer.model.names import TableName
from consumer.model.progress import AuditRow
from consumer.observe.logs import Log, LogSettings
from consumer.observe.observer import CommandObserver

ORDERS = TableName("shop", "orders")


def told(settings: LogSettings) -> list[str]:
    """The lines of a small run."""
    assert settings.file is not None
    observer = CommandObserver(Log(settings))
    observer.tell(RoundStarted(9, 2, 3, 400))
    observer.tell(StepFinished(AuditRow("load", ORDERS, 1, 9, changes=5, puts=4, deletes=1), 0.12345))
    observer.tell(StepFinished(AuditRow("ddl", ORDERS, 1, 7, statement="ALTER TABLE orders ADD x INT"), 0.5))
    observer.tell(Retrying("write", TargetBusy("deadlock"), 2.0))
    observer.tell(TableStopped(ORDERS, CorruptFile("no JSON", hint="look", path="a/b.json", line=3)))
    observer.tell(Note(NoteKind.SETTING, "password is secret"))
    observer.tell(Note(NoteKind.SETTING, "password is secret"))
    observer.close()
    return Path(settings.file).read_text(encoding="utf-8").splitlines()


def test_json_lines_have_the_fixed_keys(tmp_path: Path) -> None:
    lines = [json.loads(line) for line in told(LogSettings(format="json", file=str(tmp_path / "log")))]
    load, ddl = lines[1], lines[2]
    wanted = {"table": "shop.orders", "commit_ts": 9, "rows": 5, "puts": 4, "deletes": 1, "seconds": 0.123}
    assert {key: load[key] for key in wanted} == wanted
    assert load["event"] == "load finished"
    assert (ddl["version"], ddl["statement"]) == (7, "ALTER TABLE orders ADD x INT")
    assert (lines[0]["files"], lines[0]["tables"]) == (3, 2)
    assert lines[4]["error"] == "a/b.json:3: no JSON"
    assert all(line["level"] and line["timestamp"].endswith("Z") for line in lines)


def test_a_note_is_written_once_and_without_secrets(tmp_path: Path) -> None:
    lines = told(LogSettings(file=str(tmp_path / "log"), scrub=lambda text: text.replace("secret", "***")))
    assert [line for line in lines if "password" in line] == [lines[-1]]
    assert lines[-1].endswith("warning password is ***")


def test_a_note_in_json_can_be_counted_by_its_kind(tmp_path: Path) -> None:
    note = json.loads(told(LogSettings(format="json", file=str(tmp_path / "log")))[-1])
    assert {key: note[key] for key in ("level", "kind", "count")} == {"level": "warning", "kind": "setting", "count": 1}


def test_text_lines_are_easy_to_cut(tmp_path: Path) -> None:
    line = told(LogSettings(file=str(tmp_path / "log")))[2]
    assert line.endswith(
        "info    ddl finished table=shop.orders version=7 statement='ALTER TABLE orders ADD x INT' seconds=0.5"
    )


def test_the_level_holds_back(tmp_path: Path) -> None:
    lines = told(LogSettings(level="error", format="json", file=str(tmp_path / "log")))
    assert [json.loads(line)["event"] for line in lines] == ["table stopped"]


def test_a_log_file_that_cannot_be_written_is_named() -> None:
    with pytest.raises(BadConfig, match="log-file: /no/such/dir/log cannot be written"):
        Log(LogSettings(file="/no/such/dir/log"))


def test_a_full_disk_does_not_stop_the_run() -> None:
    observer = CommandObserver(Log(LogSettings(file="/dev/full")))
    observer.tell(RoundStarted(1, 1, 1, 1))
    observer.tell(Note(NoteKind.SETTING, "still here"))
    observer.close()


def test_a_round_with_nothing_to_read_is_silent(tmp_path: Path) -> None:
    log = tmp_path / "log"
    for level in ("info", "debug"):
        observer = CommandObserver(Log(LogSettings(level=level, file=str(log))))
        observer.tell(RoundStarted(9, 3, 0, 0))
        observer.close()
    assert len(log.read_text(encoding="utf-8").splitlines()) == 1


@pytest.mark.parametrize(("tables", "one"), [(20, False), (21, True)])
def test_a_round_of_many_tables_is_one_line(tmp_path: Path, tables: int, one: bool) -> None:
    path = tmp_path / "log"
    observer = CommandObserver(Log(LogSettings(format="json", file=str(path))))
    observer.tell(RoundStarted(9 << 18, tables, tables, 400))
    for number in range(tables):
        observer.tell(StepFinished(AuditRow("load", TableName("a", str(number)), 1, 9, changes=5, puts=4), 0.5, 10))
    observer.tell(RoundFinished(9 << 18, 2.0, 1, 0))
    observer.close()
    written = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    assert len(written) == 1 + (1 if one else tables)
    if one:
        line = written[-1]
        wanted = {"event": "round finished", "tables": 21, "rows": 84, "changes": 105, "bytes": 210, "stopped": 1}
        assert {key: line[key] for key in wanted} == wanted
        assert (line["rows_per_second"], line["seconds"]) == (42, 2.0)


def test_statements_have_lines_in_a_round_of_many_tables(tmp_path: Path) -> None:
    path = tmp_path / "log"
    observer = CommandObserver(Log(LogSettings(file=str(path))))
    observer.tell(RoundStarted(9, 500, 500, 400))
    observer.tell(StepFinished(AuditRow("ddl", ORDERS, 1, 7, statement="DROP TABLE orders"), 0.5))
    observer.close()
    assert "DROP TABLE orders" in path.read_text(encoding="utf-8")


@pytest.mark.parametrize("taken_away", [lambda path: path.rename(path.with_suffix(".1")), Path.unlink])
def test_a_log_file_that_was_moved_is_opened_again(tmp_path: Path, taken_away: Callable[[Path], object]) -> None:
    path = tmp_path / "log"
    log = Log(LogSettings(file=str(path)))
    log.info("first")
    taken_away(path)
    log.info("second")
    log.close()
    assert [line.split()[-1] for line in path.read_text(encoding="utf-8").splitlines()] == ["second"]
