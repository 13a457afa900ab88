"""What a command says to do, done as it is printed, helps."""

from __future__ import annotations

import fcntl
import os
import re
import socket
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from unittest.mock import Mock

import duckdb
import pytest

import consumer.app
from consumer.cli.main import main
from consumer.model.actions import Action
from consumer.model.columns import Column
from consumer.observe.profiling import ADDRESS
from tests.support.build import ID, VALUE
from tests.support.canal_json import keyless, row_line
from tests.support.command_line import DEMO_TABLES, T_CREATED, T_WIDENED, CommandLine, duckdb_tables
from tests.support.feed import Feed, Replica
from tests.support.shop import Shop, as_a_shell_takes

_SKIP = re.compile(r"storage-consumer skip-ddl .*")


DROPPED = """DROP TABLE d."it's" """
BY_HAND = {
    "dropped": ([DROPPED], "3", "it was dropped there, not upstream", ""),
    "away": (
        ["""CREATE TABLE d.backup AS FROM d."it's" """, DROPPED],
        *("3", "it was dropped there", """ALTER TABLE d.backup RENAME TO "it's" """),
    ),
    "lacks a column": (["""ALTER TABLE d."it's" DROP COLUMN v"""], "3", "resync --table", ""),
    "has another type": (["""ALTER TABLE d."it's" ALTER COLUMN v TYPE TINYINT"""], "300", "resync --table", ""),
}
"""What somebody did to the table, a value that comes then, what is said, and what helps if not the printed command."""


@pytest.mark.parametrize(("statements", "value", "words", "mend"), BY_HAND.values(), ids=list(BY_HAND))
def test_a_table_that_a_hand_has_changed(statements: list[str], value: str, words: str, mend: str, shop: Shop) -> None:
    for statement in statements:
        shop.by_hand(statement)
    shop.feed.puts("d.it's", 2, {20: (3, value)})
    left = shop.once(25)
    assert (left.code, words in left.err, "create it empty" in left.err) == (3, True, False), left.err
    if mend:
        shop.by_hand(mend)
        assert shop.run("once").code == 0
    else:
        assert {done.code for done in shop.paste(left.err)} == {0}, left.err
    assert shop.rows == [(1, 1), (2, 2), (3, int(value))]


def test_a_table_that_start_ts_says_is_there_and_is_not(shop: Shop, tmp_path: Path) -> None:
    """Nobody has dropped it: the snapshot was never loaded."""
    empty = ("--downstream-uri", f"duckdb:///{tmp_path}/empty.duckdb")
    shop.feed.puts("d.it's", 2, {20: (3, "3")})
    left = shop.once(25, *empty, "--start-ts", "15")
    assert left.code == 3
    assert (
        "the target has no table d.it's, although --start-ts or an export declared that it holds all tables as of 15"
        in left.err
    )
    assert "was dropped" not in left.err
    assert {done.code for done in shop.paste(left.err)} == {0}, left.err
    with duckdb.connect(f"{tmp_path}/empty.duckdb") as connection:
        assert connection.execute("""SELECT id FROM d."it's" ORDER BY id""").fetchall() == [(1,), (2,), (3,)]


def test_once_stops_an_idle_table_that_status_calls_missing(shop: Shop) -> None:
    shop.feed.describe("d.later", 14)
    assert shop.once(16).code == 0, "a table without rows, which nobody has looked for"
    shop.by_hand("""DROP TABLE d."it's" """)
    missing = shop.run("status", "--json").json["tables"]["d.it's"]
    left = shop.run("once", "--json")
    assert left.code == 3
    assert [left.json["tables"]["d.it's"][key] for key in ("error", "hint")] == [missing["error"], missing["hint"]]
    assert shop.run("status", "--check").code == 3
    assert shop.run("once").code == 3, "until it is there again"
    assert [done.code for done in shop.paste(shop.run("once").err)] == [0]
    assert shop.rows == [(1, 1), (2, 2)]
    assert shop.run("once").code == shop.run("status", "--check").code == 0


def test_status_sees_a_table_that_was_dropped_by_hand(shop: Shop) -> None:
    shop.feed.describe("d.later", 14)
    assert shop.once(16).code == 0, "a table without rows, which nobody has looked for"
    assert shop.run("status", "--check").code == 0
    shop.by_hand("""DROP TABLE d."it's" """)
    left = shop.run("status", "--check")
    assert left.code == 3
    assert "tables      1 missing" in left.out
    assert "the target has no table d.it's: it was dropped there, not upstream\n" in left.out
    assert shop.run("status", "--json").states == {"d.it's": "missing"}
    assert [done.code for done in shop.paste(left.out)] == [0]
    assert shop.rows == [(1, 1), (2, 2)]
    assert shop.run("status", "--check").code == 0


def test_a_statement_that_the_policy_refuses(shop: Shop, tmp_path: Path) -> None:
    (tmp_path / "c.toml").write_text('[[consumer.ddl.rules]]\nkinds = ["add-column"]\naction = "fail"\n')
    query = "ALTER TABLE `it's` ADD COLUMN `w` INT"
    shop.feed.statement("d.it's", 20, Action.ADD_COLUMN, query, (ID, VALUE))
    left = shop.once(25, "--config", str(tmp_path / "c.toml"))
    assert left.code == 5, left.err
    assert [done.code for done in shop.paste(left.err)] == [0], left.err
    assert shop.once(25, "--config", str(tmp_path / "c.toml")).code == 0


def test_a_statement_that_came_late(shop: Shop) -> None:
    query = "ALTER TABLE `it's` ADD COLUMN `w` INT"
    shop.feed.statement("d.it's", 12, Action.ADD_COLUMN, query, (ID, VALUE, Column("w", "INT")))
    left = shop.once(25)
    assert left.code == 3, left
    shop.by_hand("""ALTER TABLE d."it's" ADD COLUMN w INTEGER""")
    (command,) = (found[0] for line in left.err.splitlines() if (found := _SKIP.search(line)))
    assert shop.cli.raw(*as_a_shell_takes(command)).code == 0, left.err
    assert shop.once(25).code == 0


def test_a_row_that_was_taken_away_by_hand(shop: Shop) -> None:
    column = Column("v", "INT")
    shop.feed.statement("d.k", 16, Action.CREATE_TABLE, "CREATE TABLE `k` (`v` INT)", (column,))
    shop.feed.file("d.k", 16, keyless(17, 1) + keyless(18, 2))
    assert shop.once(20).code == 0
    shop.by_hand("DELETE FROM d.k WHERE v = 1")
    shop.feed.file("d.k", 16, keyless(22, 1, "DELETE"))
    left = shop.once(25)
    assert left.code == 3
    assert {done.code for done in shop.paste(left.err)} == {0}
    with duckdb.connect(shop.cli.target.removeprefix("duckdb:///")) as connection:
        assert connection.execute("SELECT v FROM d.k").fetchall() == [(2,)]


def test_a_rename_that_names_no_table(shop: Shop) -> None:
    shop.feed.statement("d.new", 20, Action.RENAME_TABLE, "RENAME TABLE nonsense")
    left = shop.once(25)
    assert left.code == 5, left
    shop.by_hand("""ALTER TABLE d."it's" RENAME TO new""")
    assert [done.code for done in shop.paste(left.err)] == [0], left.err


def fifo(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def moved_out(folder: Path) -> None:
    """Behind a link that leads out of the storage."""
    outside = folder.parent.parent / "another disk"
    folder.rename(outside)
    folder.symlink_to(outside)


STRANGE = {
    "a fifo among the files": (lambda cli: fifo(cli.data_file("t", T_CREATED, 1)), 3, "make the file readable again"),
    "a checkpoint that is a fifo": (
        *(lambda cli: fifo(cli.storage / "metadata"), 4, "take it away, or put the file there"),
    ),
    "a link that leads back": (
        *(lambda cli: (cli.storage / "du" / "loop").symlink_to(cli.storage), 4, "take the link away"),
    ),
    "a link that leads out": (lambda cli: moved_out(cli.storage / "du"), 4, "put what it leads to in its place"),
}
"""What stands in the storage, how the command ends, and what it says. The way back is a storage without it."""


@pytest.mark.parametrize(("harm", "code", "words"), STRANGE.values(), ids=list(STRANGE))
def test_what_is_no_file_of_the_storage(
    harm: Callable[[CommandLine], None], code: int, words: str, cli: CommandLine
) -> None:
    harm(cli)
    left = cli.run("once", "--max-wait", "0")
    assert (left.code, words in left.err) == (code, True), left.err
    for path in sorted(cli.storage.rglob("*")):
        if path.is_symlink() or path.is_fifo():
            path.unlink()
    cli.mend()
    assert cli.run("once").code == 0
    assert duckdb_tables(cli.target) == DEMO_TABLES


def test_a_resync_while_the_checkpoint_is_below_what_was_applied(cli: CommandLine) -> None:
    assert cli.run("once").code == 0
    (cli.storage / "metadata").write_text(f'{{"checkpoint-ts":{T_CREATED + 1}}}', encoding="utf-8")
    left = cli.run("resync", "--table", "du.t")
    assert (left.code, "resync it once TiCDC is past that again" in left.err) == (4, True)
    cli.mend()
    assert cli.run("resync", "--table", "du.t").code == 0
    assert duckdb_tables(cli.target) == DEMO_TABLES


def test_a_resync_of_a_table_whose_files_are_gone(cli: CommandLine) -> None:
    assert cli.run("once").code == 0
    cli.data_file("t", T_CREATED, 1).unlink()
    left = cli.run("resync", "--table", "du.t")
    assert (left.code, "or load it without them" in left.err) == (5, True)
    assert duckdb_tables(cli.target) == DEMO_TABLES, "nothing is gone yet"
    assert cli.run("resync", "--table", "du.t", "--accept-gap-in", "*.*").code == 0


def test_a_table_that_is_dropped_upstream_is_not_made_anew(shop: Shop) -> None:
    shop.feed.drop("d.it's", 20)
    assert shop.once(21).code == 0
    left = shop.run("resync", "--table", "d.it's")
    assert (left.code, "can be dropped by hand" in left.err) == (2, True)
    shop.by_hand("""DROP TABLE IF EXISTS d."it's" """)
    assert shop.run("once").code == shop.run("status", "--check").code == 0


def test_an_older_table_is_created_as_the_hint_writes_it(shop: Shop) -> None:
    shop.feed.describe("d.o ld", 14)
    shop.feed.puts("d.o ld", 14, {16: (1, "1")})
    left = shop.once(20)
    assert left.code == 3
    (statement,) = re.findall(r"CREATE TABLE [^;\n]*", left.err)
    shop.by_hand(statement)
    assert shop.run("once").code == 0


def test_a_table_that_is_older_than_the_changefeed_is_not_made_anew(shop: Shop) -> None:
    shop.by_hand("CREATE TABLE d.old (id INT, v INT)")
    shop.feed.describe("d.old", 3)
    shop.feed.puts("d.old", 3, {16: (1, "1")})
    assert shop.once(20).code == 0
    left = shop.run("resync", "--table", "d.old")
    assert (left.code, "load-export" in left.err) == (3, True)
    assert shop.run("once", "--name", "new", "--start-ts", "20").code == 0
    shop.feed.puts("d.old", 3, {21: (2, "2")})
    assert shop.once(25, "--name", "new").code == 0


def test_a_damaged_file_that_nobody_can_restore(shop: Shop) -> None:
    damaged = shop.feed.damaged("d.it's", 2)
    left = shop.once(20)
    assert (left.code, "remove it and continue without its rows: storage" in left.err) == (3, True)
    damaged.unlink()
    shop.feed.puts("d.it's", 2, {18: (4, "4")})
    assert shop.run("once", "--accept-gap-in", "*.*").code == 0
    assert shop.rows == [(1, 1), (2, 2), (4, 4)]


def test_a_loss_of_a_table_that_the_storage_cannot_load_again(shop: Shop) -> None:
    """No resync is offered, which would be refused: of d.it's one is."""
    shop.by_hand("CREATE TABLE d.old (id INT, v INT)")
    shop.feed.describe("d.old", 3)
    for table, version in (("d.old", 3), ("d.it's", 2)):
        shop.feed.puts(table, version, {16: (1, "1")})
        shop.feed.puts(table, version, {17: (2, "2")}).unlink()
        shop.feed.puts(table, version, {18: (3, "3")})
    left = shop.once(20)
    assert left.code == 5
    assert {done.code for done in shop.paste(left.err)} == {5, 0}, "the second one leaves nothing stopped"
    for told in (shop.run("status").out, shop.run("once").err):
        assert "resync --table d.old" not in told
        assert told.count("load an export of it with `load-export` and its --table") == 1
        assert told.count("""storage-consumer resync --table 'd.it'"'"'s'""") == 1


@dataclass
class Scene:
    """What happens to the shop, the flags of the command that stops then and the checkpoint, the words of the reason,
    and what a person does before the printed commands are pasted, as the hint says."""

    happens: Callable[[Shop], object]
    words: str
    by_hand: Callable[[Shop], object] = lambda shop: None
    flags: tuple[str, ...] = ()
    code: int = 5
    command: str = "once"


T = "d.it's"
FILE = "CDC00000000000000000002.json"


def with_settings(shop: Shop, text: str) -> tuple[str, ...]:
    (shop.feed.folder.parent / "own.toml").write_text(text, encoding="utf-8")
    return ("--config", str(shop.feed.folder.parent / "own.toml"))


def data_file(shop: Shop) -> Path:
    return next(path for path in shop.feed.folder.rglob(FILE))


def made_by_hand(shop: Shop) -> None:
    shop.by_hand("CREATE TABLE d.k (id INT, v INT)")
    shop.by_hand("INSERT INTO d.k VALUES (1, 1)")
    shop.feed.create("d.k", 16)


def moved_in(shop: Shop) -> None:
    shop.feed.create("d.k", 16)
    shop.feed.puts("d.k", 16, {17: (7, "7")})
    shop.feed.rename("d.k", "d.j", 18)


def came_back(shop: Shop) -> None:
    shop.feed.drop(T, 16)
    shop.feed.statement(T, 18, Action.RECOVER_TABLE, "RECOVER TABLE `it's`")


def made_unreadable(shop: Shop) -> None:
    fifo(shop.feed.puts(T, 2, {16: (4, "4")}))


def with_an_old_row(shop: Shop) -> None:
    shop.feed.puts(T, 2, {12: (4, "4"), 16: (5, "5")})


def behind_the_end(shop: Shop) -> None:
    shop.feed.drop(T, 16)
    shop.feed.puts(T, 2, {17: (4, "4")})


def damaged_since(shop: Shop) -> None:
    shop.feed.puts(T, 2, {16: (3, "3")})
    assert shop.once(20).code == 0
    data_file(shop).write_bytes(b"{")


def merged(shop: Shop) -> None:
    for database, ts in (("s1", 16), ("s2", 17)):
        shop.feed.database(database, ts)
        shop.feed.create(f"{database}.t", ts + 2)


def merged_and_moved(shop: Shop) -> None:
    merged(shop)
    assert shop.once(30, *MERGED).code == 0
    shop.feed.rename("s1.t", "s1.u", 40)


MERGED = ("--route", "s*.t -> shop.t merge _source")
IGNORED = '[consumer.ddl]\nrules = [{kinds = ["create-table"], action = "ignore"}]\n'
FAILS = '[consumer.ddl]\nrules = [{kinds = ["add-index"], action = "fail"}]\n'
SCENES = {
    "a table made by hand has rows": Scene(made_by_hand, "the policy for create-table is ignore", flags=(IGNORED,)),
    "a policy is fail": Scene(
        lambda shop: shop.feed.statement(T, 16, Action.ADD_INDEX, "ALTER TABLE `it's` ADD INDEX `i`(`v`)"),
        *("the policy for add-index is fail",),
        flags=(FAILS,),
    ),
    "a table that was left out comes under another name": Scene(
        moved_in,
        "the table rules leave out d.k",
        lambda shop: shop.by_hand("CREATE TABLE d.j (id INT, v INT)"),
        flags=("--tables", "*.*", "--tables", "!d.k"),
    ),
    "a table comes back that was not kept": Scene(
        came_back, "the target did not keep it", lambda shop: shop.by_hand('CREATE TABLE d."it\'s" (id INT, v INT)')
    ),
    "a file that cannot be read": Scene(
        made_unreadable, "make the file readable again", lambda shop: data_file(shop).unlink(), code=3
    ),
    "rows that came late": Scene(with_an_old_row, "it has a row of commit-ts 12", code=3),
    "rows behind the end of a name": Scene(behind_the_end, "d.it's", code=3),
    "a resync that meets a damaged file": Scene(
        damaged_since, "was not touched", lambda shop: data_file(shop).unlink(), ("--table", T), 3, "resync"
    ),
    "a merged table moves": Scene(merged_and_moved, "it moves s1.t", flags=MERGED),
}


@pytest.mark.parametrize("scene", SCENES.values(), ids=list(SCENES))
def test_the_printed_commands_work_as_they_are_printed(scene: Scene, shop: Shop) -> None:
    flags = with_settings(shop, scene.flags[0]) if scene.flags[:1] in ((IGNORED,), (FAILS,)) else scene.flags
    scene.happens(shop)
    shop.feed.checkpoint(50)
    left = shop.run(scene.command, *flags)
    assert (left.code, scene.words in left.err) == (scene.code, True), left
    told = left.err + (shop.run("status", *flags).out if scene.command == "once" else "")
    scene.by_hand(shop)
    assert {done.code for done in shop.paste(told)} == {0}, told
    assert shop.run("once", *(flags if scene.command == "once" else ())).code == 0


DAMAGED = "the data file is damaged, or its schema file does not belong to it"


@pytest.mark.parametrize(
    ("target", "kind", "bad", "words"),
    [
        ("duckdb", "FLOAT", "x", DAMAGED),
        ("mariadb", "FLOAT", "x", DAMAGED),
        ("duckdb", "INT", "x", DAMAGED),
        ("mariadb", "BIT", "x", DAMAGED),
        ("duckdb", "BLOB", "\u20ac", "the column is text in the data file and binary in its schema file"),
    ],
)
def test_a_value_that_is_none_of_its_type(
    target: str, kind: str, bad: str, words: str, feed: Feed, request: pytest.FixtureRequest
) -> None:
    query = f"CREATE TABLE `t` (`id` INT PRIMARY KEY,`v` {kind})"
    feed.statement("d.t", 2, Action.CREATE_TABLE, query, (ID, Column("v", kind)))
    file = feed.puts("d.t", 2, {10: (1, bad)})
    server = request.getfixturevalue("fresh_mariadb") if target == "mariadb" else None
    replica = Replica(feed, server.url() if server else f"duckdb:///{feed.folder}.duckdb")
    (stopped,) = (table for table in replica.once(20).tables.values() if table.error)
    assert words in stopped.hint
    file.write_bytes(feed._line("d.t", 10, 1, "1"))
    assert replica.once().exit_code == 0, "the file is restored"


CHECKPOINT = 470611625733521409
TO = ("--downstream-uri",)


def follow(cli: CommandLine, wrong: Sequence[str], words: str, right: Sequence[str], code: int = 2) -> None:
    """`wrong` is refused with a hint that holds `words`, and `right`, which follows it, is not."""
    left = cli.run(*wrong)
    assert left.code == code, left
    (hint,) = (line for line in left.err.splitlines() if line.startswith("  "))
    assert words in hint
    done = cli.run(*right)
    assert done.code == 0, done


@pytest.mark.parametrize(
    ("wrong", "words", "right"),
    [
        (("once", "--checkpoint-ts", "max"), "leave --checkpoint-ts out", ("once",)),
        (("replay", "--start-ts", "7"), "give that instead", ("replay", "--from-ts", "7")),
        (("replay", "--name", "n" * 60), "at most 51 characters", ("replay", "--name", "n" * 51)),
        (("status", "--max-lag", "1m"), "add --check", ("status",)),
        (("forget", "--yes"), "give the name to be forgotten with --name", ("status",)),
        (("once", "--config", "none.toml"), "Give --config the changefeed's TOML file", ("once", "--config", "c.toml")),
        (("once", "--downstream-uri", "duckdb:///a#b.duckdb"), "percent-encode", ("once", "--downstream-uri", "duckdb:///a%23b.duckdb")),
        (("once", *TO, "duckdb:///storage_consumer.duckdb"), "rename the file", ("once", *TO, "duckdb:///s.duckdb")),
        (("once", "--downstream-uri", "duckdb:///tmp/a.duckdb"), "duckdb:////tmp/a.duckdb", ("once",)),
        (("resync", "--table", "du.T"), "`inspect` lists the tables", ("once",)),
        (("resync", "--table", "du.t", "--tables", "du.s"), "include it with --tables", ("resync", "--table", "du.t")),
        (("skip-ddl", "--table", "du.t", "--version", "7"), "pending: du ", ("once",)),
        (("skip-ddl", "--table", "du.t", "--version", str(T_WIDENED)), "run once first", ("once",)),
    ],
)  # fmt: skip
def test_as_the_hint_says(wrong: tuple[str, ...], words: str, right: tuple[str, ...], cli: CommandLine) -> None:
    Path("c.toml").write_text("[sink]\n", encoding="utf-8")
    follow(cli, wrong, words, right)


def test_a_backfill_of_a_target_that_is_not_empty(cli: CommandLine) -> None:
    assert cli.run("once").code == 0
    follow(cli, ("backfill",), "continue with `once`", ("once",))
    other = f"{cli.target}.other"
    follow(
        cli, ("backfill",), "another --name and an empty target", ("backfill", "--name", "b", "--downstream-uri", other)
    )
    assert duckdb_tables(other) == DEMO_TABLES


def test_a_replica_that_began_elsewhere(cli: CommandLine) -> None:
    assert cli.run("once").code == 0
    follow(cli, ("once", "--start-ts", str(CHECKPOINT)), "leave --start-ts out to continue", ("once",))
    other = ("--downstream-uri", f"{cli.target}.other", "--name", "another")
    follow(cli, ("once", "--start-ts", str(CHECKPOINT)), "a new target under another --name", ("once", *other))


def test_a_range_that_is_not_there_yet(cli: CommandLine) -> None:
    later = ("replay", "--to-ts", str(CHECKPOINT << 1))
    follow(cli, later, "leave --to-ts out to replay what is there", ("replay",), code=4)
    (cli.storage / "metadata").write_text(f'{{"checkpoint-ts":{CHECKPOINT << 1}}}', encoding="utf-8")
    assert cli.run(*later, "--downstream-uri", f"{cli.target}.2").code == 0, "once it is past --to-ts"


def test_another_zone_or_another_upstream(cli: CommandLine, tmp_path: Path) -> None:
    assert cli.run("once").code == 0
    follow(cli, ("once", "--tz", "Europe/Berlin"), "give --tz UTC", ("once", "--tz", "UTC"))
    moved = tmp_path / "moved"
    moved.symlink_to(cli.storage)
    elsewhere = ("once", "--upstream-uri", f"file://{moved}?protocol=canal-json")
    left = cli.run(*elsewhere)
    assert (left.code, "or give each upstream a --name of its own" in left.err) == (5, True)
    assert cli.run(*elsewhere, "--name", "own", "--downstream-uri", f"{cli.target}.own").code == 0


@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin", "+08:00"])
def test_a_machine_whose_zone_has_no_name(zone: str, cli: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "CET-1CEST")
    follow(cli, ("once", "--tz", "System"), "as UTC, Europe/Berlin or +08:00", ("once", "--tz", zone))


def test_settings_that_are_not_there(cli: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    for missing, words in (
        ((), "Give --upstream-uri, for example"),
        ((f"file://{cli.storage}",), "Add ?protocol=canal-json"),
    ):
        left = cli.raw("once", *(word for uri in missing for word in ("--upstream-uri", uri)))
        assert (left.code, words in left.err) == (2, True)
    assert cli.run("once").code == 0
    monkeypatch.setenv("STORAGE_CONSUMER_WORKERS", "3")
    left = cli.run("once")
    assert (left.code, "unset STORAGE_CONSUMER_WORKERS" in left.err) == (2, True)
    monkeypatch.delenv("STORAGE_CONSUMER_WORKERS")
    assert cli.run("once").code == 0


def test_a_folder_without_its_scheme(cli: CommandLine) -> None:
    target = ("--downstream-uri", cli.target, "--tz", "UTC")
    left = cli.raw("once", "--upstream-uri", f"{cli.storage}?protocol=canal-json", *target)
    assert (left.code, "as file:///its/path" in left.err) == (2, True)
    assert cli.raw("once", "--upstream-uri", f"file://{cli.storage}?protocol=canal-json", *target).code == 0


def test_a_target_that_is_another_file(cli: CommandLine, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("no database", encoding="utf-8")
    wrong = ("once", "--downstream-uri", f"duckdb:///{tmp_path}/a.txt")
    follow(cli, wrong, "or a new one", ("once", "--downstream-uri", f"duckdb:///{tmp_path}/new.duckdb"))


def test_a_second_run_on_one_file(cli: CommandLine) -> None:
    held = Path(cli.target.removeprefix("duckdb:///") + ".staging")
    held.mkdir()
    descriptor = os.open(held / "lock", os.O_RDWR | os.O_CREAT)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        left = cli.run("once")
        assert (left.code, "wait for it, or give this one another file" in left.err) == (4, True)
        assert cli.run("once", "--downstream-uri", f"{cli.target}.other").code == 0
    finally:
        os.close(descriptor)
    assert cli.run("once").code == 0


def test_a_table_that_is_gone_upstream(cli: CommandLine) -> None:
    assert cli.run("once").code == 0
    with duckdb.connect(cli.target.removeprefix("duckdb:///")) as connection:
        connection.execute("CREATE TABLE du.left_over (id INT)")
    left = cli.run("resync", "--table", "du.left_over")
    assert (left.code, "names are case-sensitive" in left.err) == (2, True)
    assert "du.t" in cli.raw("inspect", "--upstream-uri", f"file://{cli.storage}").out


def test_another_protocol_or_a_file_in_place_of_its_folder(cli: CommandLine) -> None:
    csv, file = f"file://{cli.storage}?protocol=csv", f"file://{cli.storage}/metadata?protocol=canal-json"
    follow(cli, ("once", "--upstream-uri", csv), "give protocol=canal-json in --upstream-uri", ("once",))
    follow(cli, ("once", "--upstream-uri", file), "give the folder that `metadata` is in", ("once",))


def test_a_secret_that_was_masked(cli: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    upstream = ("--upstream-uri", f"file://{cli.storage}?protocol=canal-json", "--tz", "UTC")
    left = cli.raw("once", *upstream, "--downstream-uri", "mysql://replica:***@127.0.0.1:1/")
    assert (left.code, "or leave the flag out and set STORAGE_CONSUMER_DOWNSTREAM_URI" in left.err) == (2, True)
    monkeypatch.setenv("STORAGE_CONSUMER_DOWNSTREAM_URI", cli.target)
    assert cli.raw("once", *upstream).code == 0
    assert duckdb_tables(cli.target) == DEMO_TABLES


def test_a_port_that_another_process_has(cli: CommandLine) -> None:
    with socket.create_server(ADDRESS):
        follow(cli, ("once", "--enable-profiling"), "leave --enable-profiling out", ("once",))


def test_a_table_with_no_key_before_the_checkpoint_is_written(shop: Shop) -> None:
    shop.feed.statement("d.k", 16, Action.CREATE_TABLE, "CREATE TABLE `k` (`v` INT)", (VALUE,))
    shop.feed.file("d.k", 16, row_line("INSERT", {"v": "7"}, commit_ts=17, table="k") + b"\r\n")
    (shop.feed.folder / "metadata").unlink()
    left = shop.run("once", "--checkpoint-ts", "max")
    assert (left.code, "run again once TiCDC has written `metadata`" in left.err) == (3, True), left
    assert shop.run("once", "--checkpoint-ts", "max", "--tables", "*.*", "--tables", "!d.k").code == 0
    assert shop.once(20).code == 0


def test_a_bug(cli: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(consumer.app, "once", Mock(side_effect=KeyError("broken")))
    shown = {}
    for more in ((), ("-v",)):
        with pytest.raises(SystemExit):
            main(["once", "--upstream-uri", f"file://{cli.storage}?protocol=canal-json", *more])
        shown[more] = cli.capsys.readouterr().err
    assert "Run it again with -v to see the trace" in shown[()]
    assert "Traceback" not in shown[()]
    assert "Traceback" in shown[("-v",)]
