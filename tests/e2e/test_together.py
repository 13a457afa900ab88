"""Several upstreams that go together: none goes further than the lowest of their checkpoints."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import pytest

from tests.e2e.test_output_schema import checked
from tests.e2e.test_several import Beside
from tests.support.bank import NAMES, Bank, tso
from tests.support.command_line import CommandLine, Left, command_line


class Consumer(Bank):
    """With the command line in this process, and a DuckDB file."""

    def __init__(self, folder: Path, cli: CommandLine) -> None:
        super().__init__(folder, f"duckdb:///{folder}/bank.duckdb")
        self.cli = cli

    def run(self, command: str, *more: str) -> Left:
        return self.cli.raw(command, "--config", str(self.config), "--log-level", "error", *more)

    def rows(self) -> dict[str, Any]:
        with duckdb.connect(self.target.removeprefix("duckdb:///"), read_only=True) as connection:
            return {name: connection.execute(f"SELECT v FROM {name}.a").fetchone()[0] for name in NAMES}  # type: ignore[index]


@pytest.fixture
def bank(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Consumer:
    return Consumer(tmp_path, command_line(tmp_path, capsys, monkeypatch))


def test_none_goes_further_than_the_lowest_checkpoint(bank: Consumer) -> None:
    bank.move(10, "eu", "us", 30)
    bank.move(20, "us", "asia", 50)
    bank.checkpoints(eu=100, us=15, asia=50)
    left = bank.run("once", "--json")
    body = checked(left, "SeveralResult")
    assert bank.rows() == {"eu": 70, "us": 130, "asia": 100}
    assert {one["checkpoint_ts"] for one in body["consumers"].values()} == {tso(15)}
    assert {t["watermark"] for one in body["consumers"].values() for t in one["tables"].values()} == {tso(15)}
    told = {name: one["notes"] for name, one in body["consumers"].items()}
    assert told["us"] == told["asia"] == []
    assert told["eu"] == ["us holds up the others (together): it is more than 60 s behind"]
    bank.checkpoints(us=20)
    assert bank.run("once").code == 0
    assert bank.rows() == {"eu": 70, "us": 80, "asia": 150}


def test_status_plan_and_resync_know_of_it(bank: Consumer) -> None:
    bank.run("once")
    bank.move(10, "eu", "us", 30)
    bank.checkpoints(eu=100, asia=50, us=5)
    told = bank.run("status", "--json").json["consumers"]
    assert told["asia"]["notes"] == [
        "us holds up the others (together): its checkpoint is 2023-11-14T22:13:25Z, 45.0 s behind that of asia"
    ]
    planned = bank.run("plan", "--only", "eu", "--json").json
    assert planned["checkpoint_ts"] == tso(5)
    assert "us holds up the others" in planned["notes"][0]
    assert bank.run("resync", "--table", "bank.a", "--only", "eu").code == 0
    assert bank.run("once", "--only", "eu").code == 0
    assert bank.rows() == dict.fromkeys(NAMES, 100)


def test_one_that_cannot_be_read_holds_up_the_others(bank: Consumer) -> None:
    bank.run("once")
    bank.move(10, "eu", "us", 30)
    bank.checkpoints(eu=100, asia=100, us=100)
    metadata = bank.feeds["asia"].folder / "metadata"
    kept = metadata.read_bytes()
    metadata.unlink()
    left = bank.run("once", "--max-wait", "0")
    assert left.code == 4
    assert "asia holds up the others (together): there is no file metadata" in left.err
    assert "without it leave this upstream out of the file" in left.err
    assert "--checkpoint-ts" not in left.err, "which would be refused"
    assert bank.rows() == dict.fromkeys(NAMES, 100)
    metadata.write_bytes(kept)
    assert bank.run("once").code == 0
    assert bank.rows() == {"eu": 70, "us": 130, "asia": 100}


def test_one_that_is_too_far_behind_is_not_waited_for(bank: Consumer) -> None:
    bank.write('together = true\ntogether-max-wait = "1m"\n')
    bank.move(10, "eu", "us", 30)
    bank.checkpoints(eu=100, us=90, asia=35)
    assert bank.run("once", "--json").json["consumers"]["eu"]["notes"] == [
        "asia is more than together-max-wait (60 s) behind: the others continue without it"
    ]
    bank.checkpoints(asia=85)
    again = bank.run("once", "--json").json["consumers"]
    assert {name: one["checkpoint_ts"] for name, one in again.items()} == dict.fromkeys(NAMES, tso(85))
    assert {name: one["exit_code"] for name, one in again.items()} == dict.fromkeys(NAMES, 0)
    assert bank.run("status", "--json", "--only", "eu").json["watermark"] == tso(90)
    bank.checkpoints(eu=200, us=200, asia=200)
    assert bank.run("once").code == 0
    assert {one["watermark"] for one in bank.run("status", "--json").json["consumers"].values()} == {tso(200)}


def test_tables_above_the_lowest_checkpoint_stay_and_are_compared(bank: Consumer) -> None:
    """They came there before the upstreams went together."""
    bank.write("")
    bank.move(10, "eu", "us", 30)
    bank.checkpoints(eu=100, us=5, asia=5)
    assert bank.run("once").code == 0
    assert bank.rows() == {"eu": 70, "us": 100, "asia": 100}
    bank.write()
    bank.move(110, "eu", "us", 1)
    bank.checkpoints(eu=120, us=50)
    left = bank.run("once", "--json")
    assert left.code == 0
    assert {name: one["notes"] for name, one in left.json["consumers"].items() if name != "eu"} == {
        "us": [],
        "asia": [],
    }
    assert left.json["consumers"]["eu"]["notes"] == ["asia holds up the others (together): it is more than 60 s behind"]
    found = bank.run("verify", "--only", "eu", "--json")
    assert (found.code, found.json["tables"]["bank.a"]["state"]) == (0, "equal")
    assert bank.rows() == {"eu": 70, "us": 100, "asia": 100}
    bank.checkpoints(us=200, asia=200, eu=200)
    assert bank.run("once").code == 0
    assert bank.rows() == bank.held


def test_run_lets_go_of_one_that_is_refused(bank: Consumer) -> None:
    bank.write('together = true\ntogether-max-wait = "1m"\n')
    beside = Beside(bank.config)
    beside.until(lambda: seen(bank) == dict.fromkeys(NAMES, 100))
    asia = bank.feeds["asia"].folder
    asia.rename(asia.with_name("quarantined"))
    asia.write_text("no folder any more", encoding="utf-8")
    bank.move(70, "eu", "us", 30)
    bank.checkpoints(eu=100, us=100)
    beside.until(lambda: bool(beside.errors) and seen(bank) == {"eu": 70, "us": 130, "asia": 100})
    beside.ends()
    assert {name for name, _ in beside.errors} == {"asia"}


def seen(bank: Consumer) -> dict[str, Any]:
    """In this process nobody can open the file while a round runs."""
    try:
        return bank.rows()
    except (duckdb.Error, TypeError):
        return {}


def test_what_needs_moments_is_refused_without(bank: Consumer) -> None:
    bank.write('together = true\ncheckpoint-ts = "max"\n')
    assert "eu: `together` needs a checkpoint in its `metadata`" in bank.run("once").err
    bank.write()
    text = bank.config.read_text(encoding="utf-8")
    bank.config.write_text(text.replace("us?protocol=canal-json", "us?protocol=csv"), encoding="utf-8")
    assert "us: `together` needs the commit-ts of its rows" in bank.run("once").err
    bank.config.write_text(
        f'[consumer]\ntogether = true\nupstream-uri = "file://{bank.folder}/eu?protocol=canal-json"\n'
    )
    assert "`together` is for several upstreams, and there is one" in bank.run("once").err
    bank.config.write_text(text.replace("together = true", ""), encoding="utf-8")
    assert bank.run("once").code == 0
