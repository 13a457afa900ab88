"""Several upstreams and targets in one command: each is a consumer of its own, and none holds up the others."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import duckdb
import pytest

from consumer import app
from consumer.app import several
from consumer.config.load import load
from consumer.errors import BadConfig, ConsumerError, LeaseHeld
from consumer.results import RunResult
from consumer.sink.columnar.lock import FileLock
from tests.e2e.test_output_schema import checked
from tests.support.command_line import CommandLine, Left, command_line
from tests.support.feed import Feed
from tests.support.inline_loader import InlineLoader
from tests.support.observers import Recorder


@pytest.fixture
def consumer(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> CommandLine:
    return command_line(tmp_path, capsys, monkeypatch)


def bank(folder: Path, money: int, ts: int = 20) -> Feed:
    """A storage with the table bank.a, which has one row."""
    feed = Feed(folder)
    feed.folder.mkdir()
    feed.database("bank", 5)
    feed.create("bank.a", 10)
    feed.puts("bank.a", 10, {ts: (1, str(money))})
    feed.checkpoint(ts + 10)
    return feed


class Banks:
    """Two storages of the same names, which come into one DuckDB file by routes."""

    def __init__(self, folder: Path, consumer: CommandLine) -> None:
        self.cli, self.folder, self.file = consumer, folder, folder / "all.duckdb"
        self.eu, self.us = bank(folder / "eu", 1), bank(folder / "us", 2)
        self.config = folder / "several.toml"
        self.write()

    def write(self, more: str = "", general: str = "") -> None:
        entries = "".join(
            f"""
[[consumer.upstreams]]
name = "{name}"
uri = "file://{self.folder}/{name}?protocol=canal-json"
routes = [{{ from = "bank.*", to = "{name}.*" }}]
"""
            for name in ("eu", "us")
        )
        target = "" if "targets" in more else f'downstream-uri = "duckdb:///{self.file}"\n'
        self.config.write_text(f'[consumer]\ntz = "UTC"\n{target}{general}{entries}{more}', encoding="utf-8")

    def run(self, command: str, *more: str) -> Left:
        return self.cli.raw(command, "--config", str(self.config), "--log-level", "error", *more)

    def rows(self, file: str = "all") -> dict[str, list[tuple[Any, ...]]]:
        with duckdb.connect(str(self.folder / f"{file}.duckdb"), read_only=True) as connection:
            names = connection.execute(
                "SELECT table_schema, table_name FROM information_schema.tables "
                "WHERE table_schema NOT IN ('storage_consumer', 'main') ORDER BY 1, 2"
            ).fetchall()
            return {
                f"{schema}.{name}": connection.execute(f'SELECT id, v FROM "{schema}"."{name}" ORDER BY id').fetchall()
                for schema, name in names
            }


@pytest.fixture
def banks(tmp_path: Path, consumer: CommandLine) -> Banks:
    return Banks(tmp_path, consumer)


def test_two_upstreams_fill_one_target(banks: Banks) -> None:
    left = banks.run("once")
    assert left.code == 0
    assert banks.rows() == {"eu.a": [(1, 1)], "us.a": [(1, 2)]}
    assert [line.split(":")[0] for line in left.out.splitlines() if " -> duckdb://" in line] == ["eu", "us"]
    told = checked(banks.run("status", "--json"), "SeveralResult")
    assert {name: body["target_upstream"] for name, body in told["consumers"].items()} == {
        name: f"file://{banks.folder}/{name}" for name in ("eu", "us")
    }
    banks.eu.puts("bank.a", 10, {40: (1, "11")})
    banks.eu.checkpoint(50)
    again = checked(banks.run("once", "--json"), "SeveralResult")
    assert again["consumers"]["eu"]["tables"]["bank.a"]["rows"] == 1
    assert banks.rows() == {"eu.a": [(1, 11)], "us.a": [(1, 2)]}


def test_the_same_progress_is_reached_by_the_plain_way(banks: Banks) -> None:
    banks.run("once")
    banks.us.puts("bank.a", 10, {40: (1, "22")})
    banks.us.checkpoint(50)
    plain = ["--upstream-uri", f"file://{banks.folder}/us?protocol=canal-json", "--route", "bank.* -> us.*"]
    left = banks.cli.raw(
        "once", *plain, "--name", "us", "--tz", "UTC", "--downstream-uri", f"duckdb:///{banks.file}", "--json"
    )
    assert (left.code, left.json["tables"]["bank.a"]["rows"]) == (0, 1)
    assert banks.rows()["us.a"] == [(1, 22)]
    assert banks.run("once", "--json").json["consumers"]["us"]["tables"]["bank.a"]["rows"] == 0


def test_one_that_fails_does_not_hold_up_the_other(banks: Banks) -> None:
    (banks.eu.folder / "metadata").write_text("{", encoding="utf-8")
    left = banks.run("once", "--json", "--max-wait", "0")
    assert checked(left, "SeveralResult")["exit_code"] == 4
    assert {name: body["exit_code"] for name, body in left.json["consumers"].items()} == {"eu": 4, "us": 0}
    assert banks.rows() == {"us.a": [(1, 2)]}
    assert "storage-consumer: eu: " in left.err
    banks.eu.checkpoint(30)
    assert banks.run("once").code == 0
    assert banks.rows() == {"eu.a": [(1, 1)], "us.a": [(1, 2)]}


def test_the_exit_code_is_the_worst_and_hints_name_the_pair(banks: Banks) -> None:
    banks.eu.damaged("bank.a", 10)
    (banks.us.folder / "metadata").unlink()
    left = banks.run("once", "--max-wait", "0")
    assert left.code == 3
    assert "--only eu" in next(
        line for line in left.err.splitlines() if "storage-consumer once --accept-gap-in" in line
    )
    banks.eu.checkpoint(30)
    banks.us.checkpoint(30)
    for damaged in banks.eu.folder.glob("bank/a/10/CDC*2.json"):
        damaged.write_bytes(b"")
    resync = banks.run("resync", "--table", "bank.a", "--only", "eu")
    assert resync.code == 0
    assert banks.rows()["eu.a"] == [(1, 1)]


def test_a_signal_is_told_of_each_by_its_name(banks: Banks, monkeypatch: pytest.MonkeyPatch) -> None:
    load = InlineLoader.load

    def ended(self: InlineLoader, *more: Any) -> Any:
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(0.1)
        return load(self, *more)

    with monkeypatch.context() as patch:
        patch.setattr(InlineLoader, "load", ended)
        left = banks.run("once")
    assert left.code == 4
    for name in ("eu", "us"):
        assert f"storage-consumer: {name}: stopped by a signal (SIGTERM)" in left.err
    assert banks.rows() == {"eu.a": []}
    assert banks.run("once").code == 0
    assert banks.rows() == {"eu.a": [(1, 1)], "us.a": [(1, 2)]}


def test_two_upstreams_of_one_table_are_refused_by_name(banks: Banks) -> None:
    banks.config.write_text(banks.config.read_text(encoding="utf-8").replace("us.*", "eu.*"), encoding="utf-8")
    left = banks.run("once")
    assert left.code == 5
    assert "belongs to the consumer 'eu' of this target" in left.err
    assert banks.rows() == {"eu.a": [(1, 1)]}


def test_commands_for_one_pair_ask_for_it(banks: Banks) -> None:
    banks.run("once")
    for command in (["plan"], ["verify"], ["resync", "--table", "bank.a"], ["inspect"], ["forget"]):
        left = banks.run(*command)
        assert left.code == 2
        assert "there are several: eu, us" in left.err
        assert "--only" in left.err
    assert banks.run("verify", "--only", "us").code == 0
    assert banks.run("plan", "--only", "us", "--json").json["name"] == "us"


TARGETS = """
[[consumer.targets]]
name = "copy"
uri = "duckdb:///{folder}/copy.duckdb"
tables = ["bank.*"]

[[consumer.targets]]
name = "log"
uri = "duckdb:///{folder}/log.duckdb"
table-modes = [{{ tables = ["*.*"], mode = "append" }}]
"""


def test_several_targets_have_forms_and_progress_of_their_own(banks: Banks) -> None:
    upstream = ("--upstream-uri", f"file://{banks.folder}/eu?protocol=canal-json")
    banks.config.write_text(TARGETS.format(folder=banks.folder), encoding="utf-8")
    assert banks.run("once", *upstream, "--tz", "UTC").code == 0
    banks.eu.puts("bank.a", 10, {40: (1, "11")})
    banks.eu.checkpoint(50)
    assert banks.run("once", *upstream, "--tz", "UTC", "--only", "log").code == 0
    assert banks.rows("copy") == {"bank.a": [(1, 1)]}
    assert banks.rows("log") == {"bank.a": [(1, 1), (1, 11)]}
    assert banks.run("once", *upstream, "--tz", "UTC").code == 0
    assert banks.rows("copy") == {"bank.a": [(1, 11)]}
    assert banks.rows("log") == {"bank.a": [(1, 1), (1, 11)]}


def test_a_target_that_is_down_does_not_hold_up_the_others(banks: Banks) -> None:
    upstream = ("--upstream-uri", f"file://{banks.folder}/eu?protocol=canal-json")
    text = TARGETS.format(folder=banks.folder).replace(
        f"duckdb:///{banks.folder}/copy.duckdb", "mysql://u@127.0.0.1:9/"
    )
    banks.config.write_text(text, encoding="utf-8")
    left = banks.run("once", *upstream, "--tz", "UTC", "--max-wait", "0", "--json")
    assert {name: body["exit_code"] for name, body in left.json["consumers"].items()} == {"copy": 4, "log": 0}
    assert (left.code, banks.rows("log")) == (4, {"bank.a": [(1, 1)]})


def test_a_renamed_entry_goes_on_once_the_old_name_is_forgotten(banks: Banks) -> None:
    banks.run("once")
    banks.config.write_text(banks.config.read_text(encoding="utf-8").replace('"us"', '"america"'), encoding="utf-8")
    left = banks.run("once")
    assert (left.code, banks.rows()) == (5, {"eu.a": [(1, 1)], "us.a": [(1, 2)]})
    command = next(line for line in left.err.splitlines() if "forget --name us" in line).partition("storage-consumer ")[
        2
    ]
    assert banks.cli.raw(*shlex.split(command)).code == 0
    with duckdb.connect(str(banks.file)) as connection:
        connection.execute("DROP TABLE us.a")
    assert banks.run("once").code == 0
    assert banks.rows() == {"eu.a": [(1, 1)], "us.a": [(1, 2)]}
    assert banks.run("once", "--name", "us").code == 2


def test_a_name_to_forget_is_of_one_target(banks: Banks) -> None:
    banks.config.write_text(TARGETS.format(folder=banks.folder), encoding="utf-8")
    upstream = ("--upstream-uri", f"file://{banks.folder}/eu?protocol=canal-json", "--tz", "UTC")
    assert banks.run("once", *upstream).code == 0
    left = banks.run("forget", "--name", "copy", "--yes")
    assert (left.code, "give --only with one of these names" in left.err) == (2, True)
    assert banks.run("forget", "--name", "copy", "--yes", "--only", "log").code == 2
    assert banks.run("forget", "--name", "copy", "--yes", "--only", "copy").code == 0


class Beside:
    """`run` of all consumers of a file on threads, until `ends` or `close`."""

    def __init__(self, config: Path, **flags: object) -> None:
        found = load({"flush_interval": "200ms", **flags}, {}, str(config))
        self.consumers = {name: (settings, Recorder()) for name, settings in found.several.items()}
        self.stop, self.errors = threading.Event(), list[tuple[str, Exception]]()
        self.ended: dict[str, several.Ended] = {}
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        self.ended = app.run_all(
            self.consumers, self.stop, lambda name, error: self.errors.append((name, error)), InlineLoader()
        )

    def ends(self) -> dict[str, several.Ended]:
        self.close()
        assert not self._thread.is_alive()
        return self.ended

    def close(self) -> None:
        self.stop.set()
        self._thread.join(60)

    def until(self, holds: Callable[[], bool]) -> None:
        deadline = time.monotonic() + 60
        while not holds():
            assert time.monotonic() < deadline, self.errors
            assert self._thread.is_alive(), self.errors
            time.sleep(0.01)


Begin = Callable[..., Beside]


@pytest.fixture
def begin(banks: Banks) -> Iterator[Begin]:
    with ExitStack() as ends:

        def begin(**flags: object) -> Beside:
            beside = Beside(banks.config, **flags)
            ends.callback(beside.close)
            return beside

        yield begin


def test_run_of_two_upstreams_into_one_file(banks: Banks, begin: Begin) -> None:
    beside = begin()
    beside.until(lambda: banks.file.exists() and seen(banks) == {"eu.a": [(1, 1)], "us.a": [(1, 2)]})
    for moment in range(3):
        banks.us.puts("bank.a", 10, {40 + moment: (1, str(moment))})
        banks.us.checkpoint(40 + moment)
        beside.until(lambda moment=moment: seen(banks).get("us.a") == [(1, moment)])  # type: ignore[misc]
    ended = beside.ends()
    assert not beside.errors
    us = ended["us"]
    assert isinstance(us, RunResult)
    (table,) = (found for name, found in us.tables.items() if name.table)
    assert (us.exit_code, table.rows) == (0, 4)


def seen(banks: Banks) -> dict[str, list[tuple[Any, ...]]]:
    """In this process nobody can open the file while a round runs."""
    try:
        return banks.rows()
    except duckdb.Error:
        return {}


def test_run_goes_on_beside_one_that_fails_and_begins_it_again(
    banks: Banks, begin: Begin, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(several, "AGAIN_AFTER", 0.3)
    text = TARGETS.format(folder=banks.folder)
    (banks.folder / "log.duckdb").write_text("not a database", encoding="utf-8")
    banks.config.write_text(text, encoding="utf-8")
    beside = begin(upstream_uri=f"file://{banks.folder}/eu?protocol=canal-json", tz="UTC")
    beside.until(lambda: len(beside.errors) > 1)
    banks.eu.puts("bank.a", 10, {40: (1, "11")})
    banks.eu.checkpoint(50)
    beside.until(lambda: (banks.folder / "copy.duckdb").exists() and seen_in(banks, "copy") == {"bank.a": [(1, 11)]})
    (banks.folder / "log.duckdb").unlink()
    beside.until(lambda: seen_in(banks, "log") == {"bank.a": [(1, 1), (1, 11)]})
    ended = beside.ends()
    assert {name for name, _ in beside.errors} == {"log"}
    assert [isinstance(one, RunResult) and one.exit_code for one in ended.values()] == [0, 0]


def seen_in(banks: Banks, file: str) -> dict[str, list[tuple[Any, ...]]]:
    try:
        return banks.rows(file)
    except duckdb.Error:
        return {}


def test_run_waits_for_another_command_that_has_the_file_between_turns(banks: Banks, begin: Begin) -> None:
    beside = begin()
    beside.until(lambda: banks.file.exists() and seen(banks) == {"eu.a": [(1, 1)], "us.a": [(1, 2)]})
    other = FileLock(f"{banks.file}.staging", "file")

    def taken() -> bool:
        with suppress(LeaseHeld):
            other.take()
        return other.held

    beside.until(taken)
    told = "round: another consumer is running on this file"
    beside.until(lambda: all(told in "".join(observer.retries) for _, observer in beside.consumers.values()))
    other.release()
    banks.us.puts("bank.a", 10, {40: (1, "9")})
    banks.us.checkpoint(50)
    beside.until(lambda: seen(banks).get("us.a") == [(1, 9)])
    beside.ends()
    assert not beside.errors


def test_run_ends_when_all_have_failed(banks: Banks) -> None:
    banks.file.write_text("not a database", encoding="utf-8")
    left = banks.run("run", "--json")
    assert left.code == 2
    body = json.loads(left.out.splitlines()[-1])
    assert {one["exit_code"] for one in body["consumers"].values()} == {2}


def test_a_bug_in_one_is_told_and_leaves_the_others(banks: Banks, monkeypatch: pytest.MonkeyPatch) -> None:
    once = app.once

    def broken(settings: Any, *more: Any) -> RunResult:
        if settings.name == "eu":
            raise RuntimeError("broken")
        return once(settings, *more)

    monkeypatch.setattr(app, "once", broken)
    with pytest.raises(AssertionError):
        banks.run("once")
    assert banks.rows() == {"us.a": [(1, 2)]}


def test_what_is_refused_goes_on_as_the_hint_says(banks: Banks) -> None:
    before = banks.config.read_text(encoding="utf-8")

    def refused(hint: str, *more: str, text: str = before) -> None:
        banks.config.write_text(text, encoding="utf-8")
        left = banks.run("once", *more)
        assert (left.code, left.out) == (2, "")
        assert hint in left.err
        banks.config.write_text(before, encoding="utf-8")

    one = f"file://{banks.folder}/eu?protocol=canal-json"
    refused("leave it out; --only NAME chooses one of them", "--upstream-uri", one)
    refused("leave it out; --only NAME chooses one of them", "--name", "eu")
    refused("the names are those of the entries", "--only", "asia")
    refused("set it in [consumer], or by its flag", text=before.replace("routes =", "log-level = 'x'\nroutes =", 1))
    refused("rename one", text=before.replace('name = "us"', 'name = "eu"'))
    twice = before.replace("us?", "eu?").replace("us.*", "eu.*")
    refused("leave one of them out, or give it routes or tables of its own", text=twice)
    plain = ["--upstream-uri", one, "--downstream-uri", f"duckdb:///{banks.folder}/one.duckdb", "--tz", "UTC"]
    assert "leave it out" in banks.cli.raw("once", *plain, "--only", "eu").err
    assert banks.cli.raw("once", *plain).code == 0
    assert banks.rows("one") == {"bank.a": [(1, 1)]}
    assert "give --only with one of these names" in banks.run("plan").err
    assert banks.run("plan", "--only", "eu").code == 0
    assert banks.run("once", "--only", "eu").code == 0
    assert banks.rows() == {"eu.a": [(1, 1)]}


def examples() -> list[str]:
    """The files of docs/several.md."""
    text = (Path(__file__).parents[2] / "docs" / "several.md").read_text(encoding="utf-8")
    return re.findall(r"```toml\n(.*?)```", text, re.DOTALL)


def test_the_examples_of_the_docs(banks: Banks) -> None:
    upstreams, targets, together = examples()
    for text in (upstreams, together):
        for name in ("eu", "us"):
            text = re.sub(rf"s3://{name}-bucket/cdc\?([^&]*)&[^\"]*", rf"file://{banks.folder}/{name}?\1", text)
        banks.config.write_text(text, encoding="utf-8")
        assert banks.run("once").code == 0
        assert banks.rows("replica") == {"bank_eu.a": [(1, 1)], "bank_us.a": [(1, 2)]}
    targets = re.sub(r"s3://bucket/cdc\?([^&]*)&[^\"]*", rf"file://{banks.folder}/eu?\1", targets)
    banks.config.write_text(targets.replace("shop.", "bank."), encoding="utf-8")
    assert banks.run("once").code == 0
    assert banks.rows("copy") == banks.rows("log") == {"bank.a": [(1, 1)]}


def test_the_docs_name_the_pairs_as_they_are(banks: Banks) -> None:
    text = banks.config.read_text(encoding="utf-8").replace("downstream-uri", "#") + TARGETS.format(folder=banks.folder)
    banks.config.write_text(text, encoding="utf-8")
    told = banks.run("status", "--json").json["consumers"]
    assert list(told) == ["eu.copy", "eu.log", "us.copy", "us.log"]
    assert list(banks.run("status", "--json", "--only", "eu").json["consumers"]) == ["eu.copy", "eu.log"]


def test_upstreams_of_flags_have_names(banks: Banks) -> None:
    uris = {name: f"file://{banks.folder}/{name}?protocol=canal-json" for name in ("eu", "us")}
    flags = ["--tz", "UTC", "--downstream-uri", f"duckdb:///{banks.folder}/one.duckdb", "--json"]

    def once(*upstreams: str, more: list[str]) -> Left:
        return banks.cli.raw("once", *(word for uri in upstreams for word in ("--upstream-uri", uri)), *flags, *more)

    left = once(uris["eu"], f"us={uris['us']}", more=[])
    assert left.code == 2
    assert "give each a name: --upstream-uri NAME=URI" in left.err
    named = once(*(f"{name}={uri}" for name, uri in uris.items()), more=["--route", "bank.* -> eu.*", "--only", "eu"])
    assert (named.code, named.json["name"]) == (0, "eu")
    last = once(uris["us"], uris["eu"], more=["--route", "bank.* -> last.*"])
    assert (last.code, last.json["upstream"]) == (0, uris["eu"])
    assert last.json["notes"] == [
        "--upstream-uri is given 2 times without names, and the last one counts: give NAME=URI"
    ]
    assert banks.rows("one") == {"eu.a": [(1, 1)], "last.a": [(1, 1)]}


def test_commands_of_one_pair_take_their_part_of_the_file(banks: Banks) -> None:
    banks.run("once")
    told = banks.run("inspect", "--only", "us", "--json").json
    assert (told["upstream"], list(told["tables"])) == (f"file://{banks.folder}/us?protocol=canal-json", ["bank.a"])
    left = banks.run("forget", "--only", "us")
    assert left.code == 2
    assert "storage-consumer forget --name us --yes" in left.err
    assert banks.run("forget", "--only", "us", "--yes").code == 0
    assert [body["tables_ok"] for body in banks.run("status", "--json").json["consumers"].values()] == [1, 0]


def test_the_plain_way_is_refused_for_a_name_of_another_upstream(banks: Banks) -> None:
    banks.run("once")
    flags = {"upstream_uri": [f"us=file://{banks.folder}/eu?protocol=canal-json"], "tz": "UTC"}
    settings = load({**flags, "downstream_uri": f"duckdb:///{banks.file}"}, {}).settings
    with pytest.raises(ConsumerError, match="belongs to the upstream") as refused:
        app.once(settings, Recorder(), InlineLoader())
    assert not isinstance(refused.value, BadConfig)
