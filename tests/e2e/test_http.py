"""`run --http` and `--metrics-file` through the command line: what is served is what `status` says afterwards."""

from __future__ import annotations

import json
import os
import signal
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

import pytest
from prometheus_client.openmetrics import parser as openmetrics
from prometheus_client.parser import text_string_to_metric_families

from consumer.model.actions import Action
from tests.support.command_line import S_CREATED, T_CREATED, CommandLine, command_line
from tests.support.feed import Feed

_OF_THE_MOMENT = ("seconds", "asked", "unread", "lag_seconds", "checkpoint_age_seconds")
"""What differs from one look to the next, or is only seen in the storage."""


@pytest.fixture
def consumer(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> CommandLine:
    return command_line(tmp_path, capsys, monkeypatch)


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
        return port


def fetch(url: str) -> str:
    try:
        with urlopen(url, timeout=5) as answer:
            text: str = answer.read().decode()
            return text
    except HTTPError as error:
        return error.read().decode()


def values(text: str) -> dict[str, float]:
    """Each metric's value, the sum of those with labels."""
    found: dict[str, float] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            name = sample.name.removeprefix("storage_consumer_")
            found[name] = found.get(name, 0.0) + sample.value
    return found


class Looking:
    """While `run` goes on: waits until a round went through, takes what `look` returns, ends `run`."""

    def __init__(self, url: str, look: Callable[[], Any]) -> None:
        self._url, self._look, self.found = url, look, None
        self._thread = threading.Thread(target=self._watch)

    def __enter__(self) -> Looking:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._thread.join(60)

    def _watch(self) -> None:
        deadline = time.monotonic() + 60
        try:
            while time.monotonic() < deadline:
                with suppress(URLError, ConnectionError):
                    if values(fetch(f"{self._url}/metrics")).get("rounds_total"):
                        self.found = self._look()
                        return
                time.sleep(0.05)
        finally:
            os.kill(os.getpid(), signal.SIGINT)


def test_page_metrics_and_state_agree_with_status(consumer: CommandLine) -> None:
    damaged = consumer.data_file("t", T_CREATED, 1)
    damaged.write_bytes(b"{" + damaged.read_bytes())
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    paths = ("/", "/metrics", "/status.json", "/healthz", "/readyz")
    with Looking(url, lambda: {path: fetch(url + path) for path in paths}) as looking:
        consumer.run("run", "--http", f"127.0.0.1:{port}", "--flush-interval", "50ms")
    served = looking.found
    assert served is not None
    status = consumer.run("status", "--json").json
    shown = json.loads(served["/status.json"])
    for body in (status, shown):
        for key in _OF_THE_MOMENT:
            body.pop(key, None)
    assert status["tables"]["du.t"].pop("resync") is True  # only the storage can say so
    assert shown["tables"]["du.t"].pop("resync") is False
    assert shown == status
    metrics = values(served["/metrics"])
    assert (metrics["table_stopped"], metrics["tables"], metrics["rows_total"] > 0) == (1, 3, True)
    assert metrics["applied_timestamp_seconds"] == pytest.approx(int(status["watermark_str"]) // 2**18 / 1000)
    assert "1 table stopped" in served["/"]
    assert status["tables"]["du.t"]["error"].split("'")[0].split("<")[0] in served["/"].replace("&#39;", "'")
    assert served["/healthz"] == "ok\n"
    assert "behind" in served["/readyz"]  # the changefeed was recorded some time ago


PROMETHEUS = (
    "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,"
    "application/openmetrics-text;version=0.0.1;q=0.5,text/plain;version=1.0.0;escaping=allow-utf-8;q=0.4,"
    "text/plain;version=0.0.4;q=0.3,*/*;q=0.2"
)
"""What Prometheus 3 asks for."""
PARSERS = {
    "application/openmetrics-text": openmetrics.text_string_to_metric_families,
    "text/plain": text_string_to_metric_families,
}


def test_prometheus_takes_the_metrics_of_hostile_names(consumer: CommandLine, tmp_path: Path) -> None:
    names = [
        'x"',
        "x\\",
        "x\\n",
        "x\n# TYPE y gauge\ny 1",
        "x\r",
        'x{a="b"} 1',
        "x\x01\x1b\u202e\u2028é漢",
        "x,",
        " # ",
    ]
    feed = Feed(tmp_path / "feed")
    feed.database("d", 1)
    for number, name in enumerate(names):
        feed.create(f"d.{name}", 10 + number)
        feed.puts(f"d.{name}", 10 + number, {30 + number: (1, "1")})
    feed.damaged(f"d.{names[0]}", 10)
    feed.checkpoint(100)
    port = free_port()
    url = f"http://127.0.0.1:{port}/metrics"

    def look() -> tuple[str, str]:
        with urlopen(Request(url, headers={"Accept": PROMETHEUS}), timeout=5) as answer:
            return answer.headers["Content-Type"], answer.read().decode()

    with Looking(url.removesuffix("/metrics"), look) as looking:
        consumer.raw(
            "run", "--upstream-uri", f"file://{feed.folder}?protocol=canal-json", "--tz", "UTC",
            "--downstream-uri", f"duckdb:///{tmp_path}/names.duckdb", "--http", f"127.0.0.1:{port}",
            "--flush-interval", "50ms", "--log-level", "error",
        )  # fmt: skip
    assert looking.found is not None
    content_type, text = looking.found
    families = {family.name: family for family in PARSERS[content_type.partition(";")[0]](text)}
    assert "y" not in families
    lags = families["storage_consumer_table_lag_seconds"].samples
    assert sorted(sample.labels["table"] for sample in lags) == sorted(names)
    stopped = families["storage_consumer_table_stopped"].samples
    assert [(sample.labels["table"], sample.value) for sample in stopped] == [(names[0], 1)]
    rows = families["storage_consumer_rows"].samples
    assert {sample.labels["table"]: sample.value for sample in rows if sample.value} == dict.fromkeys(names[1:], 1)


def by_state(metrics: str) -> dict[str, int]:
    found = {}
    for family in text_string_to_metric_families(metrics):
        for sample in family.samples if family.name == "storage_consumer_tables" else ():
            if sample.value:
                found[sample.labels["state"]] = int(sample.value)
    return found


def of_table(metrics: str, name: str) -> dict[str, float]:
    """By table, the sum of a metric's values."""
    found: dict[str, float] = {}
    for family in text_string_to_metric_families(metrics):
        for sample in family.samples if family.name == f"storage_consumer_{name}" else ():
            table = f"{sample.labels['database']}.{sample.labels['table']}"
            found[table] = found.get(table, 0.0) + sample.value
    return found


def test_under_load_and_faults_they_agree(consumer: CommandLine, tmp_path: Path) -> None:
    """d.a is stopped by a damaged file, d.w is to be made like it and waits, of d.l a lost file is accepted, d.g goes
    on all the time."""
    feed = Feed(tmp_path / "feed")
    feed.database("d", 1)
    for number, table in enumerate("alg"):
        feed.create(f"d.{table}", 10 + number)
        feed.puts(f"d.{table}", 10 + number, {20 + number: (1, "1")})
    feed.puts("d.l", 11, {30: (2, "2")}, number=3)
    feed.damaged("d.a", 10)
    feed.statement("d.w", 40, Action.CREATE_TABLE, "CREATE TABLE `w` LIKE `a`")
    feed.checkpoint(100)
    target = f"duckdb:///{tmp_path}/load.duckdb"
    flags = ["--upstream-uri", f"file://{feed.folder}?protocol=canal-json", "--downstream-uri", target, "--tz", "UTC"]
    flags += ["--log-level", "error", "--accept-gap-in", "d.l"]
    port = free_port()
    url, last = f"http://127.0.0.1:{port}", 100
    states = {"stopped": 1, "waits": 1, "ok": 2}

    def look() -> dict[str, str]:
        nonlocal last
        for number in range(2, 12):
            feed.puts("d.g", 12, {last + 1: (number, "2")}, number=number)
            last += 10
            feed.checkpoint(last)
            metrics, shown = fetch(f"{url}/metrics"), json.loads(fetch(f"{url}/status.json"))
            assert by_state(metrics) == states
            assert of_table(metrics, "table_stopped") == {"d.a": 1}
            assert {name: row["state"] for name, row in shown["tables"].items() if row["state"] != "ok"} == {
                "d.a": "stopped", "d.w": "waits",
            }  # fmt: skip
            assert "1 table stopped" in fetch(url)
        deadline = time.monotonic() + 30
        over = 0.0  # when all rows are there and a later round went through, nothing moves any more
        while not over or values(fetch(f"{url}/metrics"))["rounds_total"] < over:
            assert time.monotonic() < deadline
            time.sleep(0.05)
            metrics = fetch(f"{url}/metrics")
            if not over and of_table(metrics, "rows")["d.g"] == 11:
                over = values(metrics)["rounds_total"] + 2
        return {path: fetch(url + path) for path in ("/", "/metrics", "/status.json")}

    with Looking(url, look) as looking:
        consumer.raw("run", *flags, "--http", f"127.0.0.1:{port}", "--flush-interval", "20ms")
    assert looking.found is not None
    printed = consumer.raw("status", *flags, "--json")
    status, metrics, shown = printed.json, looking.found["/metrics"], json.loads(looking.found["/status.json"])
    for body in (status, shown):
        for key in _OF_THE_MOMENT:
            body.pop(key, None)
        for row in body["tables"].values():
            row.pop("resync")  # only the storage can say so
    assert shown == status
    assert status["tables_ok"] == 1
    assert {name for name, row in status["tables"].items() if row["accepted"]} == {"d.l"}
    assert of_table(metrics, "accepted_losses") == {"d.l": len(status["tables"]["d.l"]["accepted"])}
    behind = {name: row["watermark"] for name, row in status["tables"].items()}
    lags = of_table(metrics, "table_lag_seconds")
    assert sorted(lags) == [name for name in ("d.a", "d.g", "d.l", "d.w") if behind.get(name, last)]
    assert behind["d.a"] < last
    text = consumer.raw("status", *flags).out
    page = looking.found["/"]
    for word in ("d.a", "d.w", "d.l", "stopped", "waits"):
        assert word in text
        assert word in page
    assert "1 table stopped" in page


def test_a_checkpoint_that_goes_back_is_named_everywhere(consumer: CommandLine) -> None:
    consumer.run("once")
    sentence = "the storage's checkpoint went back"
    assert sentence not in consumer.run("status").out
    (consumer.storage / "metadata").write_text(json.dumps({"checkpoint-ts": S_CREATED}), encoding="utf-8")
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    paths = ("/", "/metrics", "/status.json", "/readyz")
    with Looking(url, lambda: {path: fetch(url + path) for path in paths}) as looking:
        log = consumer.run(
            "run", "--http", f"127.0.0.1:{port}", "--flush-interval", "50ms", "--log-level", "warning"
        ).err
    served = looking.found
    assert served is not None
    assert values(served["/metrics"])["checkpoint_went_back"] == 1
    status = consumer.run("status", "--json").json
    assert status["went_back"] == json.loads(served["/status.json"])["went_back"]
    assert status["went_back"].startswith(sentence)
    assert all(str(moment) in status["went_back"] for moment in (S_CREATED, status["watermark"]))
    assert log.count(sentence) == 1
    assert sentence in consumer.run("status").out
    assert sentence in served["/readyz"]
    assert sentence in served["/"].replace("&#39;", "'")
    assert "the checkpoint went back" in served["/"]


def test_once_leaves_its_metrics(consumer: CommandLine, tmp_path: Path) -> None:
    file = tmp_path / "metrics.prom"
    left = consumer.run("once", "--json", "--metrics-file", str(file))
    metrics = values(file.read_text(encoding="utf-8"))
    tables = left.json["tables"].values()
    assert (left.code, metrics["exit_code"]) == (0, 0)
    assert metrics["rows_total"] == sum(table["rows"] for table in tables) > 0
    assert metrics["changes_total"] == sum(table["changes"] for table in tables)
    consumer.data_file("s", S_CREATED, 1).unlink()
    consumer.storage.joinpath("metadata").unlink()
    left = consumer.run("once", "--max-wait", "0", "--metrics-file", str(file))
    metrics = values(file.read_text(encoding="utf-8"))
    assert (left.code, metrics["exit_code"], metrics["storage_up"], metrics["target_up"]) == (4, 4, 0, 1)


def test_a_metrics_file_that_cannot_be_written_changes_no_exit_code(consumer: CommandLine, tmp_path: Path) -> None:
    left = consumer.run("once", "--metrics-file", str(tmp_path / "nowhere" / "metrics.prom"))
    assert left.code == 0
    assert "metrics-file: " in left.err
    assert "cannot be written" in left.err


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (("--http", "9464"), "is not of the form HOST:PORT"),
        (("--http", "0.0.0.0:9464"), "no http-token is set"),
        (("--http", "127.0.0.1:99999"), "is not of the form HOST:PORT"),
    ],
)
def test_addresses_that_are_refused(consumer: CommandLine, flags: tuple[str, ...], message: str) -> None:
    left = consumer.run("run", *flags)
    assert (left.code, message in left.err) == (2, True)
