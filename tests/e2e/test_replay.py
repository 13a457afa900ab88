"""A stretch of history, and a start from a snapshot: from the real command line, against recorded states."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import duckdb
import pytest

from consumer import app
from consumer.config.load import load
from consumer.errors import BadConfig
from consumer.model.actions import Action
from consumer.model.columns import Column
from consumer.model.times import ms_to_tso
from tests.e2e.corpus import Case, read_cases
from tests.e2e.targets import File, Server, Target
from tests.s3_server import READER, S3Server
from tests.support.build import ID, VALUE
from tests.support.command_line import DEMO_TABLES, T_WIDENED, CommandLine, command_line, duckdb_tables
from tests.support.feed import Feed, MemoryReplica
from tests.support.inline_loader import InlineLoader
from tests.support.observers import Recorder

FIXTURES = Path(__file__).parents[2] / "fixtures" / "cdc"
CHECKPOINT = 470611625733521409
MS = 1_700_000_000_000


@pytest.fixture(params=["tiflow/d_keys/cj_ext", "tiflow/c_ddl/cj_ext"])
def case(request: pytest.FixtureRequest, tmp_path: Path) -> Case:
    return next(case for case in read_cases(FIXTURES, tmp_path) if case.name == request.param)


@pytest.fixture(params=["MariaDB", "DuckDB"])
def target(request: pytest.FixtureRequest, tmp_path: Path) -> Target:
    return Server(request.getfixturevalue("mariadb")) if request.param == "MariaDB" else File(tmp_path)


def recorded_checkpoint(case: Case) -> str:
    metadata = json.loads((case.expected("01") / "metadata").read_text(encoding="utf-8"))
    return str(metadata["checkpoint-ts"])


def test_two_replays_are_the_recorded_states_on_either_side(case: Case, target: Target) -> None:
    target.prepare(case)
    settings, middle = case.settings(case.folder / "storage", target.url), recorded_checkpoint(case)
    assert app.replay(settings, Recorder(), None, middle, InlineLoader()).exit_code == 0
    assert target.differences(case, "01") == []
    result = app.replay(settings, Recorder(), middle, None, InlineLoader())
    assert result.exit_code == 0
    assert target.differences(case, None) == []
    again = app.replay(settings, Recorder(), middle, None, InlineLoader())
    assert not any(table.rows or table.ddl for table in again.tables.values())


@pytest.mark.parametrize("each", ["", "*.*="], ids=["all", "table by table"])
def test_a_snapshot_goes_on_from_its_moment(case: Case, target: Target, each: str) -> None:
    target.prepare(case)
    storage, middle = case.folder / "storage", recorded_checkpoint(case)
    app.replay(case.settings(storage, target.url), Recorder(), None, middle, InlineLoader())
    settings = case.settings(storage, target.url, name="after-export", start_ts=each + middle)
    assert app.once(settings, Recorder(), InlineLoader()).exit_code == 0
    assert target.differences(case, None) == []
    assert not any(t.rows or t.ddl for t in app.once(settings, Recorder(), InlineLoader()).tables.values())


# The range, from the command line


def test_a_replay_ends_where_it_is_told(cli: CommandLine) -> None:
    left = cli.run("replay", "--to-ts", str(T_WIDENED - 1), "--json")
    assert left.code == 0
    assert left.json["checkpoint_ts"] == T_WIDENED - 1
    assert {table["watermark"] for table in left.json["tables"].values()} == {T_WIDENED - 1}
    assert left.json["tables"]["du.t"]["ddl"] == 1
    rest = cli.run("replay", "-from-ts", str(T_WIDENED - 1), "-to-ts", str(CHECKPOINT), "--json")
    assert (rest.code, rest.json["tables"]["du.t"]["ddl"]) == (0, 1)
    assert duckdb_tables(cli.target) == DEMO_TABLES


@pytest.mark.parametrize(
    "again", [("replay", "--from-ts", "12"), ("once", "--start-ts", "12"), ("plan", "--start-ts", "12")]
)
def test_what_a_replay_has_applied_is_not_applied_twice(again: tuple[str, ...], cli: CommandLine) -> None:
    """A table without a key would have the rows twice, one with a key would go back to older values."""
    feed = Feed(cli.storage.parent / "keyless")
    columns = Column("id", "INT"), Column("v", "VARCHAR", length=9)
    feed.database("d", 1)
    feed.statement("d.t", 2, Action.CREATE_TABLE, "CREATE TABLE `t` (`id` INT,`v` VARCHAR(9))", columns)
    feed.puts("d.t", 2, {11: (1, "a"), 13: (2, "b"), 15: (3, "c")})
    feed.checkpoint(20)
    flags = ("--upstream-uri", f"file://{feed.folder}?protocol=canal-json", "--tables", "d.t")
    assert cli.run("replay", "--to-ts", "14", *flags).code == 0
    refused = cli.run(*again, *flags)
    assert "the replay 'default.0-14' has brought d.t up to 14" in refused.out + refused.err
    assert refused.code == (0 if again[0] == "plan" else 5)
    assert cli.run("replay", "--from-ts", "14", *flags).code == 0
    with duckdb.connect(cli.target.removeprefix("duckdb:///")) as connection:
        assert connection.execute("FROM d.t ORDER BY 1").fetchall() == [(1, "a"), (2, "b"), (3, "c")]
        connection.execute("DROP TABLE d.t")
    assert cli.run("once", *flags, "--name", "new").code == 0, "a table that is made again has nothing of the replays"


@pytest.mark.parametrize("look", ["replay", "status", "plan"])
def test_a_table_whose_create_table_is_before_the_range(cli: CommandLine, look: str) -> None:
    """Each command says the same way on, and that works."""
    end = ("--tables", "du.t", "--to-ts", str(CHECKPOINT))
    stopped = cli.run("replay", "--from-ts", str(T_WIDENED - 1), *end)
    name = f"default.{T_WIDENED - 1}-{CHECKPOINT}"
    if look != "replay":
        stopped = cli.run(look, "--name", name, "--tables", "du.t")
    printed = stopped.out + stopped.err
    assert f"as of {T_WIDENED - 1}, by --from-ts" in printed
    (way,) = [line for line in printed.splitlines() if "or replay it from its CREATE TABLE on: " in line]
    assert not any(word in printed for word in ("resync", "load-export", "another --name"))
    refused = cli.run("resync", "--table", "du.t", "--name", name)
    assert (refused.code, "when the range begins" in refused.err) == (2, True)
    assert cli.run("replay", *way.partition("CREATE TABLE on: ")[2].split(), "--to-ts", str(CHECKPOINT)).code == 0
    with duckdb.connect(cli.target.removeprefix("duckdb:///")) as connection:
        assert connection.execute("FROM du.t ORDER BY 1").fetchall() == DEMO_TABLES["t"]


def test_a_table_that_was_dropped_in_the_target_of_a_replay(cli: CommandLine) -> None:
    assert cli.run("replay", "--to-ts", str(CHECKPOINT)).code == 0
    with duckdb.connect(cli.target.removeprefix("duckdb:///")) as connection:
        connection.execute("DROP TABLE du.t")
    asked = cli.run("status", "--name", f"default.0-{CHECKPOINT}").out
    assert "restore it as it was from a backup of the target, or replay the range again, under another --name" in asked
    assert "resync" not in asked


def test_a_replay_beyond_the_checkpoint_is_for_later(cli: CommandLine) -> None:
    left = cli.run("replay", "--to-ts", str(CHECKPOINT + 1), "--json")
    assert left.code == 4
    assert "complete only up to 470611625733521409" in left.json["error"]
    assert "try again" in left.json["hint"]


def test_a_replay_that_begins_above_the_checkpoint_is_for_later(cli: CommandLine) -> None:
    """Nothing would be applied, and the range would count as done."""
    left = cli.run("replay", "--from-ts", str(CHECKPOINT + 1), "--json")
    assert left.code == 4
    assert (
        "--from-ts is 2026-11-21T06:01:21.857Z (470611625733521410), above the storage's checkpoint"
        in left.json["error"]
    )
    assert "run again once TiCDC is past it" in left.json["hint"]


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (("--from-ts", "20", "--to-ts", "20"), "is not after --from-ts"),
        (("--from-ts", "yesterday"), "--from-ts is refused: 'yesterday' is no moment"),
        (("--to-ts", "2026-11-21 06:01:20", "--tz", "System"), "does not say its time zone"),
        (("--to-ts", "2026-10-25 02:30:00", "--tz", "Europe/Berlin"), "the clocks of Europe/Berlin were turned"),
        (("--start-ts", "20"), "replay begins at --from-ts"),
        (("--from-ts", "2199-01-01T00:00:00Z"), "above the storage's checkpoint of 2026-11-21"),
        (("--from-ts", "1" * 18, "--name", "n" * 60), "is too long for a replay"),
    ],
)
def test_a_range_that_cannot_be_is_refused(flags: tuple[str, ...], words: str, cli: CommandLine) -> None:
    left = cli.run("replay", *flags, "--json")
    assert left.code == 2
    assert words in left.json["error"] + str(left.json["hint"])


def test_times_are_moments_in_the_zone_of_the_changefeed(cli: CommandLine) -> None:
    """The demo's rows were committed between 06:00:53 and 06:01:22 UTC."""
    for text, zone in (("2026-11-21T06:01:00Z", "UTC"), ("2026-11-21 14:01:00", "+08:00")):
        left = cli.run("replay", "--to-ts", text, "--tz", zone, "--name", zone.strip("+:0") or "x", "--json")
        assert left.json["checkpoint_ts"] == ms_to_tso(1795240860000), text


def test_a_killed_replay_goes_on_where_it_was(tmp_path: Path) -> None:
    feed = Feed(tmp_path)
    replica = busy(feed)
    broken = feed.damaged("d.t", 10)
    settings = replica.settings()
    assert app.replay(settings, Recorder(), "11", "40", InlineLoader()).exit_code == 3
    broken.write_bytes(feed._line("d.t", 12, 7, "mended"))
    seen = Recorder()
    assert app.replay(settings, seen, "11", "40", InlineLoader()).exit_code == 0
    assert [row.table.table for row in seen.steps if row.step == "ddl"] == []  # the statement was executed before
    assert replica.tables["d.t"] == {2: "y", 3: "z", 7: "mended"}


def busy(feed: Feed) -> MemoryReplica:
    """A table with rows around moment 11, a statement at 30 that has a second file, and a target that has the table."""
    feed.database("d", 1)
    feed.create("d.t", 10)
    feed.create("d.old", 10)
    feed.checkpoint(50)
    replica = MemoryReplica(feed)
    app.replay(replica.settings(name="before"), Recorder(), None, "11", InlineLoader())
    feed.puts("d.t", 10, {11: (1, "x"), 13: (2, "y"), 40: (3, "z"), 41: (4, "late")})
    feed.rename("d.old", "d.new", 30)
    return replica


def test_the_range_is_open_below_and_closed_above(tmp_path: Path) -> None:
    replica = busy(Feed(tmp_path))
    result = app.replay(replica.settings(), Recorder(), "11", "40", InlineLoader())
    assert result.exit_code == 0
    assert replica.tables == {"d.new": {}, "d.t": {2: "y", 3: "z"}}
    assert replica.place("d.t") is None
    assert replica.sink.progress().is_empty  # of --name itself


def test_a_statement_of_several_files_at_the_end_of_the_range_is_in_it(tmp_path: Path) -> None:
    replica = busy(Feed(tmp_path))
    app.replay(replica.settings(), Recorder(), "11", "30", InlineLoader())
    assert set(replica.tables) == {"d.new", "d.t"}


def test_rows_with_milliseconds_alone_are_replayed_by_the_millisecond(tmp_path: Path) -> None:
    feed = Feed(tmp_path)
    feed.database("d", 1)
    feed.create("d.t", ms_to_tso(MS))
    rows = [json.loads(feed._line("d.t", 0, ms, str(ms))) | {"es": MS + ms} for ms in range(1, 6)]
    for row in rows:
        del row["_tidb"]
    feed.file("d.t", ms_to_tso(MS), b"".join(json.dumps(row).encode() + b"\r\n" for row in rows))
    feed.checkpoint(ms_to_tso(MS + 9))
    replica, seen = MemoryReplica(feed), Recorder()
    app.replay(replica.settings(name="before"), Recorder(), None, str(ms_to_tso(MS)), InlineLoader())
    app.replay(replica.settings(), seen, str(ms_to_tso(MS + 2)), str(ms_to_tso(MS + 4)), InlineLoader())
    assert replica.tables == {"d.t": {3: "3", 4: "4"}}
    assert any("only milliseconds" in note for note in seen.notes)


def test_rows_without_any_time_have_no_range(tmp_path: Path) -> None:
    Feed(tmp_path).checkpoint(20)
    flags = {"upstream_uri": f"file://{tmp_path}?protocol=csv", "downstream_uri": "memory://timeless"}
    with pytest.raises(BadConfig, match="no range of time"):
        app.replay(load(flags, {}).settings, Recorder(), "11", None, InlineLoader())
    with pytest.raises(BadConfig, match="cannot tell old from new"):
        app.once(load({**flags, "start_ts": "11"}, {}).settings, Recorder(), InlineLoader())


# --start-ts


@pytest.fixture
def feed(tmp_path: Path) -> Feed:
    """d.t is older than moment 20, d.later younger; the head of d.t's files was cleaned up."""
    feed = Feed(tmp_path)
    feed.database("d", 1)
    feed.create("d.t", 10)
    feed.create("d.t", 5)
    feed.puts("d.t", 10, {15: (1, "old"), 21: (2, "new")}, number=3)
    feed.statement("d.t", 20, Action.MODIFY_TABLE_COMMENT, "ALTER TABLE `t` COMMENT 'in the snapshot'")
    feed.create("d.later", 22)
    feed.puts("d.later", 22, {23: (1, "x")})
    feed.checkpoint(30)
    return feed


def snapshot(feed: Feed) -> MemoryReplica:
    """A target with d.t as it was at moment 20."""
    replica = MemoryReplica(feed)
    other = Feed(feed.folder / "export")
    other.database("d", 1)
    other.create("d.t", 10)
    other.puts("d.t", 10, {15: (1, "from the export")})
    other.checkpoint(20)
    label = {"upstream_uri": f"file://{other.folder}?protocol=canal-json", "name": "export"}
    app.once(replica.settings(**label), Recorder(), InlineLoader())
    for file in sorted(other.folder.rglob("*"), reverse=True):
        file.unlink() if file.is_file() else file.rmdir()
    return replica


def test_what_the_snapshot_has_is_not_done_again(feed: Feed) -> None:
    replica = snapshot(feed)
    result = replica.once(start_ts="20")
    assert result.exit_code == 0
    assert replica.tables == {"d.later": {1: "x"}, "d.t": {1: "from the export", 2: "new"}}
    assert [row.statement for row in replica.seen.steps if row.step == "ddl"] == [
        "CREATE TABLE `later` (`id` INT PRIMARY KEY,`v` INT)"
    ]
    assert replica.seen.notes == []
    assert replica.sink.progress().start_ts == 20


def test_later_runs_may_say_the_same_start_and_no_other(feed: Feed) -> None:
    replica = snapshot(feed)
    replica.once(start_ts="20")
    assert replica.once(40, start_ts="20").exit_code == 0
    assert replica.once(50).exit_code == 0
    with pytest.raises(BadConfig, match="began at --start-ts 20"):
        replica.once(start_ts="21")
    shutil.copyfile(feed.folder / "metadata", feed.folder / "export" / "metadata")
    with pytest.raises(BadConfig, match="began without --start-ts"):
        replica.once(start_ts="20", name="export", upstream_uri=f"file://{feed.folder}/export?protocol=canal-json")


def test_a_plan_and_a_backfill_begin_there_too(feed: Feed) -> None:
    replica = snapshot(feed)
    planned = app.plan(replica.settings(start_ts="20"), Recorder())
    assert {(step.kind, str(step.table), step.from_ts) for step in planned.steps} == {
        ("ddl", "d.later", 22), ("load", "d.later", 22), ("load", "d.t", 20),
    }  # fmt: skip
    assert replica.sink.progress().is_empty
    assert app.backfill(replica.settings(start_ts="20"), Recorder(), InlineLoader()).exit_code == 0
    assert replica.tables["d.t"] == {1: "from the export", 2: "new"}


def test_a_missing_head_in_a_folder_younger_than_the_start_is_a_gap(feed: Feed) -> None:
    replica = snapshot(feed)
    feed.puts("d.later", 22, {25: (2, "y")}, number=3)
    result = replica.once(start_ts="20")
    assert result.exit_code == 5
    assert "file number 2 is missing" in result.tables[next(iter(sorted(result.tables)))].error


def test_a_storage_that_is_younger_than_the_start_is_told(tmp_path: Path) -> None:
    feed = Feed(tmp_path)
    feed.describe("d.t", 20, (ID, VALUE))
    replica = MemoryReplica(feed)
    replica.once(30, start_ts="10")
    assert any("as old as the start, 10" in note for note in replica.seen.notes)


def test_object_storage_is_inspected_and_replayed(
    s3_server: S3Server, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    cli = command_line(tmp_path, capsys, monkeypatch)
    s3_server.put_directory(cli.storage, "replayed")
    place = ("--upstream-uri", s3_server.uri("replayed"))
    found = cli.raw("inspect", *place, "--json")
    assert (found.json["findings"], found.json["changefeed"]["sampled"]) == ([], 6)
    assert READER[1] not in found.out + found.err
    assert cli.run("replay", "--to-ts", str(T_WIDENED - 1), *place).code == 0
    assert cli.run("replay", "--from-ts", str(T_WIDENED - 1), *place).code == 0
    assert duckdb_tables(cli.target) == DEMO_TABLES
