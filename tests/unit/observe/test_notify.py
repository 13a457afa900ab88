"""What is told of a change of state, to whom, and how often."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from consumer.errors import CorruptFile, StorageUnavailable, TargetUnavailable
from consumer.model.events import (
    CheckpointRead,
    Recorded,
    Retrying,
    RetryPassed,
    RoundFinished,
    RoundStarted,
    TableStopped,
)
from consumer.model.hints import Hint, resync_command
from consumer.model.losses import Loss
from consumer.model.names import TableName
from consumer.model.progress import Progress, State, TableProgress
from consumer.model.times import ms_to_tso
from consumer.observe.live import Identity
from consumer.observe.logs import Log, LogSettings
from consumer.observe.notify import OUTAGE_SECONDS, Notifier

NOW = 1_800_000_000.0
A, B = TableName("shop", "a"), TableName("shop", "b")
ERROR = CorruptFile("no JSON: secret", hint=Hint(resync_command(A)), path="f.json", line=3)
HERE = Identity("prod", "s3://b/c", "duckdb:///r", "--name prod")


def notifier(to: str, tmp_path: Path, lasts: bool = True, clock: Callable[[], float] = lambda: NOW) -> Notifier:
    log = Log(LogSettings(file=str(tmp_path / "log")))
    scrub = lambda text: text.replace("secret", "***")  # noqa: E731
    return Notifier([to], HERE, lasts, scrub, log, clock, (0.0, 0.0))


def at(seconds_ago: float, **more: Any) -> Recorded:
    return Recorded(Progress("s3://b/c", ms_to_tso(int((NOW - seconds_ago) * 1000)), **more))


def stopped(table: TableName = A) -> dict[str, Any]:
    return {"tables": {table: TableProgress(ms_to_tso(int(NOW * 1000)), State.STOPPED, ERROR.sentence(), ERROR.hint)}}


def bodies(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] if path.exists() else []


BOTH = stopped(A)["tables"] | stopped(B)["tables"]
FINISHED = RoundFinished(9, 1.0, 0, 0)
CHANGES: dict[str, tuple[list[Any], list[str]]] = {
    "stops, in each of two rounds, and goes on": (
        [
            at(5),
            TableStopped(A, ERROR),
            at(5, **stopped()),
            FINISHED,
            TableStopped(A, ERROR),
            FINISHED,
            at(5),
            FINISHED,
        ],
        ["table-stopped", "table-resumed"],
    ),
    "a load beside it stops": ([at(5), TableStopped(A, ERROR, parallel_load=True), FINISHED], ["load-stopped"]),
    "was stopped before": ([at(5, **stopped()), RoundStarted(9, 1, 1, 1), TableStopped(A, ERROR), FINISHED], []),
    "another one stops": (
        [at(5, **stopped()), TableStopped(B, ERROR), at(5, tables=BOTH), FINISHED],
        ["table-stopped"],
    ),
    "a loss": (
        [at(5), at(5, losses={A: {"x": Loss("gone", "x", 1, 2)}}), FINISHED, FINISHED],
        ["loss-accepted"],
    ),
    "an old loss": ([at(5, losses={A: {"x": Loss("gone", "x", 1, 2)}}), FINISHED], []),
    "late, and no longer": (
        [at(599), FINISHED, at(601, late=True), FINISHED, FINISHED, at(599), FINISHED],
        ["lag-above", "lag-below"],
    ),
    "it was late before": ([at(601, late=True), FINISHED, at(599), FINISHED], ["lag-below"]),
    "nothing yet": ([Recorded(Progress()), FINISHED], []),
}


@pytest.mark.parametrize("case", CHANGES)
def test_each_change_is_told_once(case: str, tmp_path: Path) -> None:
    events, expected = CHANGES[case]
    got = tmp_path / "got"
    told = notifier(f"cat >> {got}; echo >> {got}", tmp_path)
    for event in events:
        told.tell(event)
    told.close()
    assert [body["event"] for body in bodies(got)] == expected


def test_it_says_what_to_do_without_secrets(tmp_path: Path) -> None:
    got = tmp_path / "got"
    told = notifier(f"cat >> {got}", tmp_path)
    told.tell(at(5))
    told.tell(TableStopped(A, ERROR))
    told.close()
    assert bodies(got) == [
        {
            "event": "table-stopped",
            "consumer": "prod",
            "upstream": "s3://b/c",
            "target": "duckdb:///r",
            "time": NOW,
            "table": "shop.a",
            "error": "f.json:3: no JSON: ***",
            "hint": "storage-consumer resync --table shop.a --name prod",
        }
    ]


def test_a_command_that_fails_is_tried_again_and_then_logged(tmp_path: Path) -> None:
    tries = tmp_path / "tries"
    told = notifier(f"echo >> {tries}; exit 1 # Bearer mine", tmp_path)
    told.tell(at(5))
    told.tell(TableStopped(A, ERROR))
    told.close()
    assert tries.read_text(encoding="utf-8") == "\n\n"
    log = (tmp_path / "log").read_text(encoding="utf-8")
    assert "a notification was not delivered" in log
    assert "exit code 1" in log
    assert "mine" not in log


@pytest.fixture
def webhook() -> Iterator[tuple[str, list[Any]]]:
    got: list[Any] = []

    class Hook(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            got.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(503 if len(got) == 1 else 200)
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Hook)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/hook", got
    server.shutdown()
    server.server_close()
    thread.join()


def test_a_webhook_gets_it_again_where_it_did_not_take_it(webhook: tuple[str, list[Any]], tmp_path: Path) -> None:
    url, got = webhook
    told = notifier(url, tmp_path)
    told.tell(at(5))
    told.tell(TableStopped(A, ERROR))
    told.close()
    assert [body["event"] for body in got] == ["table-stopped", "table-stopped"]


AWAY = Retrying("round", TargetUnavailable("no connection, secret", hint="start it"), None)
NO_STORAGE = Retrying("read the checkpoint", StorageUnavailable("no route"), None)
UNREADABLE = Retrying("load d.t", StorageUnavailable("refused", table="shop.a"), None)


@pytest.mark.parametrize(
    ("events", "lasts", "expected"),
    [
        ([AWAY, 1, AWAY, Recorded(Progress())], True, []),
        ([AWAY, OUTAGE_SECONDS, AWAY, 60, AWAY, Recorded(Progress())], True, ["target-down", "target-up"]),
        ([AWAY, OUTAGE_SECONDS, CheckpointRead(9)], True, ["target-down"]),
        ([AWAY, OUTAGE_SECONDS, AWAY, Recorded(Progress())], False, []),
        ([NO_STORAGE, 40, NO_STORAGE, AWAY, CheckpointRead(9)], True, ["storage-down", "storage-up"]),
        ([NO_STORAGE, 40, AWAY, RetryPassed("read the checkpoint")], True, ["storage-down", "storage-up"]),
        ([UNREADABLE, 40, UNREADABLE], True, []),
    ],
)
def test_an_outage_is_told_once_it_lasts(events: list[Any], lasts: bool, expected: list[str], tmp_path: Path) -> None:
    """Numbers are seconds that pass."""
    got, now = tmp_path / "got", [NOW]
    told = notifier(f"cat >> {got}; echo >> {got}", tmp_path, lasts, lambda: now[0])
    for event in events:
        if isinstance(event, (int, float)):
            now[0] += event
        else:
            told.tell(event)
    told.close()
    assert [body["event"] for body in bodies(got)] == expected
    for body in bodies(got)[:1]:
        assert "secret" not in body["error"]
