"""Forms in exact situations: runs that die, rows that are sent again, statements, and what is refused by name."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from consumer import app
from consumer.app import parts
from consumer.config.load import load
from consumer.errors import BadConfig
from consumer.model.actions import Action
from consumer.model.columns import Column
from consumer.model.names import TableName
from consumer.results import RunResult
from consumer.sink import sink_for
from tests.servers import MariaDb
from tests.support.build import ID, VALUE
from tests.support.canal_json import row_line
from tests.support.crashes import Crash, CrashingLoader, CrashingSink, Fuse
from tests.support.every_target import Duck
from tests.support.feed import Feed, MemoryReplica, Replica, states
from tests.support.inline_loader import InlineLoader
from tests.support.observers import Recorder

T = TableName("d", "t")
NOTE = Column("note", "VARCHAR", length=20, default="n")
MS = 1 << 18
"""A commit-ts one millisecond later."""


class Formed(Replica):
    """`d.t`, with a table mode."""

    def __init__(self, feed: Feed, url: str, query: Callable[[str], list[tuple[Any, ...]]], form: str) -> None:
        super().__init__(feed, url)
        self._query, self.form = query, form

    def settings(self, **flags: object):  # type: ignore[no-untyped-def]
        return super().settings(**{"table_modes": [f"d.t = {self.form}"], **flags})

    def by_hand(self, statement: str) -> None:
        self._query(statement)

    def as_text(self, column: str) -> None:
        """Give a column of d.t the type of a text."""
        duck = isinstance(self._query, Duck)
        self.by_hand(f"ALTER TABLE d.t {f'ALTER {column} TYPE' if duck else f'MODIFY {column}'} VARCHAR(40)")

    def rows(self, columns: str, table: str = "d.t") -> list[tuple[Any, ...]]:
        return sorted(tuple(map(str, row)) for row in self._query(f"SELECT {columns} FROM {table}"))


@pytest.fixture(params=["duckdb", "mariadb"])
def make(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[str], Formed]:
    """A replica of an empty feed, which is made again each time."""
    numbers = itertools.count()

    def made(form: str) -> Formed:
        folder = tmp_path / str(next(numbers))
        feed = Feed(folder / "cdc")
        feed.database("d", MS)
        if request.param == "duckdb":
            return Formed(feed, f"duckdb:///{folder}/r.duckdb", Duck(folder / "r.duckdb"), form)
        server: MariaDb = request.getfixturevalue("fresh_mariadb")
        server.drop_all()
        return Formed(feed, server.url(), server.execute, form)

    return made


def line(
    ts: int, kind: str, key: int, value: str | None, old: dict[str, str | None] | None = None, **more: str
) -> bytes:
    """A change at `ts` milliseconds."""
    data = {"id": str(key), "v": value, **more}
    was = None if kind != "UPDATE" else [{**data, **(old or {})}]
    return row_line(kind, data, commit_ts=ts * MS, old=was) + b"\r\n"


def first_rows(feed: Feed) -> None:
    """Of all kinds: key 1 is changed, 2 deleted, 3 and 4 exchange their keys, 5 becomes 6 in one UPDATE."""
    feed.create("d.t", 2 * MS)
    feed.file("d.t", 2 * MS, b"".join(line(10, "INSERT", key, str(key)) for key in (1, 2, 3, 4, 5)))
    feed.file(
        "d.t",
        2 * MS,
        line(11, "UPDATE", 1, "10", {"v": "1"})
        + line(12, "DELETE", 2, "2")
        + b"".join(line(13, "DELETE", key, str(key)) for key in (3, 4))
        + b"".join(line(13, "INSERT", key, str(7 - key)) for key in (3, 4))
        + line(14, "UPDATE", 6, "5", {"id": "5"}),
    )


CHANGES = [
    *((10, "I", key, key) for key in (1, 2, 3, 4, 5)),
    (11, "U", 1, 10), (12, "D", 2, 2), (13, "D", 3, 3), (13, "D", 4, 4), (13, "I", 3, 4), (13, "I", 4, 3),
    (14, "D", 5, 5), (14, "I", 6, 5),
]  # fmt: skip
APPENDED = sorted((str(key), str(v), op, str(ts * MS), "d.t", str(2 * MS)) for ts, op, key, v in CHANGES)
ALL = "id, v, _op, _commit_ts, _table, _version"
KEPT = sorted(
    [
        ("1", "10", "None"),
        ("2", "2", "12"),
        ("3", "4", "None"),
        ("4", "3", "None"),
        ("5", "5", "14"),
        ("6", "5", "None"),
    ]
)


def time_text(ms: int) -> str:
    return f"1970-01-01 00:00:00.{ms:03}000"


SOFT = sorted((key, v, ms if ms == "None" else time_text(int(ms))) for key, v, ms in KEPT)


VERSIONS = [
    (1, 1, 10, 11), (1, 10, 11, 0), (2, 2, 10, 12), (3, 3, 10, 13), (3, 4, 13, 0), (4, 4, 10, 13), (4, 3, 13, 0),
    (5, 5, 10, 14), (6, 5, 14, 0),
]  # fmt: skip
"""Key and value, when it came, and when it went or 0."""
VERSION = "id, v, _valid_from, _valid_to, _is_current, _commit_ts"


def versions(*rows: tuple[int, int, int, int]) -> list[tuple[str, ...]]:
    return sorted(
        (str(key), str(v), time_text(came), time_text(went) if went else "None", str(int(not went)), str(came * MS))
        for key, v, came, went in rows
    )


def expected(form: str) -> tuple[str, list[tuple[str, ...]]]:
    found = {"append": (ALL, APPENDED), "soft-delete": ("id, v, _deleted_at", SOFT)}
    return found.get(form) or (VERSION, versions(*VERSIONS))


def rows_and_statements(feed: Feed) -> None:
    """Rows of all kinds, a TRUNCATE, a new column, and a row behind them."""
    first_rows(feed)
    feed.truncate("d.t", 16 * MS)
    text = "ALTER TABLE `t` ADD COLUMN `note` VARCHAR(20) DEFAULT 'n'"
    feed.statement("d.t", 18 * MS, Action.ADD_COLUMN, text, (ID, VALUE, NOTE))
    feed.file("d.t", 18 * MS, line(19, "INSERT", 1, "19", note="x"))


def wanted(form: str) -> tuple[str, list[tuple[str, ...]]]:
    """Columns, and the rows that these make."""
    if form == "append":
        rows = [(*row, "n") for row in APPENDED]
        ended = [("1", "10"), ("3", "4"), ("4", "3"), ("6", "5")]
        rows += [(key, v, "D", str(16 * MS), "d.t", str(16 * MS), "n") for key, v in ended]
        return f"{ALL}, note", sorted([*rows, ("1", "19", "I", str(19 * MS), "d.t", str(18 * MS), "x")])
    if form == "history":
        rows = [(*row, "n") for row in versions(*((key, v, came, went or 16) for key, v, came, went in VERSIONS))]
        return f"{VERSION}, note", sorted([*rows, *((*row, "x") for row in versions((1, 19, 19, 0)))])
    end = {"None": time_text(16)}
    rows = [(*row[:2], end.get(row[2], row[2]), "n") for row in SOFT if row[0] != "1"]
    return "id, v, _deleted_at, note", sorted([*rows, ("1", "19", "None", "x")])


@pytest.mark.parametrize("form", ["append", "soft-delete", "history"])
@pytest.mark.parametrize("keyed", [0, 3])
def test_each_kind_of_change(form: str, keyed: int, make: Callable[[str], Formed]) -> None:
    replica = make(form)
    first_rows(replica.feed)
    replica.feed.checkpoint(20 * MS)
    assert app.once(replica.settings(), Recorder(), InlineLoader(keyed)).exit_code == 0
    columns, rows = expected(form)
    assert replica.rows(columns) == rows


@pytest.mark.parametrize("form", ["append", "soft-delete", "history"])
def test_rows_in_rounds_of_any_size_are_those_of_one(form: str, make: Callable[[str], Formed]) -> None:
    replica = make(form)
    first_rows(replica.feed)
    for checkpoint in range(9, 16):
        assert replica.once(checkpoint * MS).exit_code == 0
    columns, rows = expected(form)
    assert replica.rows(columns) == rows


@pytest.mark.parametrize("form", ["append", "soft-delete", "history"])
def test_rows_that_are_sent_again_in_new_files_change_nothing(form: str, make: Callable[[str], Formed]) -> None:
    replica = make(form)
    first_rows(replica.feed)
    columns, rows = expected(form)
    names = [replica.feed.folder / "d/t" / str(2 * MS) / f"CDC{number:020}.json" for number in (1, 2)]
    replica.feed.file("d.t", 2 * MS, b"".join(name.read_bytes() for name in names))
    assert replica.once(12 * MS).exit_code == 0
    replica.feed.file("d.t", 2 * MS, names[0].read_bytes())
    replica.feed.file("d.t", 2 * MS, names[1].read_bytes())
    for checkpoint in (13, 20, 21):
        assert replica.once(checkpoint * MS).exit_code == 0
        replica.feed.file("d.t", 2 * MS, names[1].read_bytes() + line(checkpoint + 1, "INSERT", 100 + checkpoint, "0"))
    assert [row for row in replica.rows(columns) if int(row[0]) < 100] == rows


@pytest.mark.parametrize("form", ["append", "soft-delete", "history"])
def test_a_run_that_dies_at_any_moment_loses_and_doubles_nothing(
    form: str, make: Callable[[str], Formed], monkeypatch: pytest.MonkeyPatch
) -> None:
    real = sink_for
    for moment in itertools.count():
        replica, fuse = make(form), Fuse(moment)
        rows_and_statements(replica.feed)
        replica.feed.checkpoint(15 * MS)
        replica.once(12 * MS)
        with monkeypatch.context() as patch:
            patch.setattr(
                parts, "sink_for", lambda *given, fuse=fuse, **named: CrashingSink(real(*given, **named), fuse)
            )
            replica.feed.checkpoint(20 * MS)
            try:
                app.once(replica.settings(), Recorder(), CrashingLoader(fuse))
                died = False
            except Crash:
                died = True
        assert replica.once(30 * MS).exit_code == 0
        columns, rows = wanted(form)
        assert replica.rows(columns) == rows, moment
        if not died:
            break
    assert moment > 8


def test_columns_come_go_and_change_with_upstreams(make: Callable[[str], Formed]) -> None:
    replica = make("append")
    feed = replica.feed
    feed.create("d.t", 2 * MS)
    feed.file("d.t", 2 * MS, line(3, "INSERT", 1, "1"))
    big = Column("w", "BIGINT", nullable=False, default="7")
    at = Column("moment", "DATETIME", scale=3, default="2024-01-02 03:04:05.5")
    wide, many = ID, Column("n", "BIGINT")
    steps = [
        (Action.ADD_COLUMN, "ADD COLUMN `w` BIGINT NOT NULL DEFAULT 7 FIRST", (big, ID, VALUE)),
        (
            Action.ADD_COLUMN,
            "ADD COLUMN `moment` DATETIME(3) DEFAULT '2024-01-02 03:04:05.5' AFTER `id`",
            (big, ID, at, VALUE),
        ),
        (Action.MODIFY_COLUMN, "CHANGE COLUMN `v` `n` BIGINT", (big, ID, at, many)),
        (Action.ADD_INDEX, "ADD UNIQUE INDEX `u` (`n`)", (big, ID, at, many)),
        (Action.DROP_COLUMN, "DROP COLUMN `w`", (wide, at, many)),
    ]
    for number, (action, text, columns) in enumerate(steps, 4):
        feed.statement("d.t", number * MS, action, f"ALTER TABLE `t` {text}", columns)
    feed.file("d.t", 8 * MS, row_line("INSERT", {"id": "2", "moment": None, "n": "1"}, commit_ts=9 * MS) + b"\r\n")
    assert replica.once(20 * MS).exit_code == 0
    found = replica.rows("id, moment, n, _op, _commit_ts, _version")
    first = ("1", "2024-01-02 03:04:05.500000", "1", "I", str(3 * MS), str(2 * MS))
    assert found == [first, ("2", "None", "1", "I", str(9 * MS), str(8 * MS))]


def test_a_vector_is_kept(make: Callable[[str], Formed]) -> None:
    replica = make("append")
    columns = (ID, Column("e", "VECTOR"))
    replica.feed.statement(
        "d.t", 2 * MS, Action.CREATE_TABLE, "CREATE TABLE `t` (`id` INT PRIMARY KEY,`e` VECTOR)", columns
    )
    replica.feed.file("d.t", 2 * MS, row_line("INSERT", {"id": "1", "e": "[1.5,2]"}, commit_ts=3 * MS) + b"\r\n")
    assert replica.once(10 * MS).exit_code == 0
    assert replica.rows("id, e")[0][1].replace(" ", "").replace(".0", "") == "[1.5,2]"


def test_rows_that_are_there_get_the_zero_of_a_new_columns_type(make: Callable[[str], Formed]) -> None:
    """0 is no value that each server takes for a YEAR as a text, nor one that is in every zone for a TIMESTAMP."""
    replica = make("append")
    replica.feed.create("d.t", 2 * MS)
    replica.feed.file("d.t", 2 * MS, line(3, "INSERT", 1, "1"))
    year, at = Column("y", "YEAR", nullable=False), Column("moment", "TIMESTAMP", nullable=False)
    text = "ALTER TABLE `t` ADD COLUMN `y` YEAR NOT NULL, ADD COLUMN `moment` TIMESTAMP NOT NULL"
    replica.feed.statement("d.t", 4 * MS, Action.MULTI_SCHEMA_CHANGE, text, (ID, VALUE, year, at))
    assert replica.once(20 * MS).exit_code == 0
    assert replica.rows("id, y, moment") == [("1", "0", "0000-00-00 00:00:00")]


def test_a_dropped_table_is_kept_and_its_name_is_free(make: Callable[[str], Formed]) -> None:
    replica = make("append")
    first_rows(replica.feed)
    replica.feed.drop("d.t", 16 * MS)
    replica.feed.create("d.t", 17 * MS)
    replica.feed.file("d.t", 17 * MS, line(18, "INSERT", 9, "9"))
    assert replica.once(20 * MS).exit_code == 0
    assert replica.rows(ALL, f"d.__trash_{16 * MS}_t") == APPENDED
    assert replica.rows(ALL) == [("9", "9", "I", str(18 * MS), "d.t", str(17 * MS))]


def test_a_renamed_table_goes_on_under_its_new_name(make: Callable[[str], Formed]) -> None:
    replica = make("append")
    first_rows(replica.feed)
    replica.feed.rename("d.t", "d.u", 16 * MS)
    replica.feed.file(
        "d.u",
        16 * MS,
        line(17, "INSERT", 9, "9").replace(b'"table":"t"', b'"table":"u"').replace(b'"table": "t"', b'"table": "u"'),
    )
    assert replica.once(20 * MS, table_modes=["d.* = append"]).exit_code == 0
    assert replica.rows(ALL, "d.u") == sorted([*APPENDED, ("9", "9", "I", str(17 * MS), "d.u", str(16 * MS))])


def test_rows_of_a_mirror_are_not_written_to_a_table_of_another_form(make: Callable[[str], Formed]) -> None:
    """Another consumer that takes the table over, once the first one is forgotten."""
    replica = make("append")
    first_rows(replica.feed)
    assert replica.once(20 * MS).exit_code == 0
    app.forget(replica.settings(), Recorder(), sure=True)
    replica.feed.file("d.t", 2 * MS, line(21, "INSERT", 1, "1"))
    error, _ = stopped(replica.once(30 * MS, table_modes=(), start_ts=str(20 * MS)))
    assert "key" in error
    assert replica.rows(ALL) == APPENDED


@pytest.mark.parametrize(
    ("form", "name"),
    [("append", "_commit_ts"), ("history", "_commit_ts"), ("history", "_valid_to"), ("soft-delete", "_deleted_at")],
)
def test_a_table_that_has_texts_for_times_stops(form: str, name: str, make: Callable[[str], Formed]) -> None:
    """They would be in the order of texts, with 9 behind 10."""
    replica = make(form)
    first_rows(replica.feed)
    assert replica.once(9 * MS).exit_code == 0
    replica.as_text(name)
    error, hint = stopped(replica.once(20 * MS))
    assert "its values would be in the order of texts" in error
    assert name in error
    assert replica.rows("id") == []
    replica.by_hand(hint.partition("; then run again")[0].partition(" and run again")[0])
    assert replica.once(20 * MS).exit_code == 0
    columns, rows = expected(form)
    assert replica.rows(columns) == rows


def stopped(result: RunResult, name: str = "d.t") -> tuple[str, str]:
    database, _, table = name.partition(".")
    found = result.tables[TableName(database, table)]
    assert found.state == "stopped", states(result)
    return found.error, found.hint


REFUSED = {
    "key": (Action.DROP_PRIMARY_KEY, "ALTER TABLE `t` DROP PRIMARY KEY", "it has no key, so nothing shows"),
    "another key": (Action.ADD_PRIMARY_KEY, "ALTER TABLE `t` ADD PRIMARY KEY (`v`)", "it changes the key"),
    "partition": (Action.DROP_PARTITION, "ALTER TABLE `t` DROP PARTITION `p`", "which rows are in a partition"),
    "clash": (Action.ADD_COLUMN, "ALTER TABLE `t` ADD COLUMN `_OP` INT", "its column _OP has the name of one that"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_a_statement_that_cannot_be_right_stops_the_table_by_name(what: str, tmp_path: Path) -> None:
    replica = MemoryReplica(Feed(tmp_path / "cdc"))
    replica.feed.database("d", 1)
    replica.feed.create("d.t", 2)
    action, text, why = REFUSED[what]
    plain = Column("id", "INT", nullable=False)
    columns = {
        "key": (plain, VALUE),
        "another key": (plain, Column("v", "INT", nullable=False, is_pk=True)),
        "clash": (ID, VALUE, Column("_OP", "INT")),
    }.get(what, (ID, VALUE))
    replica.feed.statement("d.t", 5, action, text, columns)
    result = replica.once(10, table_modes=["d.t = append"])
    error, hint = stopped(result)
    assert (result.exit_code, why in error, text in error) == (5, True, True), error
    assert hint
    planned = app.plan(replica.settings(table_modes=["d.t = append"]), Recorder())
    assert why in planned.stopped[0].error


def test_a_clash_goes_away_with_another_name(tmp_path: Path) -> None:
    replica = MemoryReplica(Feed(tmp_path / "cdc"))
    replica.feed.database("d", 1)
    replica.feed.statement(
        "d.t", 2, Action.CREATE_TABLE, "CREATE TABLE `t` (`id` INT PRIMARY KEY,`_op` INT)", (ID, Column("_op", "INT"))
    )
    replica.feed.file("d.t", 2, row_line("INSERT", {"id": "1", "_op": "5"}, commit_ts=3) + b"\r\n")
    error, hint = stopped(replica.once(10, table_modes=["d.t = append"]))
    assert "its column _op has the name" in error
    assert 'columns = { _op = "..." }' in hint
    form = [{"tables": ["d.t"], "mode": "append", "columns": {"_op": "_change"}}]
    assert replica.once(10, table_modes=form).exit_code == 0
    (row,) = replica.sink.rows(T)
    assert row == {"id": "1", "_op": "5", "_change": "I", "_commit_ts": "3", "_table": "d.t", "_version": "2"}


def test_statements_of_others_that_name_the_table_are_refused(tmp_path: Path) -> None:
    replica = MemoryReplica(Feed(tmp_path / "cdc"))
    replica.feed.database("d", 1)
    replica.feed.create("d.t", 2)
    replica.feed.statement("d.c", 3, Action.CREATE_TABLE, "CREATE TABLE `c` LIKE `t`")
    error, hint = stopped(replica.once(10, table_modes=["d.t = append"]), "d.c")
    assert "it names d.t, which is of the table mode append in the target" in error
    assert "skip-ddl --table d.c --version 3" in hint
    replica.holds("d.c")
    app.skip_ddl(replica.settings(table_modes=["d.t = append"]), Recorder(), TableName("d", "c"), 3, "made by hand")
    assert replica.once(10, table_modes=["d.t = append"]).exit_code == 0


def test_a_table_does_not_get_another_form_by_a_rename(tmp_path: Path) -> None:
    replica = MemoryReplica(Feed(tmp_path / "cdc"))
    replica.feed.database("d", 1)
    replica.feed.create("d.t", 2)
    replica.feed.rename("d.t", "d.u", 3)
    error, _ = stopped(replica.once(10, table_modes=["d.t = append"]), "d.u")
    assert "d.t is of the table mode append in the target, and d.u a mirror" in error


def test_a_dropped_database_keeps_what_is_no_mirror(make: Callable[[str], Formed]) -> None:
    replica = make("append")
    first_rows(replica.feed)
    replica.feed.database("d", 16 * MS, "DROP DATABASE `d`", Action.DROP_SCHEMA)
    assert replica.once(20 * MS).exit_code == 0
    assert replica.rows(ALL, f"__trash_{16 * MS}_d.t") == APPENDED


def test_a_form_stays_as_it_was_for_a_table_that_has_begun(tmp_path: Path) -> None:
    replica = MemoryReplica(Feed(tmp_path / "cdc"))
    replica.feed.database("d", 1)
    replica.feed.create("d.t", 2)
    replica.feed.puts("d.t", 2, {3: (1, "1")})
    assert replica.once(10, table_modes=["d.t = append"]).exit_code == 0
    for forms, now in (((), "a mirror"), (["*.* = soft-delete"], "of the table mode soft-delete")):
        for command in (
            replica.once,
            lambda table_modes=(): app.plan(replica.settings(table_modes=table_modes), Recorder()),
        ):
            with pytest.raises(
                BadConfig, match=f"d.t is of the table mode append in the target, and the settings say {now}"
            ):
                command(table_modes=forms)
    replica.feed.create("d.u", 11)
    assert replica.once(20, table_modes=["*.* = append"]).exit_code == 0
    mirror = MemoryReplica(Feed(tmp_path / "other"))
    mirror.feed.database("d", 1)
    mirror.feed.create("d.t", 2)
    assert mirror.once(10).exit_code == 0
    with pytest.raises(
        BadConfig, match=r"d.t is a mirror in the target, and the settings say of the table mode append"
    ):
        mirror.once(20, table_modes=["d.t = append"])


def test_rows_that_do_not_say_enough_stop_their_table(tmp_path: Path) -> None:
    for number, (content, why) in enumerate(
        (
            (row_line("INSERT", {"id": "1", "v": "1"}, es=5), "a row has no commit-ts, and the table's mode keeps"),
            (row_line("DELETE", {"id": "1"}, commit_ts=5), "a DELETE does not have column v, and the table's mode"),
        )
    ):
        replica = MemoryReplica(Feed(tmp_path / str(number)))
        replica.feed.database("d", 1)
        replica.feed.create("d.t", 2)
        replica.feed.file("d.t", 2, content + b"\r\n")
        error, _ = stopped(replica.once(100 * MS, table_modes=["d.t = soft-delete"]))
        assert why in error
        assert "CDC" in error


def test_csv_without_commit_ts_is_refused_by_name(tmp_path: Path) -> None:
    replica = MemoryReplica(Feed(tmp_path / "cdc"))
    replica.feed.database("d", 1)
    replica.feed.create("d.t", 2)
    replica.feed.file("d.t", 2, b'"I","t","d",1,1\r\n', extension="csv")
    replica.feed.checkpoint(10)
    flags = {
        "upstream_uri": f"file://{replica.feed.folder}?protocol=csv",
        "downstream_uri": replica.settings().downstream_uri,
    }
    settings = load({**flags, "table_modes": ["d.t = append"]}, {}).settings
    error, hint = stopped(app.once(settings, Recorder(), InlineLoader()))
    assert "do not say when they were committed" in error
    assert "set include-commit-ts=true in the changefeed's [sink.csv]" in hint


def test_a_table_that_was_truncated_misses_no_file_from_before(tmp_path: Path) -> None:
    """A mirror does not need them."""
    for form, exit_code in (("mirror", 0), ("append", 5)):
        replica = MemoryReplica(Feed(tmp_path / form))
        replica.feed.database("d", 1)
        replica.feed.create("d.t", 2)
        replica.feed.puts("d.t", 2, {3: (1, "1")}, number=1)
        replica.feed.puts("d.t", 2, {5: (3, "3")}, number=3)
        replica.feed.truncate("d.t", 8)
        assert replica.once(10, table_modes=[f"d.t = {form}"]).exit_code == exit_code
