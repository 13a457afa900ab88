"""Every command: what it passes on, what it prints, what it leaves with."""

from __future__ import annotations

import errno
import json
import os
import re
import shlex
from copy import deepcopy

import pytest

from consumer.cli.program import COMMANDS
from consumer.errors import Code, GapFound, Interrupted, LeaseHeld
from consumer.model.check import VerifyResult
from consumer.model.events import Note, NoteKind
from consumer.model.hints import (
    AS_FILES_SHOW,
    GRANT,
    Hint,
    accept_command,
    resync_command,
    retry_command,
    skip_ddl_command,
)
from consumer.model.names import TableName
from consumer.model.steps import TargetDdl
from consumer.results import (
    AcceptedLoss,
    ChangesResult,
    CheckedLine,
    CheckResult,
    ForgetResult,
    InspectResult,
    LakeAtResult,
    MaintainResult,
    PlannedStep,
    PlanResult,
    RetryResult,
    RunResult,
    SkipDdlResult,
    StatusResult,
    TableResult,
    TableStatus,
    UndoResult,
    Unread,
)
from tests.unit.cli.conftest import UPSTREAM, FakeApp, exit_code

T1 = 1700000000000 << 18
ORDERS = TableName("shop", "orders")
PARTLY = RunResult(
    checkpoint_ts=T1 + 5,
    tables={
        ORDERS: TableResult(changes=4000, rows=3010, puts=3000, deletes=10, ddl=1, dropped_rows=2, watermark=T1),
        TableName("shop", "bad.one"): TableResult(
            state="stopped", error="a row is refused", hint="mend it", watermark=T1 - 9, version=7, resync=True
        ),
        TableName("shop", "late"): TableResult(
            state="waits", code=Code.WAITS_FOR_STATEMENT, error="waits for shop.bad", watermark=T1 - 9
        ),
        TableName("shop", "idle"): TableResult(watermark=T1),
    },
    seconds=1.23456,
    exit_code=3,
)


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command.name)
def test_the_example_of_the_help_runs(command, app: FakeApp, tmp_path, monkeypatch, capsys) -> None:  # type: ignore[no-untyped-def]
    monkeypatch.chdir(tmp_path)
    (tmp_path / "changefeed.toml").write_text('[sink]\nprotocol = "canal-json"\n', encoding="utf-8")
    results = {
        "plan": PlanResult(checkpoint_ts=T1, steps=()),
        "status": StatusResult(target_upstream=None, applied_ts=0, checkpoint_ts=None, tables=()),
        "skip-ddl": SkipDdlResult(table=ORDERS, version=7, skipped="recorded"),
        "forget": ForgetResult(forgotten="removed"),
        "maintain": MaintainResult(seconds=0.0),
        "lake-at": LakeAtResult(moment_ts=T1),
        "verify": VerifyResult((), 0.0),
        "check": CheckResult(lines=(CheckedLine(about="java", verdict="ok", text="17"),)),
        "retry": RetryResult(tables=(), seconds=0.0),
        "changes": ChangesResult(table=ORDERS, changes=0, to_ts=T1),
        "undo": UndoResult(table=ORDERS, from_ts=1, to_ts=T1, rows=0),
        "inspect": InspectResult(checkpoint_ts=T1, toml="[sink]", command="storage-consumer once"),
    }
    app.result = results.get(command.name, RunResult())
    words = shlex.split(command.example)
    assert words[:2] == ["storage-consumer", command.name]
    assert exit_code(*words[1:]) == 0
    assert [call[0] for call in app.calls] == [command.name.replace("-", "_")]
    assert exit_code(command.name, "--help") == 0
    assert command.example in capsys.readouterr().out


def test_json_is_the_fixed_object_and_the_last_line(app: FakeApp, capsys: pytest.CaptureFixture[str]) -> None:
    app.result = PARTLY
    assert exit_code("once", "--upstream-uri", UPSTREAM, "--json") == 3
    shown = capsys.readouterr()
    body = json.loads(shown.out)
    assert (body["exit_code"], body["name"], body["upstream"]) == (3, "default", UPSTREAM)
    assert (body["checkpoint_ts"], body["checkpoint_ts_str"]) == (T1 + 5, str(T1 + 5))
    assert body["tables"]["shop.orders"] == {
        "changes": 4000, "rows": 3010, "puts": 3000, "deletes": 10, "ddl": 1, "dropped_rows": 2, "watermark": T1,
        "watermark_str": str(T1), "state": "ok", "code": None, "error": None, "hint": None, "version": None,
        "version_str": None, "resync": False, "quarantined": 0, "bad_row": None, "accepted": [], "target_table": None,
        "seconds": 0.0, "target_seconds": 0.0,
    }  # fmt: skip
    stopped = body["tables"]["shop.bad.one"]
    assert [stopped[key] for key in ("state", "error", "hint", "version")] == [
        "stopped",
        "a row is refused",
        "mend it",
        7,
    ]
    assert "shop.idle" in body["tables"]
    assert "a row is refused" in shown.err


def test_text_has_the_tables_and_the_way_back(app: FakeApp, capsys: pytest.CaptureFixture[str]) -> None:
    app.result = deepcopy(PARTLY)
    bad = app.result.tables[TableName("shop", "bad.one")]
    assert exit_code("once", "--upstream-uri", UPSTREAM, "--downstream-uri", "mysql://root:hunter22@h/") == 3
    shown = capsys.readouterr()
    row = next(line for line in shown.out.splitlines() if line.startswith("shop.orders")).split()
    assert row == ["shop.orders", "4,000", "3,010", "3,000", "10", "1", "2", "2023-11-14T22:13:20.000Z", "ok"]
    assert "1 table without changes" in shown.out
    assert "shop.bad.one is stopped: a row is refused\n  mend it\n" in shown.err
    command = (
        "storage-consumer resync --table 'shop.`bad.one`' "
        "--upstream-uri 'file:///data/cdc?protocol=canal-json' --downstream-uri 'mysql://root:***@h/'"
    )
    assert command not in shown.err  # the refused statement would be met again
    bad.version = 0
    assert exit_code("once", "--upstream-uri", UPSTREAM, "--downstream-uri", "mysql://root:hunter22@h/") == 3
    assert command in capsys.readouterr().err
    assert "shop.late waits for shop.bad" in shown.err


def test_nothing_new_is_one_line(app: FakeApp, capsys: pytest.CaptureFixture[str]) -> None:
    app.result = RunResult(checkpoint_ts=1700000000000 << 18, tables={ORDERS: TableResult(watermark=T1)})
    assert exit_code("once", "--upstream-uri", UPSTREAM) == 0
    assert capsys.readouterr().out == "nothing new up to 2023-11-14T22:13:20.000Z\n"


def test_what_was_never_looked_at_is_not_called_nothing_to_apply(
    app: FakeApp, capsys: pytest.CaptureFixture[str]
) -> None:
    app.result = RunResult()
    assert exit_code("run", "--upstream-uri", UPSTREAM) == 0
    assert capsys.readouterr().out == "nothing was applied before the end\n"


def test_a_signal_before_anything_was_applied_does_not_say_that_there_is_nothing(
    app: FakeApp, capsys: pytest.CaptureFixture[str]
) -> None:
    app.result = RunResult(checkpoint_ts=PARTLY.checkpoint_ts).ended_by(Interrupted.by("SIGTERM"))
    assert exit_code("once", "--upstream-uri", UPSTREAM) == 4
    shown = capsys.readouterr()
    assert "nothing new" not in shown.out
    assert "stopped by a signal (SIGTERM) before the checkpoint was reached" in shown.err


def test_who_has_not_begun_has_no_lag(app: FakeApp, capsys: pytest.CaptureFixture[str]) -> None:
    begun, not_begun = TableResult(watermark=T1), TableResult()
    app.result = RunResult(
        checkpoint_ts=T1, tables={ORDERS: begun, TableName("shop", "late"): not_begun}, ended=1700000000000
    )
    assert exit_code("once", "--upstream-uri", UPSTREAM, "--json") == 0
    assert json.loads(capsys.readouterr().out.splitlines()[-1])["lag_seconds"] is None


def test_resync_and_skip_ddl_name_their_table(app: FakeApp, capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code("resync", "--table", "`a.b`.`c``d`", "--upstream-uri", UPSTREAM) == 0
    assert app.calls[-1][2] == (TableName("a.b", "c`d"),)
    app.result = SkipDdlResult(table=TableName("a", "b"), version=7, skipped="recorded")
    assert exit_code("skip-ddl", "--table", "a.b", "-version=7", "--upstream-uri", UPSTREAM, "--reason", "x y") == 0
    assert app.calls[-1][2] == (TableName("a", "b"), 7, "x y")
    assert capsys.readouterr().out.endswith("recorded\n")


@pytest.mark.parametrize("table", ["a", "a.b.c", ".b", "`a.b", "a."])
def test_a_table_that_cannot_be_told_is_refused(table: str, app: FakeApp, capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code("resync", "--table", table, "--upstream-uri", UPSTREAM) == 2
    assert "is not of the form db.table" in capsys.readouterr().err
    assert app.calls == []


def test_a_version_is_a_number(app: FakeApp, capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code("skip-ddl", "--table", "a.b", "--version", "x", "--upstream-uri", UPSTREAM) == 2
    assert "--version is refused: 'x'" in capsys.readouterr().err


def test_plan_as_text_and_json(app: FakeApp, capsys: pytest.CaptureFixture[str]) -> None:
    late = TableName("shop", "late")
    kept = TargetDdl(("RENAME TABLE `shop`.`orders`\n TO `shop`.`__trash_9_orders`",), note="a note")
    same = TargetDdl(("DROP INDEX i ON  orders",))

    def ddl(**members: object) -> PlannedStep:
        return PlannedStep.model_validate({"kind": "ddl", "table": ORDERS, "from_ts": T1, "to_ts": T1, **members})

    steps = (
        ddl(statement="DROP TABLE\n orders", touches=(ORDERS, late), policy="rename", target=kept),
        ddl(statement="DROP INDEX i ON orders", touches=(ORDERS,), policy="ignore"),
        ddl(statement="DROP INDEX i ON orders", policy="evolve", destructive=True, target=same),
        PlannedStep(kind="load", table=ORDERS, from_ts=T1, to_ts=T1 + 9, files=3, bytes=5 << 20),
        ddl(
            kind="barrier", table=late, to_ts=T1 + 1, statement="RECOVER TABLE late", touches=(late,),
            waits_for="shop.bad", policy="evolve", target=TargetDdl(error="it is lost"),
        ),
    )  # fmt: skip
    stopped = (
        TableStatus(table=late, watermark=T1, state="stopped", error="a row is refused", hint="mend it", version=5),
    )
    app.result = PlanResult(checkpoint_ts=T1 + 9, steps=steps, notes=("unknown path x",), stopped=stopped)
    assert exit_code("plan", "--upstream-uri", UPSTREAM) == 0
    moment = "2023-11-14T22:13:20.000Z"
    assert (
        capsys.readouterr().out
        == f"""\
DDL   shop.orders: version {T1} of {moment}
      DROP TABLE orders
      touches shop.late too
      policy: rename
      target: RENAME TABLE `shop`.`orders` TO `shop`.`__trash_9_orders`
      note: a note
DDL   shop.orders: version {T1} of {moment}
      DROP INDEX i ON orders
      policy: ignore
      target: nothing to execute
DDL   shop.orders: version {T1} of {moment}, takes data away
      DROP INDEX i ON orders
load  shop.orders: 3 files, 5.0 MiB, after {moment} up to {moment}
wait  shop.late (stopped now, is tried again): version {T1 + 1} of {moment}
      RECOVER TABLE late
      waits for shop.bad
      target: would refuse it: it is lost
shop.late is stopped: a row is refused
  mend it
3 statements (1 takes data away), 1 load of 3 files, 5.0 MiB, 1 statement waits, 1 table is stopped, \
up to checkpoint {moment}
note: unknown path x
"""
    )
    assert exit_code("plan", "--upstream-uri", UPSTREAM, "--json") == 0
    body = json.loads(capsys.readouterr().out)
    assert [step["kind"] for step in body["steps"]] == ["ddl", "ddl", "ddl", "load", "barrier"]
    assert body["steps"][0]["touches"] == ["shop.orders", "shop.late"]
    assert body["steps"][0]["policy"] == "rename"
    told = {"statements": list(kept.statements), "note": "a note", "error": "", "collations": []}
    assert body["steps"][0]["target"] == told
    assert [step["destructive"] for step in body["steps"]] == [False, False, True, False, False]
    assert (body["steps"][3]["table"], body["steps"][3]["bytes"]) == ("shop.orders", 5 << 20)
    assert (body["stopped"]["shop.late"]["error"], body["stopped"]["shop.late"]["version_str"]) == (
        "a row is refused",
        "5",
    )


NOW_MS = 1700000000000 + 3_600_000
"""An hour after T1."""


def status_of(upstream: str | None, applied: int, checkpoint: int | None, *notes: str) -> StatusResult:
    return StatusResult(
        target_upstream=upstream,
        applied_ts=applied,
        checkpoint_ts=checkpoint,
        tables=(),
        notes=notes,
        asked=NOW_MS,
    )


def status_result(*rows: TableStatus, **more: object) -> StatusResult:
    found = StatusResult(
        target_upstream="file:///data/cdc",
        applied_ts=T1,
        checkpoint_ts=T1 + (90_000 << 18),
        tables=rows,
        tables_ok=12,
        asked=NOW_MS,
    )
    unread = Unread(files=0, bytes=0, oldest_date="", expiration_days=0, days_left=None)
    return found.model_copy(update={"unread": unread, **more})


DROPPED = TableStatus(table=ORDERS, watermark=5, state="dropped")
LOST = TableStatus(
    table=ORDERS,
    watermark=T1,
    state="ok",
    accepted=(AcceptedLoss(reason="file number 3 is missing before number 4", path="", after_ts=5, to_ts=9),),
)
LATE = TableStatus(table=ORDERS, watermark=T1 - (60_000 << 18), state="ok")


STOPPED = TableStatus(
    table=ORDERS,
    watermark=T1 - (60_000 << 18),
    state="stopped",
    error="a row is refused",
    hint=Hint("mend it"),
    resync=True,
)
WAITS = TableStatus(
    table=TableName("shop", "late"),
    watermark=T1,
    state="waits",
    code=Code.WAITS_FOR_STATEMENT,
    error="waits for shop.orders: a row is refused",
)


def test_tables_that_are_stopped_or_missing_are_not_complete(app: FakeApp, capsys: pytest.CaptureFixture[str]) -> None:
    """Also where they stand at the checkpoint, as the others do."""
    rows = [TableStatus(table=TableName("shop", f"t{n}"), watermark=T1, state="missing") for n in range(4)]
    app.result = status_result(*rows, STOPPED.model_copy(update={"watermark": T1}), checkpoint_ts=T1)
    assert exit_code("status", "--upstream-uri", UPSTREAM) == 0
    text = capsys.readouterr().out
    assert re.search(r"complete    2023-11-14T22:13:20\.000Z, .*, but 4 missing, 1 stopped\n", text)
    app.result = status_result(LOST)
    assert exit_code("status", "--upstream-uri", UPSTREAM) == 0
    assert "shop.orders  2023-11-14T22:13:20.000Z  lacks rows\n" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("hint", "offered"),
    [
        (Hint("mend it"), True),
        ("run it again: " + retry_command(ORDERS), True),
        (GRANT + ", then run again", False),
        ("set it; " + AS_FILES_SHOW, False),
        ("do by hand what it means, then: " + skip_ddl_command(ORDERS, 7), False),
        ("continue without: " + accept_command(ORDERS), False),
        ("load it again from the storage: " + resync_command(ORDERS), False),
    ],
)
def test_no_reload_is_offered_where_it_would_stop_again_or_the_hint_names_it(
    hint: Hint, offered: bool, app: FakeApp, capsys: pytest.CaptureFixture[str]
) -> None:
    app.result = status_result(STOPPED.model_copy(update={"hint": hint}))
    exit_code("status", "--upstream-uri", UPSTREAM)
    text = capsys.readouterr().out
    assert hint in text
    assert ("to load it again" in text) is offered


def test_status_as_text_and_json(app: FakeApp, capsys: pytest.CaptureFixture[str]) -> None:
    app.result = status_result(STOPPED, WAITS)
    assert exit_code("status", "--upstream-uri", UPSTREAM) == 0
    text = capsys.readouterr().out
    assert text.startswith("state       Degraded\n")
    assert "tables      12 ok, 1 stopped, 1 waits\n" in text
    behind = "1 h 1 min behind now, 2 min 30 s behind the checkpoint (shop.orders is the slowest)"
    assert f"complete    2023-11-14T22:12:20.000Z, {behind}, but 1 stopped\n" in text
    assert "checkpoint  2023-11-14T22:14:50.000Z, 58 min 30 s old\n" in text
    assert "shop.orders is stopped: a row is refused" in text
    assert "\nshop.late waits for shop.orders: a row is refused\n" in text
    assert f"storage-consumer resync --table shop.orders --upstream-uri '{UPSTREAM}'" in text
    assert exit_code("status", "--upstream-uri", UPSTREAM, "--json") == 0
    body = json.loads(capsys.readouterr().out)
    measured = ("lag_seconds", "behind_checkpoint_seconds", "checkpoint_age_seconds", "slowest", "tables_ok")
    assert [body[key] for key in measured] == [3660.0, 150.0, 3510.0, "shop.orders", 12]
    assert body["watermark"] == T1 - (60_000 << 18)
    assert body["tables"]["shop.orders"]["error"] == "a row is refused"


@pytest.mark.parametrize(
    ("result", "flags", "code", "why"),
    [
        (status_result(), [], 0, ""),
        (status_result(), ["--max-lag", "1h"], 0, ""),
        (
            status_result(),
            ["--max-lag", "59m59s"],
            4,
            "the replica lags by 1 h 0 min, which is more than",
        ),
        (
            status_result(LATE),
            ["--max-lag", "1h"],
            4,
            "shop.orders lags by 1 h 1 min, which is more than",
        ),
        (status_result(DROPPED), ["--max-lag", "1h"], 0, ""),
        (status_result(STOPPED), ["--max-lag", "1s"], 3, "tables that are not healthy: 1 stopped"),
        (status_result(STOPPED, WAITS), [], 3, "tables that are not healthy: 1 stopped, 1 waiting"),
        (status_result(LOST), [], 3, "1 with accepted losses"),
        (status_result(LOST), ["--allow-accepted"], 0, ""),
        (status_result(STOPPED, LOST), ["--allow-accepted"], 3, "tables that are not healthy: 1 stopped"),
        (status_result(tables_ok=0), [], 4, "the target has no table"),
        (status_result(DROPPED, tables_ok=0), [], 0, ""),
        (
            status_result(applied_ts=T1 + (9_000_000 << 18)),
            ["--max-lag", "50m"],
            4,
            "the checkpoint is 58 min 30 s old",
        ),
        (status_of(None, 0, T1), [], 4, "nothing was applied yet"),
        (
            status_of("file:///data/cdc", T1, None, "no answer"),
            [],
            4,
            "could not be compared: no a",
        ),
        (
            status_of("file:///data/cdc", T1, T1, "another"),
            [],
            4,
            "could not be compared: another",
        ),
    ],
)
def test_a_check_leaves_with_what_a_monitor_needs(
    result: StatusResult, flags: list[str], code: int, why: str, app: FakeApp, capsys: pytest.CaptureFixture[str]
) -> None:
    app.result = result
    assert exit_code("status", "--upstream-uri", UPSTREAM, "--check", "--json", *flags) == code
    body = json.loads(capsys.readouterr().out)
    assert body["exit_code"] == code
    assert exit_code("status", "--upstream-uri", UPSTREAM, "--check", *flags) == code
    shown = capsys.readouterr().out.splitlines()
    assert (body["check"] is None) == (not why)
    assert shown[-1] == f"check: exit {code}, {body['check']}" if why else not any("check:" in line for line in shown)
    assert why in (body["check"] or "")
    assert exit_code("status", "--upstream-uri", UPSTREAM) == 0
    assert "check:" not in capsys.readouterr().out


@pytest.mark.parametrize("flags", [["--max-lag", "5m"], ["--check", "--max-lag", "soon"]])
def test_a_bound_of_a_check_is_a_duration_of_one(
    flags: list[str], app: FakeApp, capsys: pytest.CaptureFixture[str]
) -> None:
    assert exit_code("status", "--upstream-uri", UPSTREAM, *flags) == 2
    assert "--max-lag" in capsys.readouterr().err
    assert app.calls == []


def test_status_of_a_storage_that_cannot_be_asked(app: FakeApp, capsys: pytest.CaptureFixture[str]) -> None:
    app.result = status_of("file:///data/cdc", T1, None, "the storage does not answer")
    assert exit_code("status", "--upstream-uri", UPSTREAM) == 0
    text = capsys.readouterr().out
    assert "checkpoint  not known" in text
    assert "note: the storage does not answer" in text


@pytest.mark.parametrize(("error", "code"), [(LeaseHeld("held", hint="wait"), 4), (GapFound("a gap", hint="mend"), 5)])
def test_errors_are_a_sentence_and_a_hint(error, code, app: FakeApp, capsys) -> None:  # type: ignore[no-untyped-def]
    def fail(*_: object) -> RunResult:
        raise error

    app.action = fail
    assert exit_code("once", "--upstream-uri", UPSTREAM, "--json") == code
    shown = capsys.readouterr()
    assert shown.err == f"storage-consumer: {error.message}\n  {error.hint}\n"
    body = json.loads(shown.out)
    assert (body["checkpoint_ts"], body["tables"], body["error"]) == (None, {}, error.message)


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (MemoryError(), "memory"),
        (RuntimeError("can't start new thread"), "threads"),
        (OSError(errno.EMFILE, os.strerror(errno.EMFILE)), "ulimit -n"),
        (OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)), "room on a disk"),
    ],
    ids=["memory", "threads", "open files", "disk"],
)
def test_what_the_machine_does_not_give_is_no_bug(
    error: Exception, words: str, app: FakeApp, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(*_: object) -> RunResult:
        raise error

    app.action = fail
    assert exit_code("once", "--upstream-uri", UPSTREAM) == 4
    told = capsys.readouterr().err
    assert words in told
    assert "bug" not in told
    assert "Traceback" not in told


def test_a_bug_is_called_one_and_shows_its_trace_only_with_v(app: FakeApp, capsys: pytest.CaptureFixture[str]) -> None:
    def fail(*_: object) -> RunResult:
        raise RuntimeError("at mysql://root:hunter22@h/ with hunter22")

    app.action = fail
    flags = ("once", "--upstream-uri", UPSTREAM, "--downstream-uri", "mysql://root:hunter22@h/")
    assert exit_code(*flags) == 1
    quiet = capsys.readouterr().err
    assert "this is a bug" in quiet
    assert "-v" in quiet
    assert "Traceback" not in quiet
    assert exit_code(*flags, "-v") == 1
    loud = capsys.readouterr().err
    assert "Traceback" in loud
    assert "hunter22" not in quiet + loud


def test_notes_are_said_once(app: FakeApp, capsys: pytest.CaptureFixture[str]) -> None:
    def note(observer: object) -> RunResult:
        observer.tell(Note(NoteKind.STATEMENT, "no commit-ts"))  # type: ignore[attr-defined]
        observer.tell(Note(NoteKind.STATEMENT, "no commit-ts"))  # type: ignore[attr-defined]
        return RunResult()

    app.action = note
    assert exit_code("once", "--upstream-uri", UPSTREAM, "--json") == 0
    told = capsys.readouterr()
    assert told.err.count("no commit-ts") == 1
    assert json.loads(told.out.splitlines()[-1])["notes"] == ["no commit-ts"]


def test_a_table_that_waits_for_its_target_is_named_once(app: FakeApp, capsys: pytest.CaptureFixture[str]) -> None:
    full = "shop.orders: the target has no room: it is tried again by the next run"
    app.result = RunResult(checkpoint_ts=T1, tables={ORDERS: TableResult(state="waits", error=full)}, exit_code=4)
    assert exit_code("once", "--upstream-uri", UPSTREAM) == 4
    assert "shop.orders waits: the target has no room: it is tried again by the next run\n" in capsys.readouterr().err
