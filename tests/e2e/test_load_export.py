"""load-export: the rows of an export, then exactly the changes above it. Expected are the values that were written."""

from __future__ import annotations

import json
import math
import shlex
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import duckdb
import pytest

from consumer import app
from consumer.app.parts import unloaded_tables
from consumer.cli.command import wanted_tables
from consumer.config.load import load
from consumer.config.settings import Settings
from consumer.errors import BadConfig, CannotBeExact, CheckpointBehind, ConsumerError
from consumer.model.actions import Action
from consumer.model.columns import Column, Family
from consumer.model.names import TableName
from consumer.model.progress import Progress, State, TableProgress
from consumer.model.times import ms_to_tso
from consumer.results import RunResult
from consumer.sink import sink_for
from consumer.target import TargetOptions
from tests.e2e.test_types import Rows, differences
from tests.servers import SqlServer
from tests.support.build import ID, VALUE
from tests.support.canal_json import typed_line
from tests.support.command_line import CommandLine
from tests.support.crashes import once_through_crashes
from tests.support.every_target import Duck
from tests.support.export import Bare, Cell, Export
from tests.support.feed import Feed, states
from tests.support.inline_loader import InlineLoader
from tests.support.observers import Recorder
from tests.support.type_cases import ZONE, TypeCase, Value
from tests.support.type_storage import DATABASE, CaseTable, case_tables

T = TableName("d", "t")
Ask = Callable[[str], list[tuple[Any, ...]]]
CREATE = "CREATE TABLE `{}` (\n  `id` int(11) NOT NULL,\n  `v` int(11) DEFAULT NULL{}\n) ENGINE=InnoDB"
KEY = ",\n  PRIMARY KEY (`id`) /*T![clustered_index] CLUSTERED */"
KEYLESS = (Column("id", "INT", length=11), Column("v", "INT", length=11))
Pair = tuple[int, int | None]


def at(second: int) -> int:
    """The TSO of that second of the tests' time."""
    return ms_to_tso(1_770_000_000_000 + second * 1000)


EXPORTED = at(10)


@dataclass
class Scene:
    """A changefeed that was created at second 0, an export of second 10, and a target."""

    folder: Path
    url: str
    ask: Ask
    flags: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.feed = Feed(self.folder / "cdc")
        self.feed.database("older", at(1))
        self.feed.checkpoint(at(20))
        self.export = Export(self.folder / "export", EXPORTED, rows_per_file=2)

    def older(self, table: str, *rows: Pair, key: bool = True) -> None:
        """A table that was there before the changefeed, with these rows at the export."""
        database, name = table.split(".")
        self.export.database(database)
        self.export.table(database, name, CREATE.format(name, KEY if key else ""), ["id", "v"], rows)

    def puts(self, table: str, rows: dict[int, Pair], columns: Sequence[Column] = (ID, VALUE)) -> None:
        """By second, what the changefeed wrote; the table's schema file has no statement."""
        self.feed.describe(table, at(0), tuple(columns))
        self.feed.puts(table, at(0), {at(second): (key, str(v)) for second, (key, v) in rows.items()})

    def settings(self, **flags: Any) -> Settings:
        upstream = f"file://{self.feed.folder}?protocol=canal-json"
        return load(
            {"upstream_uri": upstream, "downstream_uri": self.url, "tz": "UTC", **self.flags, **flags}, {}
        ).settings

    def load(self, table: str | None = None, query: str = "", **flags: Any) -> RunResult:
        self.export.finish()
        some = None if table is None else wanted_tables([table], False)
        uri = f"{self.export.folder}{query}"
        return app.load_export(self.settings(**flags), Recorder(), uri, some, InlineLoader())

    def once(self, second: int, **flags: Any) -> RunResult:
        self.feed.checkpoint(at(second))
        return app.once(self.settings(**flags), Recorder(), InlineLoader())

    def rows(self, table: str) -> list[Pair]:
        return sorted((int(key), v if v is None else int(v)) for key, v in self.ask(f"SELECT id, v FROM {table}"))

    @property
    def names(self) -> set[str]:
        """The consumers that the target knows."""
        return set(sink_for(self.url, TargetOptions("default")).consumers())


@pytest.fixture
def scene(tmp_path: Path, database: tuple[str, Ask]) -> Scene:
    return Scene(tmp_path, *database)


@pytest.fixture
def duck(tmp_path: Path) -> Scene:
    return Scene(tmp_path, f"duckdb:///{tmp_path / 'r.duckdb'}", Duck(tmp_path / "r.duckdb"))


def done(result: RunResult) -> None:
    assert (result.exit_code, result.error) == (0, None), {str(n): t.error for n, t in result.tables.items() if t.error}


def loaded(uri: str, settings: Settings, observer: Recorder, loader: InlineLoader) -> RunResult:
    return app.load_export(settings, observer, uri, loader=loader)


def world(scene: Scene) -> None:
    """d.t with a key, d.n without one and with equal rows, d.e with no row and none to come, e.new made after the
    export, d.w a view."""
    scene.older("d.t", (1, 10), (2, 20), (3, None), (4, 40), (5, 50))
    scene.older("d.n", (1, 1), (1, 1), (2, None), (1, 1), (3, 3), key=False)
    scene.older("d.e")
    scene.export.view(
        "d",
        "w",
        "CREATE ALGORITHM=UNDEFINED VIEW `w` (`id`) AS SELECT `d`.`t`.`id` AS `id` FROM `d`.`t`",
        "`id` int(11)",
    )
    scene.export.sequence("d", "s")
    # What is at or below the export is in it, or was overwritten before it.
    scene.puts("d.t", {3: (1, 666), 9: (2, 20), 11: (3, 33), 12: (9, 99)})
    scene.puts("d.n", {8: (1, 1), 11: (1, 1), 13: (7, 7)}, KEYLESS)
    scene.feed.database("e", at(14))
    scene.feed.create("e.new", at(15))
    scene.feed.puts("e.new", at(15), {at(16): (1, "1")})


def is_whole(scene: Scene) -> None:
    assert scene.rows("d.t") == [(1, 10), (2, 20), (3, 33), (4, 40), (5, 50), (9, 99)]
    assert sorted(scene.rows("d.n"), key=str) == sorted([*[(1, 1)] * 4, (2, None), (3, 3), (7, 7)], key=str)
    assert scene.rows("d.e") == []
    assert scene.rows("e.new") == [(1, 1)]


def test_the_rows_of_the_export_then_the_changes_above_it(scene: Scene) -> None:
    world(scene)
    done(scene.load())
    assert scene.rows("d.t") == [(1, 10), (2, 20), (3, None), (4, 40), (5, 50)]
    assert len(scene.rows("d.n")) == 5
    assert scene.names == {"default"}
    done(scene.once(20))
    is_whole(scene)
    done(scene.load())
    done(scene.once(30))
    is_whole(scene)
    audit = (
        "SELECT step, row_count, puts FROM storage_consumer.audit WHERE table_name = 't' ORDER BY finished, step DESC"
    )
    assert scene.ask(audit)[0] == ("load-export", 5, 5)


def killed_anywhere(scene: Scene, stride: int, monkeypatch: pytest.MonkeyPatch) -> None:
    world(scene)
    uri = str(scene.export.finish())
    with monkeypatch.context() as patched:
        done(once_through_crashes(scene.settings(), stride, patched, lambda *run: loaded(uri, *run)))
    assert scene.names == {"default"}
    done(scene.once(20))
    is_whole(scene)


def test_killed_anywhere_nothing_is_lost_or_doubled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    killed_anywhere(_scene("memory", tmp_path), 1, monkeypatch)


def test_killed_anywhere_on_a_target_nothing_is_lost_or_doubled(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    killed_anywhere(scene, 3, monkeypatch)


def _scene(kind: str, folder: Path) -> Scene:
    if kind == "duckdb":
        return Scene(folder, f"duckdb:///{folder / 'r.duckdb'}", Duck(folder / "r.duckdb"))
    url = f"memory://{str(folder).strip('/').replace('/', '-')}"
    return Scene(folder, url, _memory(url))


def _memory(url: str) -> Ask:
    def rows(query: str) -> list[tuple[Any, ...]]:
        sink: Any = sink_for(url, TargetOptions("default"))
        return [(row["id"], row["v"]) for row in sink.rows(TableName(*query.split()[-1].split(".")))]

    return rows


@pytest.fixture(params=["sql", "csv"])
def of_types(request: pytest.FixtureRequest, tmp_path: Path) -> Export:
    """All type cases. Texts in other character sets are UTF-8 in an export, as in a changefeed."""
    export = Export(tmp_path / "export", EXPORTED, request.param, ".zst", rows_per_file=5)
    export.database(DATABASE)
    for table in case_tables(csv=True):
        rows = [[_cell(case, value) for case, value in zip(table.cases, row, strict=True)] for row in table.final]
        export.table(DATABASE, table.name, table.create, [case.column.name for case in table.cases], rows)
    export.finish()
    feed = Feed(tmp_path / "cdc")
    feed.database("older", at(1))
    feed.checkpoint(at(20))
    return export


def _cell(case: TypeCase, value: Value | None) -> Cell:
    if value is None:
        return None
    match case.column.family:
        case Family.BINARY:
            return value.canal.encode("latin-1")
        case Family.BIT:
            return int(value.canal).to_bytes(math.ceil((case.column.length or 1) / 8))
        case Family.ENUM | Family.SET:
            assert value.csv is not None
            return value.csv
        case Family.INTEGER | Family.DECIMAL | Family.FLOAT | Family.DOUBLE:
            return Bare(value.csv or value.canal)
        case _:
            return value.canal


def _load_types(export: Export, target: str) -> None:
    upstream = f"file://{export.folder.parent / 'cdc'}?protocol=canal-json"
    settings = load({"upstream_uri": upstream, "downstream_uri": target, "tz": ZONE}, {}).settings
    done(app.load_export(settings, Recorder(), str(export.folder), loader=InlineLoader()))


def test_a_file_holds_every_value(of_types: Export, tmp_path: Path) -> None:
    _load_types(of_types, f"duckdb:///{tmp_path / 'r.duckdb'}")
    with duckdb.connect(str(tmp_path / "r.duckdb")) as connection:

        def rows(table: CaseTable) -> Rows:
            return connection.table(f'{DATABASE}."{table.name}"').fetchall()

        storage: Any = SimpleNamespace(tables=case_tables(csv=True))
        assert differences(storage, rows, lambda value: value.duckdb) == []


def test_a_server_holds_every_value(of_types: Export, server: SqlServer) -> None:
    server.learn_zone(ZONE)
    _load_types(of_types, server.url())
    connection = server.connect(init_command="SET time_zone = '+00:00'")
    with connection, connection.cursor() as cursor:

        def rows(table: CaseTable) -> Rows:
            columns = ", ".join(case.read.format(f"`{case.column.name}`") for case in table.cases)
            cursor.execute(f"SELECT {columns} FROM `{DATABASE}`.`{table.name}`")
            return [list(map(_members_in_order, row)) for row in cursor.fetchall()]

        storage: Any = SimpleNamespace(tables=case_tables(csv=True))
        assert differences(storage, rows, lambda value: _members_in_order(value.mariadb)) == []


def _members_in_order(value: object) -> object:
    """MySQL keeps the members of a document in an order of its own."""
    return json.dumps(json.loads(value), sort_keys=True) if isinstance(value, str) and value[:1] == "{" else value


def test_rules_are_followed_as_for_the_changefeed(scene: Scene) -> None:
    scene.flags = {
        "routes": ("d.t -> r.other",),
        "table_modes": ("d.h = append",),
        "rows": [{"tables": ["d.f"], "where": "id > 1"}],
    }
    rows = ((1, 10), (2, 20), (3, 30))
    for table in ("d.t", "d.h", "d.f", "d.left"):
        scene.older(table, *rows)
        scene.puts(table, {8: (1, 8), 12: (3, 31), 13: (4, 41)})
    done(scene.load(tables=("d.*", "!d.left")))
    done(scene.once(20, tables=("d.*", "!d.left")))
    assert scene.rows("r.other") == [(1, 10), (2, 20), (3, 31), (4, 41)]
    assert scene.rows("d.f") == [(2, 20), (3, 31), (4, 41)]
    assert scene.rows("d.h") == [(1, 10), (2, 20), (3, 30), (3, 31), (4, 41)]
    with pytest.raises(Exception, match="left"):
        scene.rows("d.left")


# --table


def running(scene: Scene) -> None:
    """d.a and d.t follow a changefeed that has them from their beginning; d.t has lost a file."""
    feed = scene.feed
    feed.database("d", at(2))
    for table in ("d.a", "d.t"):
        feed.create(table, at(3))
        feed.puts(table, at(3), {at(4): (1, "1")})
    feed.statement("d.t", at(13), Action.MODIFY_TABLE_COMMENT, "ALTER TABLE `t` COMMENT 'later'", (ID, VALUE))
    lost = feed.puts("d.t", at(3), {at(5): (2, "2")})
    feed.puts("d.t", at(3), {at(9): (3, "3"), at(12): (4, "4")})
    feed.puts("d.t", at(13), {at(14): (1, "11")})
    lost.unlink()
    assert states(scene.once(20))["d.t"] == "stopped"
    scene.older("d.t", (1, 1), (2, 2), (3, 3))


def test_a_table_with_a_gap_comes_back(scene: Scene) -> None:
    running(scene)
    done(scene.load("d.t"))
    assert scene.rows("d.t") == [(1, 1), (2, 2), (3, 3)]
    for second in (20, 30):
        done(scene.once(second))
        assert scene.rows("d.t") == [(1, 11), (2, 2), (3, 3), (4, 4)]
    assert scene.rows("d.a") == [(1, 1)]
    scene.feed.puts("d.t", at(13), {at(31): (9, "9")})
    done(scene.once(40))
    assert scene.rows("d.t")[-1] == (9, 9)


def test_a_table_that_a_statement_has_stopped_goes_on_behind_it(duck: Scene) -> None:
    """The session's zone decided what its rows became: nobody knows it, and the export has them."""
    feed, then, now = duck.feed, (ID, Column("v", "TIMESTAMP")), (ID, Column("v", "DATETIME"))
    feed.database("d", at(2))
    feed.statement(
        "d.t", at(3), Action.CREATE_TABLE, "CREATE TABLE `t` (`id` INT PRIMARY KEY,`v` TIMESTAMP NULL)", then
    )
    feed.file("d.t", at(3), typed_line(then, at(4), {"id": "1", "v": "2026-01-01 00:00:00"}))
    feed.statement("d.t", at(8), Action.MODIFY_COLUMN, "ALTER TABLE `t` MODIFY `v` DATETIME", now)
    feed.file("d.t", at(8), typed_line(now, at(12), {"id": "2", "v": "2026-01-02 00:00:00"}))
    found = duck.once(20).tables[T]
    assert (found.state, "load-export" in str(found.hint)) == ("stopped", True)
    create = CREATE.format("t", KEY).replace("`v` int(11)", "`v` datetime")
    duck.export.database("d")
    duck.export.table("d", "t", create, ["id", "v"], [(1, "2026-01-01 08:00:00")])
    done(duck.load("d.t"))
    done(duck.once(20))
    rows = duck.ask("SELECT id, CAST(v AS VARCHAR) FROM d.t ORDER BY 1")
    assert rows == [(1, "2026-01-01 08:00:00"), (2, "2026-01-02 00:00:00")]


def test_it_can_be_loaded_again_from_the_same_export(duck: Scene) -> None:
    running(duck)
    for _ in range(2):
        done(duck.load("d.t"))
        assert duck.rows("d.t") == [(1, 1), (2, 2), (3, 3)]
        done(duck.once(20))
        assert duck.rows("d.t") == [(1, 11), (2, 2), (3, 3), (4, 4)]


def test_what_was_read_of_a_table_that_had_the_name_before_stays(duck: Scene) -> None:
    """Its files lie in folders of the name, and tell what its rows must be: `verify` reads them."""
    feed = duck.feed
    feed.database("d", at(2))
    feed.create("d.c", at(3))
    feed.puts("d.c", at(3), {at(4): (1, "1"), at(5): (2, "2")})
    feed.puts("d.c", at(3), {at(6): (3, "3")})
    feed.rename("d.c", "d.t1", at(7))
    feed.puts("d.t1", at(7), {at(8): (4, "4")})
    feed.create("d.c", at(9))
    feed.puts("d.c", at(9), {at(12): (9, "9")})
    done(duck.once(20))
    duck.older("d.c")
    done(duck.load("d.c"))
    for second in (20, 30):
        done(duck.once(second))
        assert (duck.rows("d.t1"), duck.rows("d.c")) == ([(1, 1), (2, 2), (3, 3), (4, 4)], [(9, 9)])
        checked = app.verify(duck.settings(), Recorder(), loader=InlineLoader())
        assert {str(table.table): table.state for table in checked.tables}["d.t1"] == "equal"


@pytest.mark.parametrize("newcomer", [False, True])
def test_a_table_that_had_another_name_since_the_export_is_not_set_back(newcomer: bool, duck: Scene) -> None:
    """Its rows are under two names, and the RENAMEs name tables that are not set back."""
    feed = duck.feed
    feed.database("d", at(2))
    feed.create("d.t", at(3))
    feed.puts("d.t", at(3), {at(4): (1, "1")})
    feed.rename("d.t", "d.a", at(12))
    feed.puts("d.a", at(12), {at(13): (2, "2")})
    feed.rename("d.a", "d.t", at(14))
    feed.puts("d.t", at(14), {at(15): (3, "3")})
    if newcomer:
        feed.create("d.a", at(16))
    done(duck.once(20))
    duck.older("d.t", (1, 1))
    with pytest.raises(CannotBeExact, match="it has had other names since the export"):
        duck.load("d.t")
    done(duck.once(20))
    assert duck.rows("d.t") == [(1, 1), (2, 2), (3, 3)]


def killed_while_a_table_comes_back(scene: Scene, stride: int, monkeypatch: pytest.MonkeyPatch) -> None:
    running(scene)
    uri = str(scene.export.finish())
    only: Any = wanted_tables(["d.t"], False)

    before, seen = scene.rows("d.t"), list[list[Pair]]()

    def run(settings: Settings, observer: Recorder, loader: InlineLoader) -> RunResult:
        seen.append(scene.rows("d.t"))
        return app.load_export(settings, observer, uri, only, loader)

    with monkeypatch.context() as patched:
        done(once_through_crashes(scene.settings(), stride, patched, run))
    changed = next((at for at, rows in enumerate(seen) if rows != before), len(seen))
    assert changed > 3
    assert all(rows == [(1, 1), (2, 2), (3, 3)] for rows in seen[changed:])
    done(scene.once(20))
    assert scene.rows("d.t") == [(1, 11), (2, 2), (3, 3), (4, 4)]


def test_killed_anywhere_the_table_comes_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    killed_while_a_table_comes_back(_scene("memory", tmp_path), 1, monkeypatch)


def test_killed_anywhere_the_table_of_a_target_comes_back(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    killed_while_a_table_comes_back(scene, 3, monkeypatch)


def test_a_run_between_two_tries_spoils_nothing(duck: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """A table that is dropped, and half loaded, is left alone by name."""
    running(duck)
    uri, only = str(duck.export.finish()), wanted_tables(["d.t"], False)
    monkeypatch.setattr(InlineLoader, "load", _fails)
    with pytest.raises(RuntimeError):
        app.load_export(duck.settings(), Recorder(), uri, only, InlineLoader())
    monkeypatch.undo()
    assert states(duck.once(25))["d.t"] == "stopped"
    done(duck.load("d.t"))
    done(duck.once(30))
    assert duck.rows("d.t") == [(1, 11), (2, 2), (3, 3), (4, 4)]


def _fails(*_: object, **__: object) -> Any:
    raise RuntimeError


def test_an_export_that_is_not_there_is_refused_for_good(duck: Scene) -> None:
    with pytest.raises(BadConfig, match="it is not there"):
        app.load_export(duck.settings(), Recorder(), str(duck.folder / "none"), loader=InlineLoader())


@pytest.mark.parametrize("tables", [None, ("d.t",), ("d.t", "d.u")])
def test_status_names_what_goes_on_with_an_export(
    tables: tuple[str, ...] | None, duck: Scene, cli: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also with its --check. A table that the replica has is stopped until the end, as it was."""
    if tables is not None:
        running(duck)
    for table in ("d.u",) if tables != ("d.t",) else ():
        duck.older(table, (1, 1))
    uri = str(duck.export.finish())
    some = None if tables is None else wanted_tables(["d.t" if len(tables) == 1 else "d.*"], False)
    monkeypatch.setattr(InlineLoader, "load", _fails)
    with pytest.raises(RuntimeError):
        app.load_export(duck.settings(), Recorder(), uri, some, InlineLoader())
    monkeypatch.undo()
    flags = ("--upstream-uri", f"file://{duck.feed.folder}?protocol=canal-json", "--downstream-uri", duck.url)
    left = cli.raw("status", *flags, "--tz", "UTC", "--check")
    assert left.code == (4 if tables is None else 3)
    assert "1 stopped" in left.out or tables is None
    (line,) = [line for line in left.out.splitlines() if "storage-consumer load-export" in line]
    words = shlex.split(line)
    assert words[:3] == ["storage-consumer", "load-export", f"file://{uri}"]
    assert ("--table" in words) == (tables == ("d.t",))
    assert "no progress under the name" not in left.out
    if tables is None or len(tables) == 1:
        assert cli.raw(*words[1:], "--log-level", "error").code == 0
        assert "load-export" not in cli.raw("status", *flags, "--tz", "UTC").out


def test_the_last_words_say_what_became_of_each_table(duck: Scene, cli: CommandLine) -> None:
    for table in ("d.t", "d.u", "d.w"):
        duck.older(table, (1, 1))
    uri = duck.export.finish()
    flags = ("--upstream-uri", f"file://{duck.feed.folder}?protocol=canal-json", "--downstream-uri", duck.url)
    flags = (*flags, "--tz", "UTC", "--log-level", "error", "--tables", "d.t", "--tables", "d.u")
    (file,) = uri.glob("d.u.0*")
    good = file.read_bytes()
    file.write_bytes(good + b"no statement")
    stopped = cli.raw("load-export", str(uri), *flags)
    assert stopped.code == 3
    for words in (
        "1 table loaded from the export, as of ",
        "1 table not loaded: d.u\n",
        "1 table of the export left out by --table or --tables\n",
        "next: `once` or `run` with these settings applies the changes after ",
    ):
        assert words in stopped.out
    told = cli.raw("status", *flags)
    (line,) = [line for line in told.out.splitlines() if line.startswith("  d.u: ")]
    assert file.name in line
    file.write_bytes(good)
    ended = cli.raw("load-export", str(uri), *flags)
    assert (ended.code, "not loaded" in ended.out) == (0, False)
    assert "1 table loaded by an earlier run\n" in ended.out
    again = cli.raw("load-export", str(uri), *flags, "--json").json
    assert again["export"] == {"loaded": 0, "loaded_before": 2, "not_loaded": [], "left_out": 1}


def test_a_table_that_is_loaded_beside_has_the_name_that_people_know(duck: Scene, cli: CommandLine) -> None:
    running(duck)
    flags = ("--upstream-uri", f"file://{duck.feed.folder}?protocol=canal-json", "--downstream-uri", duck.url)
    left = cli.raw("load-export", str(duck.export.finish()), "--table", "d.t", *flags, "--tz", "UTC")
    assert (left.code, "d.t " in left.out) == (0, True)
    assert "beside" not in left.out + left.err


def test_no_reload_is_offered_of_a_table_that_only_an_export_has(scene: Scene) -> None:
    """Its CREATE TABLE is not in the storage."""
    scene.older("d.t", (1, 1))
    scene.puts("d.t", {12: (2, 2)})
    done(scene.load())
    done(scene.once(20))
    scene.ask("ALTER TABLE d.t DROP COLUMN v")
    scene.puts("d.t", {23: (7, 7)})
    result = scene.once(25)
    assert states(result)["d.t"] == "stopped"
    hints = [str(result.tables[T].hint), str(app.status(scene.settings(), Recorder()).tables[0].hint)]
    assert all("load-export DIR --table d.t" in hint and "resync" not in hint for hint in hints), hints


def test_a_run_while_an_export_is_loaded_spoils_nothing(
    tmp_path: Path, fresh_mariadb: SqlServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The tables of the export are left alone by name, and the others begin; then load-export ends as ever."""
    scene = Scene(tmp_path, fresh_mariadb.url(), fresh_mariadb.execute)
    world(scene)
    load, met = InlineLoader.load, list[RunResult]()

    def loads(self: InlineLoader, *given: Any, **more: Any) -> Any:
        monkeypatch.undo()
        met.append(scene.once(20))
        return load(self, *given, **more)

    monkeypatch.setattr(InlineLoader, "load", loads)
    done(scene.load())
    assert states(met[0]) == {"d.n": "stopped", "d.t": "stopped", "e.new": "ok"}
    assert "run it again with the same export" in met[0].tables[T].hint
    done(scene.once(20))
    is_whole(scene)


def test_a_run_between_two_tries_of_a_whole_export_spoils_nothing(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    world(scene)
    monkeypatch.setattr(InlineLoader, "load", _fails)
    with pytest.raises(RuntimeError):
        scene.load()
    monkeypatch.undo()
    assert states(scene.once(20))["d.t"] == "stopped"
    done(scene.load())
    done(scene.once(20))
    is_whole(scene)


def test_status_counts_all_its_tables(duck: Scene, cli: CommandLine) -> None:
    """Also those that the storage has nothing of."""
    for table in ("d.t", "d.u", "e.still"):
        duck.older(table, (1, 1))
    duck.puts("d.t", {12: (2, 2)})
    duck.feed.describe("d.u", at(0))
    flags = ("--upstream-uri", f"file://{duck.feed.folder}?protocol=canal-json", "--downstream-uri", duck.url)
    done(duck.load())
    for _ in range(2):
        assert "tables      3 ok" in cli.raw("status", *flags, "--tz", "UTC").out
        done(duck.once(20))


def test_a_first_run_without_an_export_is_mended(scene: Scene) -> None:
    """Tables that are older than the changefeed, one that has not changed yet among them."""
    scene.puts("d.t", {9: (1, 1), 12: (2, 2)})
    assert states(scene.once(20))["d.t"] == "stopped"
    scene.older("d.t", (1, 1), (3, 3))
    scene.older("d.still", (5, 5))
    done(scene.load("d.*"))
    done(scene.once(21))
    assert scene.rows("d.t") == [(1, 1), (2, 2), (3, 3)]
    scene.puts("d.still", {25: (6, 6)})
    done(scene.once(30))
    assert scene.rows("d.still") == [(5, 5), (6, 6)]
    progress = sink_for(scene.url, TargetOptions("default")).progress()
    assert {place.state for place in progress.tables.values()} <= {State.OK}


# What is refused


def test_what_does_not_join_the_storage_is_refused_with_its_dates(duck: Scene) -> None:
    duck.older("d.t", (1, 1))
    duck.feed.checkpoint(at(9))
    with pytest.raises(CheckpointBehind, match=rf"of {EXPORTED} \(2026-02-02 02:40:10 UTC\).* up to {at(9)} \(2026"):
        duck.load()
    late = Scene(duck.folder / "late", duck.url, duck.ask)
    (late.feed.folder / "older" / "meta").rename(duck.folder / "gone")
    late.older("d.t", (1, 1))
    with pytest.raises(CannotBeExact, match="the storage has no row and no statement yet"):
        late.load()
    late.puts("d.t", {11: (1, 2)})
    with pytest.raises(CannotBeExact, match=rf"begins at {at(11)} \(2026-02-02 02:40:11 UTC\)") as caught:
        late.load()
    assert "--accept-gap" in caught.value.hint
    done(late.load(accept_gap_in=["*.*"]))
    done(late.once(20))
    assert late.rows("d.t") == [(1, 2)]


def test_what_is_no_whole_export_is_refused(duck: Scene) -> None:
    def refused(match: str, error: type[ConsumerError] = BadConfig, query: str = "", **flags: Any) -> None:
        with pytest.raises(error, match=match):
            duck.load(None, query, **flags)

    duck.older("d.t", (1, 1))
    refused("no table that --tables selects", tables=("x.*",))
    refused("'|@' is not one character of ASCII".replace("|", "."), query="?csv-separator=%7C%40")
    refused("not known", query="?csv-seperator=,")
    duck.puts("d.lacking", {12: (1, 1)})
    duck.feed.create("d.made", at(3))
    refused(r"the export does not have d\.lacking, and 1 table more, which upstream had at its moment")
    done(duck.load(tables=("d.t",)))
    duck.older("d.more", (1, 1))
    refused("already has progress under the name 'default'", tables=("d.t", "d.more"))
    with pytest.raises(BadConfig, match="no export of Dumpling"):
        app.load_export(duck.settings(), Recorder(), str(duck.feed.folder / "d"), loader=InlineLoader())


def test_rows_that_are_there_twice_are_found(duck: Scene) -> None:
    duck.older("d.t", (1, 1), (2, 2), (3, 3))
    duck.export.finish()
    (first, *_) = sorted(duck.export.folder.glob("d.t.0*"))
    first.with_name("d.t.000000002.sql").write_bytes(first.read_bytes())
    duck.older("d.u", (1, 1))
    result = duck.load()
    assert (result.exit_code, states(result)) == (3, {"d.t": "stopped", "d.u": "ok"})
    assert "has 5 rows of d.t; written: 3; in the target: 3" in str(result.tables[T].error)
    assert duck.names == {"default", f"default.export-{EXPORTED}"}


def test_tables_that_go_on_are_not_left_of_an_export() -> None:
    other = TableName("d", "u")
    places = {T: TableProgress(EXPORTED, State.EXCLUDED), other: TableProgress(0, State.STOPPED, "its CREATE TABLE")}
    assert unloaded_tables(Progress("export", tables=places)) == [other]


GEN = TableName("d", "gen")
COMPUTED = CREATE.replace("DEFAULT NULL{}", "DEFAULT NULL,\n  `g` int(11) GENERATED ALWAYS AS (`v`) STORED{}")
BROKEN = {
    "computed": (COMPUTED, "upstream computes the column g"),
    "unknown type": (CREATE.replace("int(11) DEFAULT NULL", "nosuchtype"), "which TiDB does not have"),
    "refused by the server": (CREATE.replace("`v` int(11) DEFAULT NULL", "`v` int(11) DEFAULT 'x'"), "Invalid default"),
}


WITHOUT_G = {"columns": ({"tables": ["d.gen"], "exclude": ["g"]},)}


def test_a_column_that_upstream_computes_can_be_left_out(duck: Scene) -> None:
    """As the hint says."""
    duck.export.complete_insert = True
    duck.export.table("d", "gen", COMPUTED.format("gen", KEY), ["id", "v"], [(1, 1)])
    columns = (ID, VALUE, Column("g", "INT", length=11))
    duck.feed.describe("d.gen", at(0), columns)
    later = typed_line(columns, at(12), {"id": "9", "v": "9", "g": "9"})
    duck.feed.file("d.gen", at(0), later.replace(b'"table":"t"', b'"table":"gen"'))
    assert "leave the column out of this table with [[consumer.columns]]" in str(duck.load().tables[GEN].hint)
    duck.flags = WITHOUT_G
    done(duck.load())
    done(duck.once(20))
    assert duck.ask("SELECT * FROM d.gen ORDER BY id") == [(1, 1), (9, 9)]


def with_computed_column(duck: Scene) -> None:
    """A table that a first run has made and could not load."""
    duck.export.complete_insert = True
    duck.export.table("d", "gen", COMPUTED.format("gen", KEY), ["id", "v"], [(1, 1)])
    duck.puts("d.gen", {12: (9, 9)})
    assert states(duck.load())["d.gen"] == "stopped"


def test_a_table_that_is_made_again_by_other_rules_is_there_wherever_the_run_dies(
    duck: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_computed_column(duck)
    uri = str(duck.export.finish())
    with monkeypatch.context() as patched:
        done(once_through_crashes(duck.settings(**WITHOUT_G), 1, patched, lambda *run: loaded(uri, *run)))
    assert duck.ask("SELECT * FROM d.gen") == [(1, 1)]


def test_a_run_that_is_refused_for_its_routes_drops_nothing(duck: Scene) -> None:
    with_computed_column(duck)
    for statement in ("CREATE SCHEMA own", "CREATE TABLE own.t AS SELECT 77 AS id"):
        duck.ask(statement)
    with pytest.raises(BadConfig, match="in the target, where it is"):
        duck.load(**WITHOUT_G, routes=("d.gen -> own.t",))
    assert duck.ask("SELECT id FROM own.t") == [(77,)]


def test_merged_tables_are_refused(duck: Scene) -> None:
    duck.older("d.t", (1, 10))
    with pytest.raises(BadConfig, match="a route merges"):
        duck.load(routes=("d.* -> m.t merge _source",))


@pytest.mark.parametrize("way", ["mended", "left out", "forgotten"])
@pytest.mark.parametrize("broken", BROKEN)
def test_a_table_that_cannot_be_loaded_is_left_behind_and_the_others_go_on(scene: Scene, broken: str, way: str) -> None:
    create, why = BROKEN[broken]
    if (broken == "computed") != scene.url.startswith("duckdb") and broken in ("computed", "refused by the server"):
        pytest.skip("this target takes it")
    scene.older("d.a", (1, 10), (2, 20))
    scene.older("d.n", (1, 1), (1, 1), key=False)
    scene.export.complete_insert = True
    scene.export.table("d", "gen", create.format("gen", KEY), ["id", "v"], [(1, 1)])
    scene.older("d.b", (1, 1))
    shows = (
        "CREATE VIEW `w` AS SELECT `d`.`b`.`id` AS `id` FROM `d`.`b` JOIN `d`.`gen` ON `d`.`b`.`id` = `d`.`gen`.`id`"
    )
    scene.export.view("d", "w", shows, "`id` int(11)")
    scene.puts("d.a", {11: (2, 33)})
    scene.puts("d.n", {11: (1, 1)}, KEYLESS)
    scene.puts("d.gen", {12: (9, 9)})
    for _ in range(2):
        result = scene.load()
        assert (result.exit_code in (3, 5), states(result)["d.gen"]) == (True, "stopped")
        assert why in str(result.tables[GEN].error)
        left = scene.once(20)
        assert (left.exit_code in (3, 5), states(left)["d.gen"]) == (True, "stopped")
        assert (scene.rows("d.a"), scene.rows("d.n")) == ([(1, 10), (2, 33)], [(1, 1)] * 3)
    if way == "mended":
        scene.export.table("d", "gen", CREATE.format("gen", KEY), ["id", "v"], [(1, 1)])
        done(scene.load())
        done(scene.once(30))
        assert scene.rows("d.gen") == [(1, 1), (9, 9)]
        if not scene.url.startswith("duckdb"):
            assert scene.ask("SELECT id FROM d.w") == [(1,)]
    elif way == "left out":
        rest = ("*.*", "!d.gen", "!d.w")
        done(scene.load(tables=rest))
        done(scene.once(30, tables=rest))
    else:
        with closing(sink_for(scene.url, TargetOptions(f"default.export-{EXPORTED}"))) as sink:
            sink.forget()
    assert scene.names == {"default"}
    if way != "mended":
        left = scene.once(40)
        assert (left.exit_code, states(left)["d.gen"]) == (3, "stopped"), "it would lack what the export has"
    assert (scene.rows("d.a"), scene.rows("d.n")) == ([(1, 10), (2, 33)], [(1, 1)] * 3)


def test_a_table_that_is_there_already_stops_and_stays(scene: Scene) -> None:
    scene.older("d.t", (1, 1))
    scene.ask("CREATE SCHEMA d")
    scene.ask("CREATE TABLE d.t (id INT PRIMARY KEY, v INT)")
    result = scene.load()
    assert (result.exit_code, states(result)["d.t"]) == (5, "stopped")
    assert "run load-export again" in str(result.tables[T].hint)
    with closing(sink_for(scene.url, TargetOptions(f"default.export-{EXPORTED}"))) as sink:
        sink.forget()
    assert scene.rows("d.t") == []
    scene.ask("DROP TABLE d.t")
    done(scene.load())
    assert scene.rows("d.t") == [(1, 1)]


def test_columns_that_upstream_computes(scene: Scene) -> None:
    """Dumpling leaves them out; a DuckDB file would keep one of them as a plain column."""
    scene.export.database("d")
    create = "CREATE TABLE `t` (`id` int NOT NULL,`v` int,`g` int AS (`v` + 1) {},PRIMARY KEY (`id`))"
    scene.export.complete_insert = True
    scene.export.table("d", "t", create.format("VIRTUAL"), ["id", "v"], [(1, 1)])
    scene.export.table("d", "u", create.format("STORED").replace("`t`", "`u`"), ["id", "v"], [(1, 1)])
    result = scene.load()
    assert scene.rows("d.t") == [(1, 1)]
    if scene.url.startswith("duckdb"):
        assert "upstream computes the column g" in str(result.tables[TableName("d", "u")].error)
    else:
        done(result)
        assert scene.ask("SELECT g FROM d.t UNION ALL SELECT g FROM d.u") == [(2,), (2,)]


def test_the_command_line(cli: CommandLine, duck: Scene) -> None:
    duck.older("d.t", (1, 1))
    duck.puts("d.t", {12: (2, 2)})
    duck.export.finish(complete=False)
    upstream = f"file://{duck.feed.folder}?protocol=canal-json"
    flags = ("--upstream-uri", upstream, "--downstream-uri", duck.url, "--tz", "UTC")
    left = cli.raw("load-export", str(duck.export.folder), *flags)
    assert left.code == 2
    assert "the export is not complete" in left.err
    duck.export.finish()
    left = cli.raw("load-export", str(duck.export.folder), *flags, "--json")
    assert (left.code, left.states) == (0, {"d.t": "ok"})
    assert left.json["checkpoint_ts"] == EXPORTED
    assert cli.raw("once", *flags).code == 0
    assert duck.rows("d.t") == [(1, 1), (2, 2)]
    left = cli.raw("load-export", str(duck.export.folder), *flags, "--table", "d.[")
    assert left.code == 2
