"""Rows that were quarantined: runs that die, checkpoints that go back, statements that move or remove their table."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import duckdb
import pytest

from consumer import app
from consumer.app import parts
from consumer.errors import BadConfig, ConsumerError
from consumer.model.actions import Action
from consumer.model.names import TableName
from consumer.results import RunResult
from consumer.sink.mysql.server.connection import connect_to_server
from consumer.sink.mysql.settings import MySqlSettings
from consumer.storage.dead_letters import LetterFolder
from tests.e2e.test_ddl_policy import RENAME
from tests.support.crashes import Crash, CrashingLoader, CrashingSink, Fuse
from tests.support.lettered import KEYLESS, TABLE, Storage, recorded
from tests.support.observers import Recorder
from tests.support.written_files import render_schema_file


@pytest.fixture(params=["canal-json", "csv"])
def storage(tmp_path: Path, request: pytest.FixtureRequest) -> Storage:
    return Storage(tmp_path, request.param)


@pytest.fixture(params=["duckdb", "mariadb"])
def target(tmp_path: Path, request: pytest.FixtureRequest) -> str:
    if request.param == "mariadb":
        return str(request.getfixturevalue("fresh_mariadb").url())
    return f"duckdb:///{tmp_path}/replica.duckdb"


def execute(target: str, statement: str) -> Any:
    if target.startswith("duckdb"):
        with duckdb.connect(target.removeprefix("duckdb:///")) as connection:
            return connection.execute(statement).fetchall()
    settings = MySqlSettings.from_uri(target, name="default", time_zone="UTC")
    with closing(connect_to_server(settings, "dml")) as connection, connection.cursor() as cursor:
        cursor.execute(statement)
        connection.commit()
        return cursor.fetchall()


def cut(line: bytes) -> bytes:
    return line[:-4]


def dying_at_each_moment(
    storage: Storage, target: str, monkeypatch: pytest.MonkeyPatch, behind: Callable[[int], object] = lambda _: None
) -> tuple[RunResult, int]:
    """Runs, each of which dies at a later moment than the one before, until one does not; `behind` is called with how
    many have died. That one's result, and that number."""
    real_put, real_sink = LetterFolder.put, parts.sink_of
    deaths = 0
    while True:
        fuse = Fuse(deaths)
        with monkeypatch.context() as patch:
            patch.setattr(LetterFolder, "put", fuse.around(real_put))
            patch.setattr(parts, "sink_of", lambda *given, fuse=fuse: CrashingSink(real_sink(*given), fuse))
            try:
                return app.once(storage.settings(target), Recorder(), CrashingLoader(fuse)), deaths
            except Crash:
                deaths += 1
        behind(deaths)


def test_a_run_that_dies_at_any_moment_doubles_and_loses_nothing(
    storage: Storage, target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = [storage.line((10 + n, str(n), "1", "a")) for n in range(6)]
    storage.file(*lines[:2], cut(lines[2]), lines[3])
    storage.file(cut(lines[4]), lines[5])
    storage.feed.checkpoint(13)
    # The run behind a death may see more.
    result, deaths = dying_at_each_moment(storage, target, monkeypatch, lambda n: storage.feed.checkpoint(13 + n % 4))
    assert deaths > 5
    assert result.exit_code == 3
    storage.once(target, 100)
    letters = storage.written()
    assert len(letters) == 2
    assert {letter["id"] for letter in letters} == recorded(target)[TABLE].keys()


@pytest.mark.parametrize("bad", ["line", "value"])
def test_a_table_with_no_key_whose_writer_moves_its_progress(
    target: str, bad: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its rows and its place are one transaction of the writer: what is bad must be recorded before."""
    storage = Storage(tmp_path, columns=KEYLESS)
    storage.file(storage.line((5, "0", "0", "a")))
    storage.once(target, 7)
    if bad == "value":
        narrow = (
            "ALTER TABLE d.t ALTER COLUMN v TYPE TINYINT" if "duckdb" in target else "ALTER TABLE d.t MODIFY v TINYINT"
        )
        execute(target, narrow)
    first, second = storage.line((10, "1", "1", "a")), storage.line((11, "2", "1000", "a"))
    storage.file(first, second if bad == "value" else cut(second), storage.line((12, "3", "3", "a")))
    storage.feed.checkpoint(20)
    _, deaths = dying_at_each_moment(storage, target, monkeypatch)
    assert deaths > 3
    letters = storage.written()
    assert [letter["line"] for letter in letters] == [2]
    assert {letter["id"] for letter in letters} == recorded(target)[TABLE].keys()
    assert [row[0] for row in execute(target, "SELECT id FROM d.t ORDER BY id")] == [0, 1, 3]


def test_a_checkpoint_that_goes_back(storage: Storage, target: str) -> None:
    lines = [storage.line((10 + n, str(n), "1", "a")) for n in range(6)]
    storage.file(lines[0], cut(lines[1]), *lines[2:4], cut(lines[4]), lines[5])
    for checkpoint in (11, 13, 12, 10, 14, 100, 14):
        storage.once(target, checkpoint)
        letters = storage.written()
        assert {letter["id"] for letter in letters} == recorded(target).get(TABLE, {}).keys()
    assert [letter["line"] for letter in letters] == [2, 5]


def test_rows_of_a_table_that_is_gone(storage: Storage, target: str) -> None:
    storage.file(storage.line((10, "1", "1", "a")), cut(storage.line((11, "2", "1", "a"))))
    assert storage.once(target, 20).exit_code == 3
    storage.feed.truncate("d.t", 30)
    result = storage.once(target, 40)
    assert (result.exit_code, result.tables[TABLE].quarantined) == (0, 0)
    assert recorded(target) == {}


def test_rows_of_a_table_that_a_policy_keeps(storage: Storage, target: str) -> None:
    """Its TRUNCATE TABLE is ignored, so it lacks them still, and can get them."""
    kept = {"ddl": {"rules": [{"action": "ignore", "kinds": ["truncate-table"], "tables": ["*.*"]}]}}
    lines = [storage.line((10, "1", "1", "a")), storage.line((11, "2", "1", "a"))]
    path = storage.file(lines[0], cut(lines[1]))
    storage.once(target, 20, **kept)
    storage.feed.statement(str(TABLE), 30, Action.TRUNCATE_TABLE, "TRUNCATE TABLE `t`", storage.columns)
    storage.file(storage.line((31, "3", "1", "a")), version=30)
    result = storage.once(target, 40, **kept)
    assert (result.exit_code, result.tables[TABLE].quarantined) == (3, 1)
    (storage.feed.folder / path).write_bytes(b"".join(line + b"\r\n" for line in lines))
    (found,) = app.retry(storage.settings(target, **kept), Recorder(), lambda _: True, CrashingLoader(Fuse())).tables
    assert (found.taken_in, found.quarantined) == (1, 0), found.error
    assert [row[0] for row in execute(target, "SELECT id FROM d.t ORDER BY id")] == [1, 2, 3]


def test_rows_of_a_table_that_was_dropped(storage: Storage, target: str) -> None:
    storage.file(storage.line((10, "1", "1", "a")), cut(storage.line((11, "2", "1", "a"))))
    assert storage.once(target, 20).exit_code == 3
    storage.feed.drop("d.t", 30)
    assert storage.once(target, 40).exit_code == 0
    assert recorded(target) == {}


def test_rows_of_a_table_that_was_renamed(storage: Storage, target: str) -> None:
    storage.file(storage.line((10, "1", "1", "a")), cut(storage.line((11, "2", "1", "a"))))
    (letter,) = (storage.once(target, 20), storage.written())[1]
    storage.feed.rename("d.t", "d.u", 30)
    renamed = TableName("d", "u")
    result = storage.once(target, 40)
    assert (result.exit_code, result.tables[renamed].quarantined) == (3, 1)
    assert recorded(target)[renamed].keys() == {letter["id"]}
    assert storage.written() == [letter]


@pytest.mark.parametrize("lines", ["bad", "bad bad", "old bad", "bad new", "new bad", "new bad bad new"])
@pytest.mark.parametrize("how", ["truncated", "dropped", "renamed", "altered"])
def test_a_line_behind_a_statement_of_the_same_round(tmp_path: Path, how: str, lines: str) -> None:
    """It does not tell its time. It counts for the table that its folder is of, and does not go where rows from before
    the statement go."""
    target, storage = f"duckdb:///{tmp_path}/replica.duckdb", Storage(tmp_path)
    create = "CREATE TABLE `t` (`id` INT PRIMARY KEY NOT NULL, `v` INT, `s` VARCHAR(8))"
    storage.file(storage.line((10, "1", "9", "a")))
    storage.once(target, 20)
    if how == "truncated":
        storage.feed.statement(str(TABLE), 30, Action.TRUNCATE_TABLE, "TRUNCATE TABLE `t`", storage.columns)
    elif how == "altered":
        storage.feed.statement(str(TABLE), 30, Action.ADD_INDEX, "ALTER TABLE `t` ADD INDEX (`v`)", storage.columns)
    else:
        if how == "dropped":
            storage.feed.drop(str(TABLE), 25)
        else:
            query = "RENAME TABLE `d`.`t` TO `d`.`u`"
            storage.feed.statement("d.u", 25, Action.RENAME_TABLE, query, storage.columns)
        storage.feed.statement(str(TABLE), 30, Action.CREATE_TABLE, create, storage.columns)
    bad, old, new = b"\0" * 40, storage.line((10, "1", "9", "a")), storage.line((42, "3", "1", "y"))
    storage.file(*({"bad": bad, "old": old, "new": new}[which] for which in lines.split()), version=30)
    result = storage.once(target, 50)
    assert storage.seen.stopped == {}
    assert (result.exit_code, result.tables[TABLE].quarantined) == (3, lines.count("bad"))
    assert storage.once(target, 60).tables[TABLE].quarantined == lines.count("bad")
    found = {
        check.table: check.state
        for check in app.verify(storage.settings(target), Recorder(), loader=CrashingLoader(Fuse())).tables
    }
    assert found[TABLE] == "equal in part"
    path = storage.feed.folder / "d/t/30/CDC00000000000000000001.json"
    mended = [storage.line((43 + n, str(40 + n), "1", "m")) for n in range(2)]
    good = [old] if "old" in lines else []
    path.write_bytes(b"".join(line + b"\r\n" for line in (*good, new, *mended)))
    for table in app.retry(storage.settings(target), Recorder(), lambda _: True, CrashingLoader(Fuse())).tables:
        assert table.quarantined == 0, table.error
    assert recorded(target) == {}
    kept = [1] if how == "altered" else []
    assert [row[0] for row in execute(target, "SELECT id FROM d.t ORDER BY id")] == [*kept, 3, 40, 41]


@pytest.mark.parametrize("how", ["dropped", "truncated"])
def test_rows_of_a_table_that_comes_back(storage: Storage, target: str, how: str) -> None:
    """It lacks them again, if it comes back from the trash. Meanwhile nobody counts them."""
    storage.file(storage.line((10, "1", "1", "a")), cut(storage.line((11, "2", "1", "a"))))
    (letter,) = (storage.once(target, 20, **RENAME), storage.written())[1]
    (storage.feed.drop if how == "dropped" else storage.feed.truncate)("d.t", 30)
    assert storage.once(target, 40, **RENAME).exit_code == 0
    assert not any(row.quarantined for row in app.status(storage.settings(target), Recorder()).tables)
    back = TableName("d", "back")
    query = "FLASHBACK TABLE `t` TO `back`"
    storage.feed.statement(str(back), 50, Action.RECOVER_TABLE, query, storage.columns)
    result = storage.once(target, 60, **RENAME)
    assert (result.exit_code, result.tables[back].quarantined) == (3, 1)
    assert recorded(target)[back].keys() == {letter["id"]}
    assert execute(target, "SELECT id FROM d.back") in ([(1,)], ((1,),))


def test_rows_of_tables_that_exchange_a_partition(storage: Storage, target: str) -> None:
    """Nobody knows whose they are: both tables may lack them, and one that is dropped takes none along."""
    query = (
        "CREATE TABLE `p` (`id` INT PRIMARY KEY NOT NULL, `v` INT, `s` VARCHAR(8))"
        " PARTITION BY RANGE (`id`) (PARTITION `p0` VALUES LESS THAN (100))"
    )
    storage.feed.statement("d.p", 3, Action.CREATE_TABLE, query, storage.columns)
    storage.file(storage.line((10, "1", "1", "a")), cut(storage.line((11, "2", "1", "a"))))
    assert storage.once(target, 20).exit_code == 3
    query = "ALTER TABLE `d`.`p` EXCHANGE PARTITION `p0` WITH TABLE `d`.`t`"
    storage.feed.statement("d.p", 30, Action.EXCHANGE_PARTITION, query, storage.columns)
    storage.feed.describe("d.t", 30, storage.columns)
    result = storage.once(target, 40)
    parted = TableName("d", "p")
    assert {name: result.tables[name].quarantined for name in (TABLE, parted)} == {TABLE: 1, parted: 1}
    storage.feed.drop("d.t", 50)
    result = storage.once(target, 60)
    assert (result.exit_code, result.tables[parted].quarantined) == (3, 1)
    (found,) = app.retry(storage.settings(target), Recorder(), lambda _: True, CrashingLoader(Fuse())).tables
    assert (found.table, found.taken_in, found.quarantined) == (parted, 0, 1)
    assert found.error


def test_letters_of_tables_with_long_names_and_dots(tmp_path: Path, target: str) -> None:
    storage = Storage(tmp_path)
    names = ["表" * 40, "a.b"]
    for name in names:
        query = f"CREATE TABLE `{name}` (`id` INT PRIMARY KEY NOT NULL, `v` INT, `s` VARCHAR(8))"
        storage.feed.statement(f"d.{name}", 3, Action.CREATE_TABLE, query, storage.columns)
        line = storage.line((10, "1", "1", "a"), table=name)
        content = cut(line) + b"\r\n" + line + b"\r\n"
        path, _ = render_schema_file("d", name, 3, storage.columns, query, Action.CREATE_TABLE)
        (storage.feed.folder / path.root / "3").mkdir(parents=True)
        (storage.feed.folder / path.root / "3" / "CDC00000000000000000001.json").write_bytes(content)
    assert storage.once(target, 20).exit_code == 3
    assert len(storage.written()) == 2
    assert {path.parent.name for path in storage.letters.glob("*/*/*.json")} >= {"d.a%2Eb"}


def test_rows_of_a_table_that_is_loaded_again(storage: Storage, target: str) -> None:
    path = storage.file(storage.line((10, "1", "1", "a")), cut(storage.line((11, "2", "1", "a"))))
    storage.once(target, 20)
    (storage.feed.folder / path).unlink()
    storage.file(storage.line((10, "1", "1", "a")), storage.line((11, "2", "1", "a")), number=1)
    storage.once(target, 20)
    assert recorded(target)[TABLE]
    result = app.resync(storage.settings(target), Recorder(), TABLE, CrashingLoader(Fuse()))
    assert result.exit_code == 0
    assert recorded(target) == {}


def test_a_folder_that_cannot_be_written(storage: Storage, target: str) -> None:
    storage.letters.write_text("a file")
    storage.file(storage.line((10, "1", "1", "a")), cut(storage.line((11, "2", "1", "a"))))
    with pytest.raises(ConsumerError, match="cannot write") as caught:
        storage.once(target, 20, max_wait="0")
    assert caught.value.exit_code == 4
    assert recorded(target) == {}


def test_a_folder_inside_of_the_storage(storage: Storage, target: str) -> None:
    inside = f"file://{storage.feed.folder}/letters"
    with pytest.raises(BadConfig, match="inside of the storage") as caught:
        storage.once(target, 20, dead_letters=inside)
    assert "another folder" in caught.value.hint
    assert not (storage.feed.folder / "letters").exists()
    assert storage.once(target, 20).exit_code == 0
