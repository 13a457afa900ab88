"""What commands say of tables that are not in order, and of what was meant: once, and with commands that help."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.servers import MariaDb
from tests.support.command_line import T_CREATED, CommandLine

CHECKPOINT = 470611625733521409


@pytest.fixture
def damaged(cli: CommandLine) -> CommandLine:
    cli.data_file("t", T_CREATED, 1).write_bytes(b"no rows\r\n")
    return cli


def test_why_a_table_is_stopped_is_told_once(damaged: CommandLine) -> None:
    reason = "this is not a canal-JSON file"
    left = damaged.run("once")
    assert left.err.count(reason) == 1
    assert "table=du.t error='du/t/" in left.err
    assert "du.t is stopped, for the reason above:\n  check that `protocol`" in left.err
    status = damaged.run("status").out
    assert status.count(reason) == 1
    assert "du.t is stopped: du/t/" in status


def test_where_the_log_is_elsewhere_the_end_tells_why(damaged: CommandLine, tmp_path: Path) -> None:
    left = damaged.run("once", "--log-file", str(tmp_path / "log"))
    assert "du.t is stopped: du/t/" in left.err
    log = (tmp_path / "log").read_text()
    assert "this is not a canal-JSON file" in log
    assert "check that `protocol`" in log


def test_a_command_in_a_hint_keeps_to_the_rules_of_the_call(damaged: CommandLine) -> None:
    left = damaged.run("once", "--tables", "du.t", "--tables", "du.n")
    (command,) = (line for line in left.err.splitlines() if "storage-consumer once --accept-gap-in" in line)
    assert "--tables du.t --tables du.n" in command


def test_a_command_in_a_hint_of_status_has_the_zone_of_the_replica(damaged: CommandLine) -> None:
    assert damaged.run("once", "--tz", "Asia/Tokyo").code == 3
    flags = ("--upstream-uri", f"file://{damaged.storage}?protocol=canal-json", "--downstream-uri", damaged.target)
    (command,) = (
        line
        for line in damaged.raw("status", *flags).out.splitlines()
        if "storage-consumer once --accept-gap-in" in line
    )
    assert command.endswith(" --tz Asia/Tokyo")


def test_a_table_that_a_replay_stops_is_offered_no_resync(damaged: CommandLine) -> None:
    left = damaged.run("replay", "--to-ts", str(CHECKPOINT))
    assert left.code == 3
    assert "du.t is stopped" in left.err
    assert "resync" not in left.err
    assert "replay the range again with --accept-gap-in du.t\n" in left.err
    refused = damaged.run("resync", "--table", "du.t", "--name", f"default.0-{CHECKPOINT}")
    assert (refused.code, "replay the range again, under another --name" in refused.err) == (2, True)
    damaged.mend()
    assert damaged.run("replay", "--to-ts", str(CHECKPOINT)).code == 0


def test_a_prefix_one_level_too_high_is_told_by_the_right_one(cli: CommandLine) -> None:
    above = cli.storage.parent / "above"
    (above / "other").mkdir(parents=True)
    cli.storage.rename(above / "cdc")
    for command in ("once", "plan", "backfill", "replay"):
        left = cli.run(command, "--upstream-uri", f"file://{above}?protocol=canal-json", "--json")
        assert (left.code, left.json["hint"]) == (4, f"there is one in file://{above}/cdc: did you mean that?")


def test_the_targets_that_there_are_are_named(cli: CommandLine) -> None:
    left = cli.run("once", "--downstream-uri", "postgres://h/")
    assert left.code == 2
    assert "does not begin with one of mysql://, mariadb://, tidb://, duckdb://" in left.err


def test_a_secret_in_a_command_has_its_place(damaged: CommandLine, fresh_mariadb: MariaDb) -> None:
    fresh_mariadb.execute("CREATE USER replica@'%' IDENTIFIED BY 'no-secret'")
    fresh_mariadb.execute("GRANT ALL ON *.* TO replica@'%'")
    uri = f"mysql://replica:no-secret@127.0.0.1:{fresh_mariadb.port}/"
    told = damaged.run("once", "--downstream-uri", uri).err, damaged.run("status", "--downstream-uri", uri).out
    for text in told:
        (command,) = (line for line in text.splitlines() if "storage-consumer once --accept-gap-in" in line)
        assert ":***@" in command
        assert text.count("*** in a command stands for a secret: put it there, or leave the flag out and set") == 1
    planned = damaged.run("plan", "--name", "other", "--downstream-uri", uri).out
    assert "storage-consumer forget --name default" in planned
    assert planned.count("*** in a command stands for a secret") == 1
