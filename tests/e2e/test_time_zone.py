"""TIMESTAMPs are the moments that they are upstream, whatever zone this machine and the server are in."""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path

import duckdb
import pytest

from consumer import app
from consumer.errors import BadConfig
from consumer.model.actions import Action
from consumer.model.columns import Column
from tests.servers import MariaDb
from tests.support.build import ID
from tests.support.command_line import CommandLine
from tests.support.feed import Feed, Replica, states
from tests.support.observers import Recorder

AT = Column("at", "TIMESTAMP")
UTC = datetime(2026, 7, 1)


def feed_of(folder: Path, at: str) -> Feed:
    feed = Feed(folder)
    feed.database("d", 1)
    query = "CREATE TABLE `t` (`id` INT PRIMARY KEY,`at` TIMESTAMP NULL)"
    feed.statement("d.t", 2, Action.CREATE_TABLE, query, (ID, AT))
    row = json.loads(feed._line("d.t", 10, 1, ""))
    row |= {"data": [{"id": "1", "at": at}], "mysqlType": {"id": "int", "at": "timestamp"}}
    feed.file("d.t", 2, json.dumps(row).encode() + b"\r\n")
    return feed


@pytest.mark.parametrize(
    ("machine", "flags", "at"),
    [
        ("Asia/Shanghai", {"tz": "System"}, "2026-07-01 08:00:00"),
        ("Asia/Shanghai", {"tz": "America/New_York"}, "2026-06-30 20:00:00"),
        ("Europe/Berlin", {"tz": "-03:30"}, "2026-06-30 20:30:00"),
    ],
)
def test_both_targets_hold_the_moment(
    machine: str,
    flags: dict[str, object],
    at: str,
    fresh_mariadb: MariaDb,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TZ", machine)
    feed = feed_of(tmp_path / "storage", at)
    file = tmp_path / "replica.duckdb"
    for target in (fresh_mariadb.url(), f"duckdb:///{file}"):
        assert states(Replica(feed, target).once(20, **flags)) == {"d.t": "ok"}
    assert fresh_mariadb.execute("SET time_zone = '+00:00'", "SELECT at FROM d.t") == [(UTC,)]
    with duckdb.connect(str(file)) as connection:
        assert connection.sql('SELECT "at" FROM d.t').fetchall() == [(UTC,)]


def test_a_time_that_the_clock_never_showed_stops_its_table(tmp_path: Path) -> None:
    feed = feed_of(tmp_path / "storage", "2026-03-29 02:30:00")
    result = Replica(feed, f"duckdb:///{tmp_path / 'replica.duckdb'}").once(20, tz="Europe/Berlin")
    assert result.exit_code == 3
    [table] = [table for name, table in result.tables.items() if str(name) == "d.t"]
    assert "at: the clocks of Europe/Berlin were turned forward over '2026-03-29 02:30:00'" in table.error
    assert "line 1" in table.error or ":1" in table.error


def test_the_zone_is_bound_to_the_name(fresh_mariadb: MariaDb, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    feed = feed_of(tmp_path / "storage", "2026-07-01 08:00:00")
    for target in (fresh_mariadb.url(), f"duckdb:///{tmp_path / 'replica.duckdb'}"):
        replica = Replica(feed, target)
        replica.once(20, tz="Asia/Shanghai")
        with pytest.raises(BadConfig, match=r"--tz is UTC, .* filled under --tz Asia/Shanghai"):
            replica.once(20, tz="UTC")
        with pytest.raises(BadConfig, match="filled under --tz Asia/Shanghai"):
            app.plan(replica.settings(tz="UTC"), Recorder())
        monkeypatch.setenv("TZ", "Asia/Shanghai")
        assert replica.once(20, tz="System").exit_code == 0, "it is the same zone here"
        assert replica.seen.notes == [], "that was told by the first run, or nobody had to guess"
        monkeypatch.delenv("TZ")


def test_a_first_run_without_a_zone_says_which_one_it_binds(cli: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    flags = ("--upstream-uri", f"file://{cli.storage}?protocol=canal-json", "--downstream-uri", cli.target)
    first = cli.raw("once", *flags)
    assert (first.code, first.err.count("--tz is System, this machine's zone Asia/Tokyo")) == (0, 1)
    assert "System" not in cli.raw("once", *flags).err
    shown = cli.raw("status", *flags)
    assert "time zone   Asia/Tokyo\n" in shown.out
    assert cli.raw("status", *flags, "--json").json["time_zone"] == "Asia/Tokyo"


def test_a_first_run_that_is_refused_binds_no_zone(cli: CommandLine) -> None:
    assert cli.run("once", "--tz", "Asia/Tokyo", "--start-ts", "2999-01-01").code == 2
    assert cli.run("once", "--tz", "UTC").code == 0
    assert "time zone   UTC\n" in cli.run("status").out


def test_inspect_says_where_the_zone_comes_from(cli: CommandLine) -> None:
    assert (
        "time zone   not in the files: --tz is the changefeed's time zone, UTC below\n"
        in cli.raw("inspect", "--upstream-uri", f"file://{cli.storage}").out
    )
