"""CSV storages written by hand, from their files to a target: what only the target or the file's place can tell."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pytest

from consumer import app
from consumer.config.load import load
from consumer.errors import BadConfig, CannotBeExact
from consumer.model.actions import Action
from consumer.model.columns import Column
from consumer.model.names import TableName
from consumer.pipeline import version_consumer
from consumer.pipeline.load_results import NO_TIME
from tests.servers import MariaDb
from tests.support.build import ID, VALUE
from tests.support.canal_json import typed_line
from tests.support.feed import Feed
from tests.support.inline_loader import InlineLoader
from tests.support.observers import Recorder

T = TableName("d", "t")
LABELLED = (ID, Column("g", "INT"), Column("e", "ENUM"), VALUE)
TIMED: dict[str, object] = {"csv_include_commit_ts": True}


def rows_of(feed: Feed, table: str, version: int, *lines: str) -> Path:
    """One file; `lines` are records without operation's neighbours: ``I 12 1,2`` is an insert at 12 of the row 1,2."""
    database, _, name = table.partition(".")
    records = (line.split(" ", 2) for line in lines)
    meta = ((f'"{op}","{name}","{database}"' + ("" if ts == "-" else f",{ts}"), cells) for op, ts, cells in records)
    content = "".join(f"{start},{cells}\r\n" for start, cells in meta)
    return feed.file(table, version, content.encode(), extension="csv")


def once(feed: Feed, target: str, loader: InlineLoader | None = None, **settings: object) -> Recorder:
    observer = Recorder()
    flags = {"upstream_uri": f"file://{feed.folder}?protocol=csv", "downstream_uri": target, "tz": "UTC", **settings}
    app.once(load(flags, {}).settings, observer, loader or InlineLoader())
    return observer


@pytest.fixture
def feed(tmp_path: Path) -> Feed:
    (tmp_path / "storage").mkdir()
    return Feed(tmp_path / "storage")


@pytest.fixture
def older(feed: Feed) -> Feed:
    """A table that no statement created: its column g is virtual, which nothing in the storage tells."""
    feed.describe("d.t", 10, LABELLED)
    rows_of(feed, "d.t", 10, 'I 11 1,"x",5', 'I 12 2,"y",\\N', 'U 13 1,"y",6')
    feed.checkpoint(20)
    return feed


def test_a_server_tells_what_is_virtual_and_how_labels_are_numbered(older: Feed, fresh_mariadb: MariaDb) -> None:
    fresh_mariadb.execute(
        "CREATE DATABASE d",
        "CREATE TABLE d.t (id INT PRIMARY KEY, g INT AS (v + 1) VIRTUAL, e ENUM('z','y','x'), v INT)",
    )
    assert once(older, fresh_mariadb.url(), **TIMED).stopped == {}
    assert fresh_mariadb.execute("SELECT * FROM d.t ORDER BY id") == [(1, 7, "y", 6), (2, None, "y", None)]


def test_where_nobody_tells_the_table_stops_and_others_go_on(older: Feed, tmp_path: Path) -> None:
    older.create("d.other", 10)
    rows_of(older, "d.other", 10, "I 11 1,2")
    older.describe("d.v", 10, (ID, Column("g", "INT"), VALUE))
    rows_of(older, "d.v", 10, "I 11 1,2")
    file = tmp_path / "replica.duckdb"
    with duckdb.connect(str(file)) as connection:
        connection.execute("CREATE SCHEMA d")
        connection.execute("CREATE TABLE d.t (id INT, g INT, e VARCHAR, v INT)")
        connection.execute("CREATE TABLE d.v (id INT, g INT, v INT)")
    stopped = once(older, f"duckdb:///{file}", **TIMED).stopped
    assert set(stopped) == {T, TableName("d", "v")}
    assert isinstance(stopped[T], CannotBeExact)
    assert "the labels of column e, of type ENUM" in stopped[T].message
    assert "the row has 6 cells, expected 7" in stopped[TableName("d", "v")].message
    with duckdb.connect(str(file)) as connection:
        assert connection.execute("SELECT * FROM d.other").fetchall() == [(1, 2)]


def test_a_large_file_is_read_in_slices(feed: Feed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(version_consumer, "SLICE_BYTES", 100)
    columns = (ID, Column("v", "VARCHAR"))
    feed.statement("d.t", 10, 3, "CREATE TABLE `t` (`id` INT PRIMARY KEY,`v` VARCHAR(99))", columns)
    texts = {n: '\r\n"I","t","d",11,1,"x"'[: n % 25] for n in range(200)}
    quoted = (f'I {11 + n} {n},"{text.replace(chr(34), chr(34) * 2)}"' for n, text in texts.items())
    rows_of(feed, "d.t", 10, *quoted)
    feed.checkpoint(1000)
    file = tmp_path / "replica.duckdb"
    assert once(feed, f"duckdb:///{file}", InlineLoader(keyed=3), **TIMED).stopped == {}
    with duckdb.connect(str(file)) as connection:
        assert dict(connection.execute("SELECT * FROM d.t").fetchall()) == texts


def test_without_commit_ts_places_order_rows_and_every_file_counts_once(feed: Feed, tmp_path: Path) -> None:
    feed.create("d.t", 10)
    rows_of(feed, "d.t", 10, "I - 1,1", "U - 1,2", "I - 2,5")
    feed.checkpoint(20)
    file = tmp_path / "replica.duckdb"
    assert once(feed, f"duckdb:///{file}").notes == [
        f"{NO_TIME.text}; include-commit-ts=true in the changefeed's [sink.csv] adds the commit-ts"
    ]
    rows_of(feed, "d.t", 10, "D - 2,5", "U - 1,3")
    feed.truncate("d.t", 30)
    rows_of(feed, "d.t", 30, "I - 3,1")
    rows_of(feed, "d.t", 50, "I - 4,1")
    feed.describe("d.t", 50)
    feed.checkpoint(40)
    once(feed, f"duckdb:///{file}")
    with duckdb.connect(str(file)) as connection:
        assert connection.execute("SELECT * FROM d.t").fetchall() == [(3, 1)]
        connection.execute("UPDATE d.t SET v = 77")
    assert once(feed, f"duckdb:///{file}").steps == []


@pytest.mark.parametrize("keyed", [0, 2])
def test_rows_that_exchange_keys_in_a_transaction_that_nobody_sorted_are_all_there(
    keyed: int, feed: Feed, tmp_path: Path
) -> None:
    """As v6.5.3, v7.1.1, v7.2 and v7.3 write it: both halves of an UPDATE beside one another."""
    feed.database("d", 1)
    feed.create("d.t", 10)
    rows_of(feed, "d.t", 10, "I - 1,10", "I - 2,20", "I - 3,30")
    rows_of(feed, "d.t", 10, "D - 1,10", "I - 2,10", "D - 2,20", "I - 1,20", "D - 3,30", "I - 4,30", "D - 4,30")
    feed.checkpoint(50)
    seen = once(feed, f"duckdb:///{tmp_path}/r.duckdb", InlineLoader(keyed))
    assert not seen.stopped
    with duckdb.connect(str(tmp_path / "r.duckdb")) as connection:
        assert connection.execute("SELECT * FROM d.t ORDER BY id").fetchall() == [(1, 20), (2, 10)]


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        (TIMED, "do not say what an updated row was"),
        ({"csv_output_old_value": True}, "no key have no commit-ts"),
    ],
)
def test_a_table_with_no_key_stops_where_it_cannot_be_right(
    feed: Feed, tmp_path: Path, settings: dict[str, object], words: str
) -> None:
    feed.statement("d.t", 10, 3, "CREATE TABLE `t` (`v` INT)", (VALUE,))
    cells = "5" if settings is TIMED else "false,5"
    rows_of(feed, "d.t", 10, f"I {'11' if settings is TIMED else '-'} {cells}")
    feed.checkpoint(20)
    stopped = once(feed, f"duckdb:///{tmp_path}/replica.duckdb", **settings).stopped
    assert isinstance(stopped[T], CannotBeExact)
    assert words in stopped[T].message


OLD_KEYS = "accepted as lost: the rows do not show the old keys of updates"


@pytest.mark.parametrize("old_values", [False, True])
def test_a_loss_of_keys_that_was_accepted_is_told(feed: Feed, tmp_path: Path, old_values: bool) -> None:
    feed.create("d.t", 10)
    rows_of(feed, "d.t", 10, "I 11 false,1,1" if old_values else "I 11 1,1")
    feed.checkpoint(20)
    raw = {"output_raw_change_event": True, "accept_key_loss": True, "csv_output_old_value": old_values}
    notes = once(feed, f"duckdb:///{tmp_path}/replica.duckdb", **TIMED, **raw).notes
    assert [OLD_KEYS in note for note in notes] == ([] if old_values else [True])


@pytest.mark.parametrize("with_rows", [True, False])
def test_a_layout_of_releases_that_do_not_split_updates_of_keys_needs_the_same_word(
    with_rows: bool, feed: Feed, tmp_path: Path
) -> None:
    """VERSION/schema.json: v6.5.0 to v6.5.2, v6.6 and v7.0. Newer folders of the storage may be of a newer release."""
    schema = feed.create("d.t", 10)
    (feed.folder / "d/t/10").mkdir()
    schema.rename(feed.folder / "d/t/10/schema.json")
    feed.describe("d.t", 20)
    if with_rows:
        rows_of(feed, "d.t", 10, "I 11 1,100", "I 12 2,200", "U 15 3,100")
    rows_of(feed, "d.t", 20, "I 21 4,400")
    feed.checkpoint(30)
    url = f"duckdb:///{tmp_path}/replica.duckdb"
    if not with_rows:
        assert once(feed, url, **TIMED).notes == []
        return
    for command in (app.plan, app.once):
        own = {"upstream_uri": f"file://{feed.folder}?protocol=csv", "downstream_uri": url, "tz": "UTC"}
        with pytest.raises(
            BadConfig, match=r"v7\.0\.0, one of which wrote d/t/10/schema\.json, and without output-old"
        ):
            command(load({**own, **TIMED}, {}).settings, Recorder())
    assert [OLD_KEYS in note for note in once(feed, url, **TIMED, accept_key_loss=True).notes] == [True]
    assert once(feed, url, **TIMED, accept_key_loss=True).notes == [], "it is recorded"
    with duckdb.connect(f"{tmp_path}/replica.duckdb") as connection:
        assert connection.execute("SELECT id FROM d.t ORDER BY id").fetchall() == [(1,), (2,), (3,), (4,)]


MAIL = Column("mail", "VARCHAR", length=40, nullable=False)
PEOPLE = (ID, MAIL, VALUE)
SELECTED: dict[str, list[dict[str, object]]] = {
    "key": [{"matcher": ["d.*"], "columns": ["*", "!v"]}],
    "unique key": [
        {"matcher": ["other.*"], "columns": ["id"]},
        {"matcher": ["D.*", "!d.x"], "columns": ["*", "!ID"]},
        {"matcher": ["d.t"], "columns": ["id"]},
    ],
}


@pytest.mark.parametrize("followed", [True, False])
@pytest.mark.parametrize("keyed_by", SELECTED)
@pytest.mark.parametrize("protocol", ["canal-json", "csv"])
def test_rows_have_the_columns_that_the_changefeed_selects(
    protocol: str, keyed_by: str, followed: bool, feed: Feed, tmp_path: Path
) -> None:
    """In CSV without a header only the changefeed's file tells them. Without the primary key a unique key tells rows
    apart: one that takes the mail of a row is that row. A TiCDC that does not follow selectors on storage writes whole
    rows."""
    create = "CREATE TABLE `t` (`id` INT PRIMARY KEY, `mail` VARCHAR(40) NOT NULL UNIQUE, `v` INT)"
    feed.statement("d.t", 2, Action.CREATE_TABLE, create, PEOPLE)
    rows = [("I", 10, "1", "a", "1"), ("I", 11, "2", "b", "2"), ("D", 12, "1", "a", "1"), ("U", 13, "2", "b", "3")]
    left_out = ("v" if keyed_by == "key" else "id") if followed else ""
    if protocol == "csv":
        cells = (
            ",".join(cell for name, cell in (("id", id_), ("mail", f'"{mail}"'), ("v", v)) if name != left_out)
            for _, _, id_, mail, v in rows
        )
        rows_of(feed, "d.t", 2, *(f"{op} {ts} {cell}" for (op, ts, *_), cell in zip(rows, cells, strict=True)))
    else:
        kinds = {"I": "INSERT", "U": "UPDATE", "D": "DELETE"}
        texts = [{"id": id_, "mail": mail, "v": v} for _, _, id_, mail, v in rows]
        lines = [
            typed_line(
                PEOPLE, ts, data := {name: text for name, text in row.items() if name != left_out}, kinds[op],
                table="t", pkNames=["id"] if "id" in data else [], old=[data] if op == "U" else None,
            )
            for (op, ts, *_), row in zip(rows, texts, strict=True)
        ]  # fmt: skip
        feed.file("d.t", 2, b"".join(lines))
    feed.checkpoint(20)
    url = f"duckdb:///{tmp_path}/replica.duckdb"
    flags = {"upstream_uri": f"file://{feed.folder}?protocol={protocol}", "downstream_uri": url, "tz": "UTC"}
    settings = load(
        {**flags, **(TIMED if protocol == "csv" else {}), "column_selectors": SELECTED[keyed_by]}, {}
    ).settings
    result = app.once(settings, seen := Recorder(), InlineLoader())
    assert result.exit_code == 0, seen.stopped
    with duckdb.connect(f"{tmp_path}/replica.duckdb") as connection:
        found = connection.execute("SELECT id, mail, v FROM d.t").fetchall()
    assert found == [{"v": (2, "b", None), "id": (None, "b", 3), "": (2, "b", 3)}[left_out]]
    (check,) = app.verify(settings, Recorder(), loader=InlineLoader()).tables
    state = "equal in part" if followed else "equal"
    assert (check.state, check.counted.found, check.counted.missing) == (state, 1, 0)


def test_rows_of_a_key_that_earlier_ones_lacked_stop_their_table(feed: Feed, tmp_path: Path) -> None:
    """The DELETE would not find the row that was written without its id."""
    create = "CREATE TABLE `t` (`id` INT PRIMARY KEY, `mail` VARCHAR(40) NOT NULL UNIQUE, `v` INT)"
    feed.statement("d.t", 2, Action.CREATE_TABLE, create, PEOPLE)
    url, selected = f"duckdb:///{tmp_path}/replica.duckdb", {"column_selectors": SELECTED["unique key"]}
    rows_of(feed, "d.t", 2, 'I 10 "a",1')
    feed.checkpoint(20)
    assert once(feed, url, **TIMED, **selected).stopped == {}
    rows_of(feed, "d.t", 2, 'D 30 1,"a",1')
    feed.checkpoint(40)
    for flags in (selected, {}):
        assert "rows with NULL in its key" in str(once(feed, url, **TIMED, **flags).stopped[T])


def test_without_the_changefeeds_file_the_sentence_names_its_selectors(feed: Feed, tmp_path: Path) -> None:
    feed.create("d.t", 2)
    rows_of(feed, "d.t", 2, "I 470611813613961217 1")
    feed.checkpoint(470611813613961218)
    stopped = once(feed, f"duckdb:///{tmp_path}/replica.duckdb", **TIMED).stopped[T]
    assert "column selectors" in stopped.hint
    assert "--config" in stopped.hint
