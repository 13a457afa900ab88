"""`verify --repair` and `--repair-sql`: what differs becomes what the storage says, and nothing else changes."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import duckdb
import pytest

from consumer import app
from consumer.config.load import load
from consumer.config.settings import Settings
from consumer.errors import BadConfig, LeaseHeld, ProgressMoved
from consumer.model.actions import Action
from consumer.model.check import Repairing, TableCheck
from consumer.model.columns import Column
from consumer.model.names import TableName
from tests.servers import SqlServer
from tests.support.build import ID
from tests.support.canal_json import typed_line
from tests.support.feed import Feed
from tests.support.inline_loader import InlineLoader
from tests.support.observers import Recorder
from tests.support.places import File, Place, Server

Row = Mapping[str, str | None]
NUMBER, TEXT = Column("n", "INT", length=11), Column("s", "VARCHAR", length=40)


@pytest.fixture(params=["mariadb", "mysql", "tidb"])
def server(request: pytest.FixtureRequest) -> Server:
    return Server(request.getfixturevalue(f"fresh_{request.param}"))


@pytest.fixture(params=["mariadb", "mysql", "tidb", "duckdb"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    if request.param == "duckdb":
        return File(tmp_path / "replica.duckdb")
    return Server(request.getfixturevalue(f"fresh_{request.param}"))


class Story:
    """A table d.t that is written to from ts 10 on."""

    def __init__(self, folder: Path, place: Place, create: str, columns: Sequence[Column], **flags: object) -> None:
        self.feed, self.place, self.columns, self._ts = Feed(folder / "storage"), place, tuple(columns), 20
        self.feed.database("d", 5)
        if create:
            self.feed.statement("d.t", 10, Action.CREATE_TABLE, f"CREATE TABLE `t` ({create})", self.columns)
        else:
            self.feed.describe("d.t", 10, self.columns)
        self.version = 10
        self.given = {"upstream_uri": f"file://{self.feed.folder}?protocol=canal-json", "downstream_uri": place.uri}
        self.settings: Settings = load({**self.given, **flags}, {}).settings
        self.script = folder / "right.sql"

    def insert(self, *rows: Row) -> None:
        self.feed.file("d.t", self.version, b"".join(self._line(row) for row in rows))

    def alter(self, query: str, columns: Sequence[Column]) -> None:
        self._ts += 1
        self.version, self.columns = self._ts, tuple(columns)
        self.feed.statement("d.t", self.version, Action.ADD_COLUMN, query, self.columns)

    def apply(self) -> None:
        self._ts += 1
        self.feed.checkpoint(self._ts)
        observer = Recorder()
        app.once(self.settings, observer, InlineLoader())
        assert {str(table): str(error) for table, error in observer.stopped.items()} == {}

    def verify(self, repairing: Repairing = Repairing()) -> TableCheck:  # noqa: B008
        (table,) = app.verify(self.settings, Recorder(), loader=InlineLoader(), repairing=repairing).tables
        return table

    def make_right(self, by_script: bool) -> TableCheck:
        """The table as it is compared after that."""
        if not by_script:
            return self.verify(Repairing(write=True))
        before = self.place.rows()
        self.verify(Repairing(sql=str(self.script)))
        assert self.place.rows() == before
        self.place.run(self.script)
        return self.verify()

    def _line(self, row: Row) -> bytes:
        self._ts += 1
        return typed_line(self.columns, self._ts, dict(row))


ODD = "it's \\ 'so'\n\0\r\x1a;\n-- \u00e9\U0001f600 %s"


@pytest.mark.parametrize("by_script", [False, True])
def test_rows_of_all_kinds(place: Place, tmp_path: Path, by_script: bool) -> None:
    story = Story(tmp_path, place, "`id` INT PRIMARY KEY, `n` INT, `s` VARCHAR(40)", (ID, NUMBER, TEXT))
    story.insert(*({"id": str(number), "n": str(number), "s": ODD} for number in range(1200)))
    story.apply()
    right = place.rows()
    place.by_hand(
        "UPDATE d.t SET n = 5, s = NULL WHERE id < 300",
        "DELETE FROM d.t WHERE id >= 500",
        "INSERT INTO d.t VALUES (-1, 1, 'a'), (-2, NULL, NULL)",
    )
    found = story.make_right(by_script)
    assert (found.state, found.counted.differences) == ("equal", 0)
    assert place.rows() == right
    if not by_script:
        assert found.repaired is not None
        assert (found.repaired.missing, found.repaired.extra, found.repaired.differing) == (700, 2, 300)


@pytest.mark.parametrize("by_script", [False, True])
def test_copies_of_a_table_with_no_key(place: Place, tmp_path: Path, by_script: bool) -> None:
    story = Story(tmp_path, place, "`n` INT, `s` VARCHAR(40)", (NUMBER, TEXT))
    rows = [{"n": "1", "s": ODD}] * 3 + [{"n": None, "s": None}] * 2 + [{"n": "2", "s": "A"}]
    story.insert(*rows, {"n": "3", "s": "b"})
    story.apply()
    right = place.rows()
    place.by_hand(
        "INSERT INTO d.t SELECT * FROM d.t WHERE n = 1",
        "DELETE FROM d.t WHERE n IS NULL",
        "UPDATE d.t SET s = 'a' WHERE n = 2",
        "INSERT INTO d.t VALUES (4, NULL), (4, NULL)",
    )
    assert story.make_right(by_script).state == "equal"
    assert place.rows() == right


def test_a_file_of_statements_for_copies_can_run_again(place: Place, tmp_path: Path) -> None:
    story = Story(tmp_path, place, "`n` INT, `s` VARCHAR(40)", (NUMBER, TEXT))
    story.insert(*[{"n": "1", "s": ODD}] * 3, *[{"n": None, "s": None}] * 2, {"n": "2", "s": "A"})
    story.apply()
    right = place.rows()
    place.by_hand("INSERT INTO d.t SELECT * FROM d.t WHERE n = 1", "DELETE FROM d.t WHERE n IS NULL")
    script = tmp_path / "again.sql"
    story.verify(Repairing(sql=str(script)))
    for _ in range(2):
        place.run(script)
        assert place.rows() == right


@pytest.mark.parametrize("own", [False, True])
def test_a_file_of_statements_that_runs_twice_gives_no_key_a_second_row(
    place: Place, tmp_path: Path, own: bool
) -> None:
    story = Story(tmp_path, place, "`id` INT PRIMARY KEY, `n` INT", (ID, NUMBER))
    story.insert(*({"id": str(number), "n": str(number)} for number in range(1, 4)))
    story.apply()
    if own:
        place.by_hand("ALTER TABLE d.t ADD COLUMN own INT DEFAULT 9")
    right = place.rows()
    place.by_hand("DELETE FROM d.t WHERE id < 3")
    story.make_right(by_script=True)
    with suppress(subprocess.CalledProcessError):  # a server's key may end it with an error
        place.run(story.script)
    assert place.rows() == right
    assert story.verify().counted.differences == 0


@pytest.mark.parametrize("name", ["folder", "folder/none/right.sql"])
def test_a_file_of_statements_that_cannot_be_written_is_refused_at_once(tmp_path: Path, name: str) -> None:
    story = Story(tmp_path, File(tmp_path / "replica.duckdb"), "`n` INT", (NUMBER,))
    story.insert({"n": "1"})
    story.apply()
    (tmp_path / "folder").mkdir()
    repairing = Repairing(sql=str(tmp_path / name))
    with pytest.raises(BadConfig, match=f"{name} cannot be written") as refused:
        app.verify(story.settings, Recorder(), loader=ComparesNothing(), repairing=repairing)
    assert refused.value.hint == "name another file"


class ComparesNothing(InlineLoader):
    def read(self, *_: Any) -> Iterator[Any]:
        raise AssertionError("it is refused before anything is compared")


def with_a_default(place: Place, tmp_path: Path, default: str) -> Story:
    """Rows 1 to 4 are older than the column `s`, row 5 has a value of it; 1 and 2 were changed by hand, 3 and 5 are
    gone."""
    story = Story(tmp_path, place, "`id` INT PRIMARY KEY, `n` INT", (ID, NUMBER))
    story.insert(*({"id": str(number), "n": str(number)} for number in range(1, 5)))
    query = f"ALTER TABLE `t` ADD COLUMN `s` VARCHAR(20) DEFAULT {default}"
    story.alter(query, (ID, NUMBER, Column("s", "VARCHAR", length=20)))
    story.insert({"id": "5", "n": "5", "s": "new"})
    story.apply()
    place.by_hand("UPDATE d.t SET s = 'kept', n = 77 WHERE id IN (1, 2)", "DELETE FROM d.t WHERE id IN (3, 5)")
    return story


@pytest.mark.parametrize("by_script", [False, True])
def test_the_default_of_a_new_column_is_known_of_older_rows(place: Place, tmp_path: Path, by_script: bool) -> None:
    found = with_a_default(place, tmp_path, "'x'").make_right(by_script)
    assert (found.state, found.counted.differences) == ("equal", 0)
    assert place.rows("id, n, s") == [(1, 1, "x"), (2, 2, "x"), (3, 3, "x"), (4, 4, "x"), (5, 5, "new")]


@pytest.mark.parametrize("by_script", [False, True])
def test_columns_that_the_storage_does_not_tell_keep_their_values(
    server: Server, tmp_path: Path, by_script: bool
) -> None:
    found = with_a_default(server, tmp_path, "(SUBSTR('xyz', 1, 1))").make_right(by_script)
    assert (found.state, found.counted.differences) == ("equal in part", 0)
    assert any("1 row is new, with the target's defaults in s" in note for note in found.notes) or by_script
    assert server.rows("id, n, s") == [(1, 1, "kept"), (2, 2, "kept"), (3, 3, "x"), (4, 4, "x"), (5, 5, "new")]


@pytest.mark.parametrize("by_script", [False, True])
def test_columns_that_only_the_target_has_keep_their_values(place: Place, tmp_path: Path, by_script: bool) -> None:
    story = Story(tmp_path, place, "`id` INT PRIMARY KEY, `n` INT", (ID, NUMBER))
    story.insert(*({"id": str(number), "n": str(number)} for number in range(1, 4)))
    story.apply()
    place.by_hand("ALTER TABLE d.t ADD COLUMN own INT DEFAULT 9", "UPDATE d.t SET own = id")
    place.by_hand("UPDATE d.t SET n = 77 WHERE id = 2", "DELETE FROM d.t WHERE id = 3")
    assert story.make_right(by_script).counted.differences == 0
    assert place.rows("id, n, own") == [(1, 1, 1), (2, 2, 2), (3, 3, 9)]


@pytest.mark.parametrize("by_script", [False, True])
def test_a_time_of_change_that_only_the_target_has_stays(server: Server, tmp_path: Path, by_script: bool) -> None:
    story = Story(tmp_path, server, "`id` INT PRIMARY KEY, `n` INT", (ID, NUMBER))
    story.insert({"id": "1", "n": "1"})
    story.apply()
    server.by_hand("ALTER TABLE d.t ADD COLUMN own DATETIME ON UPDATE CURRENT_TIMESTAMP")
    server.by_hand("UPDATE d.t SET n = 7, own = '2002-02-02 00:00:00'")
    assert story.make_right(by_script).counted.differences == 0
    assert server.by_hand("SELECT n, YEAR(own) FROM d.t") == [(1, 2002)]


@pytest.mark.parametrize("by_script", [False, True])
def test_zeros_with_both_signs_in_a_table_with_no_key(server: Server, tmp_path: Path, by_script: bool) -> None:
    story = Story(tmp_path, server, "`f` DOUBLE, `n` INT", (Column("f", "DOUBLE"), NUMBER))
    story.insert({"f": "0", "n": "1"}, {"f": "-0", "n": "1"}, {"f": "-1.5", "n": "1"})
    story.apply()
    assert story.verify().state == "equal"
    server.by_hand("DELETE FROM d.t WHERE f = 0 LIMIT 1")
    assert story.make_right(by_script).state == "equal"
    assert sorted(server.rows()) == [(-1.5, 1), (0.0, 1), (0.0, 1)]


def test_unique_values_that_were_swapped(server: Server, tmp_path: Path) -> None:
    story = Story(tmp_path, server, "`id` INT PRIMARY KEY, `n` INT, UNIQUE KEY `u` (`n`)", (ID, NUMBER))
    story.insert(*({"id": str(number), "n": str(number)} for number in range(1, 6)))
    story.apply()
    right = server.rows()
    swap = ("UPDATE d.t SET n = -n", "UPDATE d.t SET n = 6 + n", "UPDATE d.t SET id = 9 WHERE id = 4")
    server.by_hand(*swap)
    assert story.make_right(by_script=False).state == "equal"
    assert server.rows() == right
    server.by_hand(*swap)
    before = server.rows()
    with pytest.raises(subprocess.CalledProcessError) as failed:  # one statement after the other cannot swap them
        story.make_right(by_script=True)
    assert b"Duplicate" in failed.value.stderr
    assert server.rows() == before


@pytest.mark.parametrize("by_script", [False, True])
def test_a_row_that_the_storage_does_not_tell_of_is_not_removed(
    server: Server, tmp_path: Path, by_script: bool
) -> None:
    server.by_hand("CREATE DATABASE d", "CREATE TABLE d.t (id INT PRIMARY KEY, n INT, UNIQUE KEY `u` (n))")
    server.by_hand("INSERT INTO d.t VALUES (1, 1), (2, 2)")
    story = Story(tmp_path, server, "", (ID, NUMBER), start_ts=8)
    story.insert({"id": "3", "n": "3"}, {"id": "4", "n": "4"})
    story.apply()
    server.by_hand("UPDATE d.t SET n = 33 WHERE id = 3", "UPDATE d.t SET n = 3 WHERE id = 1")
    server.by_hand("DELETE FROM d.t WHERE id = 4")
    if by_script:
        story.verify(Repairing(sql=str(story.script)))
        with pytest.raises(subprocess.CalledProcessError):
            server.run(story.script)
    else:
        found = story.verify(Repairing(write=True))
        assert found.state == "differs"
        assert "not made right" in found.notes[-1]
    assert server.rows() == [(1, 3), (2, 2), (3, 33)]


@pytest.mark.parametrize("by_script", [False, True])
def test_keys_that_differ_in_case_alone(place: Place, tmp_path: Path, by_script: bool) -> None:
    key = Column("k", "VARCHAR", length=20, nullable=False, is_pk=True)
    story = Story(tmp_path, place, "`k` VARCHAR(20) COLLATE utf8mb4_general_ci PRIMARY KEY, `n` INT", (key, NUMBER))
    story.insert({"k": "a", "n": "1"}, {"k": "B", "n": "2"})
    story.apply()
    place.by_hand("UPDATE d.t SET k = 'A' WHERE k = 'a'", "UPDATE d.t SET k = 'b', n = 3 WHERE k = 'B'")
    assert story.make_right(by_script).state == "equal"
    assert place.rows() == [("B", 2), ("a", 1)]


def test_a_column_that_the_server_computes(server: Server, tmp_path: Path) -> None:
    stored = Column("g", "INT", length=11)
    create = "`id` INT PRIMARY KEY, `n` INT, `g` INT GENERATED ALWAYS AS (`n` + 1) STORED, UNIQUE KEY `u` (`g`)"
    story = Story(tmp_path, server, create, (ID, NUMBER, stored))
    story.insert({"id": "1", "n": "1", "g": "2"}, {"id": "2", "n": "2", "g": "3"})
    story.apply()
    for by_script in (False, True):
        server.by_hand("UPDATE d.t SET n = 7 WHERE id = 1", "DELETE FROM d.t WHERE id = 2")
        assert story.make_right(by_script).state == "equal"
        assert server.rows() == [(1, 1, 2), (2, 2, 3)]


def test_statements_of_a_file_do_nothing_once_the_consumer_has_gone_on(place: Place, tmp_path: Path) -> None:
    story = Story(tmp_path, place, "`id` INT PRIMARY KEY, `n` INT", (ID, NUMBER))
    story.insert({"id": "1", "n": "1"})
    story.apply()
    place.by_hand("UPDATE d.t SET n = 5")
    story.verify(Repairing(sql=str(story.script)))
    story.insert({"id": "2", "n": "2"})
    story.apply()
    with pytest.raises((subprocess.CalledProcessError, duckdb.Error)):
        place.run(story.script)
    assert place.rows() == [(1, 5), (2, 2)]


def test_nor_at_the_same_watermark_once_it_was_taken(place: Place, tmp_path: Path) -> None:
    """Whoever had it may have read another storage: a line that was mended, a file that was written again."""
    story = Story(tmp_path, place, "`id` INT PRIMARY KEY, `n` INT", (ID, NUMBER))
    story.insert({"id": "1", "n": "1"})
    story.apply()
    place.by_hand("UPDATE d.t SET n = 5")
    story.verify(Repairing(sql=str(story.script)))
    assert story.verify().state == "differs"
    story.apply()
    with pytest.raises((subprocess.CalledProcessError, duckdb.Error)):
        place.run(story.script)
    assert place.rows() == [(1, 5)]
    assert story.make_right(by_script=True).state == "equal"
    assert place.rows() == [(1, 1)]


def truncated(place: Place, tmp_path: Path, action: str) -> Story:
    """A row and a TRUNCATE TABLE, for which the policy has this `action`."""
    rules = [{"action": action, "kinds": ["truncate-table"], "tables": ["*.*"]}]
    story = Story(tmp_path, place, "`id` INT PRIMARY KEY, `n` INT", (ID, NUMBER), ddl={"rules": rules})
    story.insert({"id": "1", "n": "1"})
    story.apply()
    story.feed.statement("d.t", 30, Action.TRUNCATE_TABLE, "TRUNCATE TABLE `t`", story.columns)
    story.feed.checkpoint(40)
    app.once(story.settings, Recorder(), InlineLoader())
    return story


def test_rows_stay_that_a_policy_has_kept(place: Place, tmp_path: Path) -> None:
    story = truncated(place, tmp_path, "ignore")
    assert place.rows() == [(1, 1)]
    assert story.verify().state == "equal"
    place.by_hand("DELETE FROM d.t")
    assert story.verify().counted.missing == 1
    assert story.make_right(by_script=False).state == "equal"
    assert place.rows() == [(1, 1)]


def test_rows_stay_of_a_statement_that_a_person_has_done(place: Place, tmp_path: Path) -> None:
    story = truncated(place, tmp_path, "fail")
    app.skip_ddl(story.settings, Recorder(), TableName("d", "t"), 30, "left as it was")
    app.once(story.settings, Recorder(), InlineLoader())
    for repairing in (Repairing(write=True), Repairing(sql=str(story.script))):
        found = story.verify(repairing)
        assert (found.state, found.counted.extra) == ("differs", 1)
        assert "not made right: the statement of version 30" in found.notes[-1]
    assert place.rows() == [(1, 1)]


def test_nothing_is_written_while_a_statement_may_be_half_done(server: Server, tmp_path: Path) -> None:
    story = Story(tmp_path, server, "`id` INT PRIMARY KEY, `n` INT", (ID, NUMBER))
    story.insert({"id": "1", "n": "1"})
    story.apply()
    server.by_hand("DELETE FROM d.t", "UPDATE storage_consumer.ddl SET state = 'intent' WHERE table_name = ''")
    found = story.verify(Repairing(write=True))
    assert (found.state, found.counted.missing) == ("differs", 1)
    assert "run `once` first" in found.notes[-1]
    assert server.rows() == []


class TakenOver(InlineLoader):
    """Another consumer takes the target between the comparison and the repair."""

    def __init__(self, server: SqlServer, settings: Settings) -> None:
        super().__init__()
        self._server, self._settings = server, settings

    def read(self, *given: Any) -> Iterator[Any]:
        found = list(super().read(*given))
        self._server.kill_clients()
        app.once(self._settings, Recorder(), InlineLoader())
        yield from found


def test_who_has_lost_the_lease_writes_nothing(server: Server, tmp_path: Path) -> None:
    story = Story(tmp_path, server, "`id` INT PRIMARY KEY, `n` INT", (ID, NUMBER))
    story.insert({"id": "1", "n": "1"})
    story.apply()
    server.by_hand("UPDATE d.t SET n = 5")
    with pytest.raises((LeaseHeld, ProgressMoved)):
        app.verify(
            story.settings,
            Recorder(),
            loader=TakenOver(server.server, story.settings),
            repairing=Repairing(write=True),
        )
    assert server.rows() == [(1, 5)]


def test_merged_rows_stay_that_a_policy_has_kept(place: Place, tmp_path: Path) -> None:
    """Each of the merged tables had a statement that would have taken rows or values away."""
    feed = Feed(tmp_path / "storage")
    parts = " PARTITION BY RANGE (`id`) (PARTITION `p0` VALUES LESS THAN (9))"
    for number, table in enumerate(("a.t", "b.t", "c.t", "e.t", "f.t"), 1):
        feed.database(table[0], number)
        create = f"CREATE TABLE `t` (`id` INT PRIMARY KEY, `n` INT, `s` VARCHAR(40)){parts if table == 'f.t' else ''}"
        feed.statement(table, 10, Action.CREATE_TABLE, create, (ID, NUMBER, TEXT))
        row = {"id": "1", "n": str(number), "s": table}
        feed.file(table, 10, typed_line((ID, NUMBER, TEXT), 20, row, database=table[0], table="t"))
    feed.checkpoint(25)
    kinds = ["drop-table", "drop-database", "drop-column", "truncate-partition"]
    flags = {"routes": ("*.t -> d.t merge src",), "ddl": {"rules": [{"action": "ignore", "kinds": kinds}]}}
    uris = {"upstream_uri": f"file://{feed.folder}?protocol=canal-json", "downstream_uri": place.uri}
    settings = load({**uris, **flags}, {}).settings
    assert app.once(settings, Recorder(), InlineLoader()).exit_code == 0
    feed.drop("b.t", 30)
    feed.database("c", 31, "DROP DATABASE `c`", Action.DROP_SCHEMA)
    feed.statement("e.t", 32, Action.DROP_COLUMN, "ALTER TABLE `t` DROP COLUMN `s`", (ID, NUMBER))
    feed.statement("f.t", 33, Action.TRUNCATE_PARTITION, "ALTER TABLE `t` TRUNCATE PARTITION `p0`", (ID, NUMBER, TEXT))
    feed.checkpoint(40)
    assert app.once(settings, Recorder(), InlineLoader()).exit_code == 0
    kept = [(1, 1, "a.t"), (1, 2, "b.t"), (1, 3, "c.t"), (1, 4, "e.t"), (1, 5, "f.t")]
    for repairing in (Repairing(), Repairing(write=True)):
        checks = app.verify(settings, Recorder(), loader=InlineLoader(), repairing=repairing).tables
        found = {str(check.table): check.state for check in checks}
        assert found == {"a.t": "equal", "e.t": "equal in part", "f.t": "equal"}, "the values of e.t.s are not known"
        assert place.rows("id, n, s") == kept
    place.by_hand("INSERT INTO d.t (src, id, n, s) VALUES ('x.t', 1, 6, 'nobody''s')", "DELETE FROM d.t WHERE n = 5")
    app.verify(settings, Recorder(), loader=InlineLoader(), repairing=Repairing(write=True))
    assert place.rows("id, n, s") == kept
