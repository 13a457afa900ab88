"""Every command: what it passes on, what it prints, what it leaves with."""

from __future__ import annotations

import json
import shlex

import pytest

from consumer.cli.main import COMMANDS
from consumer.errors import GapFound, LeaseHeld
from consumer.model.inspection import Detected, InspectResult
from consumer.model.names import TableName
from consumer.model.result import PlannedStep, PlanResult, RunResult, StatusResult, TableResult, TableStatus, TargetDdl
from tests.unit.cli.conftest import UPSTREAM, FakeApp, exit_code

T1 = 1700000000000 << 18
ORDERS = TableName("shop", "orders")
PARTLY = RunResult(
    checkpoint_ts=T1 + 5,
    tables={
        ORDERS: TableResult(rows=4000, puts=3000, deletes=10, ddl=1, dropped_rows=2, watermark=T1),
        TableName("shop", "bad.one"): TableResult(
            state="stopped", error="a row is refused", hint="mend it", watermark=T1 - 9
        ),
        TableName("shop", "late"): TableResult(state="waits", error="waits for shop.bad", watermark=T1 - 9),
        TableName("shop", "idle"): TableResult(watermark=T1),
    },
    seconds=1.23456,
    exit_code=3,
)


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command.name)
def test_the_example_of_the_help_runs(command, app: FakeApp, tmp_path, monkeypatch, capsys) -> None:  # type: ignore[no-untyped-def]
    monkeypatch.chdir(tmp_path)
    (tmp_path / "changefeed.toml").write_text('[sink]\nprotocol = "canal-json"\n', encoding="utf-8")
    nothing = Detected(None, None, None, None, None, None, False, "", 0)
    results = {
        "plan": PlanResult(T1, ()),
        "status": StatusResult(None, 0, None, ()),
        "skip-ddl": "recorded",
        "inspect": InspectResult("file:///data/cdc", None, (), (), nothing, (), "[sink]", "storage-consumer once"),
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
    assert set(body) == {"checkpoint_ts", "tables", "seconds"}
    assert body["checkpoint_ts"] == T1 + 5
    assert body["tables"]["shop.orders"] == {
        "rows": 4000, "puts": 3000, "deletes": 10, "ddl": 1, "dropped_rows": 2, "watermark": T1, "state": "ok",
        "error": None,
    }  # fmt: skip
    assert body["tables"]["shop.bad.one"]["state"] == "stopped"
    assert body["tables"]["shop.bad.one"]["error"] == "a row is refused"
    assert "shop.idle" in body["tables"]
    assert "a row is refused" in shown.err


def test_text_has_the_tables_and_the_way_back(app: FakeApp, capsys: pytest.CaptureFixture[str]) -> None:
    app.result = PARTLY
    assert exit_code("once", "--upstream-uri", UPSTREAM, "--downstream-uri", "mysql://root:hunter22@h/") == 3
    shown = capsys.readouterr()
    row = next(line for line in shown.out.splitlines() if line.startswith("shop.orders")).split()
    assert row == ["shop.orders", "4,000", "3,000", "10", "1", "2", "2023-11-14T22:13:20.000Z", "ok"]
    assert "1 tables without changes" in shown.out
    assert "shop.bad.one is stopped: a row is refused\n  mend it\n" in shown.err
    command = (
        "storage-consumer resync --table 'shop.`bad.one`' "
        "--upstream-uri 'file:///data/cdc?protocol=canal-json' --downstream-uri 'mysql://root:***@h/'"
    )
    assert command in shown.err
    assert "shop.late waits for shop.bad" in shown.err


def test_nothing_new_is_one_line(app: FakeApp, capsys: pytest.CaptureFixture[str]) -> None:
    app.result = RunResult(checkpoint_ts=1700000000000 << 18, tables={ORDERS: TableResult(watermark=T1)})
    assert exit_code("once", "--upstream-uri", UPSTREAM) == 0
    assert capsys.readouterr().out == "nothing new up to 2023-11-14T22:13:20.000Z\n"


def test_resync_and_skip_ddl_name_their_table(app: FakeApp, capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code("resync", "--table", "`a.b`.`c``d`", "--upstream-uri", UPSTREAM) == 0
    assert app.calls[-1][2] == (TableName("a.b", "c`d"),)
    app.result = "recorded"
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
    steps = (
        PlannedStep(
            "ddl", ORDERS, T1, T1, statement="DROP TABLE\n orders", touches=(ORDERS, late), policy="rename", target=kept
        ),
        PlannedStep("ddl", ORDERS, T1, T1, statement="DROP INDEX i ON orders", touches=(ORDERS,), policy="ignore"),
        PlannedStep("load", ORDERS, T1, T1 + 9, files=3, bytes=5 << 20),
        PlannedStep(
            "barrier", late, T1, T1 + 1, statement="RECOVER TABLE late", touches=(late,), waits_for="shop.bad",
            policy="evolve", target=TargetDdl(error="it is lost"),
        ),
    )  # fmt: skip
    app.result = PlanResult(T1 + 9, steps, ("unknown path x",))
    assert exit_code("plan", "--upstream-uri", UPSTREAM) == 0
    text = capsys.readouterr().out
    assert "5.0 MiB" in text
    assert "note: unknown path x" in text
    shown = f"""\
DDL {T1} 2023-11-14T22:13:20.000Z shop.orders (touches shop.late too)
  policy    rename
  upstream  DROP TABLE orders
  target    RENAME TABLE `shop`.`orders` TO `shop`.`__trash_9_orders`
  note      a note
DDL {T1} 2023-11-14T22:13:20.000Z shop.orders
  policy    ignore
  upstream  DROP INDEX i ON orders
  target    nothing, as the policy is ignore
DDL {T1 + 1} 2023-11-14T22:13:20.000Z shop.late
  policy    evolve, waits for shop.bad
  upstream  RECOVER TABLE late
  target    would refuse it: it is lost
"""
    assert shown in text
    assert exit_code("plan", "--upstream-uri", UPSTREAM, "--json") == 0
    body = json.loads(capsys.readouterr().out)
    assert [step["kind"] for step in body["steps"]] == ["ddl", "ddl", "load", "barrier"]
    assert body["steps"][0]["touches"] == ["shop.orders", "shop.late"]
    assert body["steps"][0]["policy"] == "rename"
    assert body["steps"][0]["target"] == {"statements": list(kept.statements), "note": "a note", "error": ""}
    assert [step["target"] for step in body["steps"][1:3]] == [None, None]
    assert (body["steps"][2]["table"], body["steps"][2]["bytes"]) == ("shop.orders", 5 << 20)


def test_status_as_text_and_json(app: FakeApp, capsys: pytest.CaptureFixture[str]) -> None:
    rows = (
        TableStatus(ORDERS, T1, "stopped", "a row is refused", "mend it"),
        TableStatus(TableName("shop", "late"), T1, "waits", "waits for shop.orders: a row is refused"),
    )
    app.result = StatusResult("file:///data/cdc", T1, T1 + (90_000 << 18), rows)
    assert exit_code("status", "--upstream-uri", UPSTREAM) == 0
    text = capsys.readouterr().out
    assert "90.0 s behind" in text
    assert "shop.orders is stopped: a row is refused" in text
    assert "\nshop.late waits for shop.orders: a row is refused\n" in text
    assert f"storage-consumer resync --table shop.orders --upstream-uri '{UPSTREAM}'" in text
    assert exit_code("status", "--upstream-uri", UPSTREAM, "--json") == 0
    body = json.loads(capsys.readouterr().out)
    assert body["lag_seconds"] == 90.0
    assert body["tables"]["shop.orders"]["reason"] == "a row is refused"


def test_status_of_a_storage_that_cannot_be_asked(app: FakeApp, capsys: pytest.CaptureFixture[str]) -> None:
    app.result = StatusResult("file:///data/cdc", T1, None, (), ("the storage does not answer",))
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
        observer.note("no commit-ts")  # type: ignore[attr-defined]
        observer.note("no commit-ts")  # type: ignore[attr-defined]
        return RunResult(notes=["no commit-ts", "unknown path"])

    app.action = note
    assert exit_code("once", "--upstream-uri", UPSTREAM) == 0
    told = capsys.readouterr().err
    assert told.count("no commit-ts") == 1
    assert told.count("unknown path") == 1
