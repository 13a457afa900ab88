"""--start-ts RULE=MOMENT on real targets: a table that is restored by hand goes on from its moment, exactly."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from consumer import app
from consumer.config.load import load
from consumer.errors import BadConfig
from consumer.model.actions import Action
from consumer.model.check import Repairing
from consumer.model.columns import Column
from consumer.model.names import TableName
from tests.e2e.test_row_filters import ROWS, chosen, once, settings, storage_of
from tests.support.build import ID
from tests.support.every_target import Duck
from tests.support.feed import Feed, Replica, states
from tests.support.inline_loader import InlineLoader
from tests.support.observers import Recorder
from tests.support.shop_changes import CREATE, Row, changes_of, rows_at

T = TableName("d", "t")
Ask = Callable[[str], list[tuple[Any, ...]]]
DUCK = "CREATE TABLE d.t (id INTEGER, region VARCHAR, amount INTEGER, note VARCHAR)"


def restore(ask: Ask, rows: Sequence[Row], key: bool) -> None:
    """d.t with `rows`, as an export has them."""
    ask("CREATE SCHEMA IF NOT EXISTS d")
    made = CREATE.format("t", " PRIMARY KEY" if key else "").replace("CREATE TABLE `t`", "CREATE TABLE d.`t`")
    ask(DUCK if isinstance(ask, Duck) else made)
    for row in rows:
        ask(f"INSERT INTO d.t VALUES ({', '.join(map(_literal, row))})")


def _literal(value: object) -> str:
    text = str(value).replace("'", "''")
    return "NULL" if value is None else text if isinstance(value, int) else f"'{text}'"


@pytest.mark.parametrize("rules", [{}, {"rows": ROWS}], ids=["all rows", "some rows"])
@pytest.mark.parametrize("key", [True, False], ids=["key", "no key"])
@pytest.mark.parametrize("protocol", ["canal-json", "csv with old values"])
def test_the_rows_at_every_checkpoint(
    feed: Feed, database: tuple[str, Ask], protocol: str, key: bool, rules: dict[str, Any]
) -> None:
    (url, ask), start = database, 40
    changes = changes_of(len(protocol) + key, copies=not key)

    def there_at(ts: int) -> list[Row]:
        return [row for row in rows_at(changes, ts) if not rules or chosen(row)]

    flags = storage_of(feed, changes, protocol, key)
    feed.create("e.u", 3)
    once(feed, 30, settings(url, tables="e.*", **flags))
    restore(ask, there_at(start), key)
    first, later = settings(url, start_ts=f"d.t={start}", **rules, **flags), settings(url, **rules, **flags)
    for checkpoint, own in ((60, first), (61, later), (100, first), (200, later)):
        once(feed, checkpoint, own)
        there = ask("SELECT id, region, amount, note FROM d.t")
        assert sorted(there, key=repr) == there_at(checkpoint), checkpoint
    found = app.verify(later, Recorder(), loader=InlineLoader())
    table = next(table for table in found.tables if str(table.table) == "d.t")
    assert table.state == ("equal in part" if key else "not compared"), "what it began with is not in the storage"


@pytest.mark.parametrize("protocol", ["canal-json", "csv with old values"])
@pytest.mark.parametrize("given", [40, 25], ids=["of the start", "of before the start"])
def test_verify_finds_what_a_start_too_late_has_lost(
    feed: Feed, database: tuple[str, Ask], protocol: str, given: int
) -> None:
    """The target was given the table as it was at `given`, and it is said to be that of 40."""
    (url, ask), start, end = database, 40, 45
    changes = changes_of(7)
    flags = storage_of(feed, changes, protocol, True)
    restore(ask, rows_at(changes, given), key=True)
    once(feed, end, settings(url, start_ts=str(start), **flags))
    there, right = ({row[0]: row for row in rows} for rows in (ask("SELECT * FROM d.t"), rows_at(changes, end)))
    lost = {key for key in there.keys() | right.keys() if there.get(key) != right.get(key)}
    assert bool(lost) == (given < start)
    for repairing in (Repairing(), Repairing(write=True)):
        (found,) = app.verify(
            settings(url, **flags), Recorder(), show=99, loader=InlineLoader(), repairing=repairing
        ).tables
        assert found.state == ("differs" if lost else "equal in part")
        assert {int(row.key[0][1] or "") for row in found.counted.shown} == lost
        assert found.counted.given == found.counted.differences == len(lost)
    assert sorted(ask("SELECT * FROM d.t")) == sorted(there.values()), "a repair writes what nothing proves"


def test_rows_of_before_the_start_are_right_behind_statements(feed: Feed, database: tuple[str, Ask]) -> None:
    """Upstream has made what is there of older rows, under an older name and of another type."""
    url, ask = database
    wide, word = Column("v", "BIGINT", length=20), Column("w", "INT", length=11, default="7")
    feed.create("d.s", 10)
    feed.puts("d.s", 10, {11: (1, "1"), 12: (2, "2"), 13: (3, "3")})
    feed.statement("d.s", 15, Action.MODIFY_COLUMN, "ALTER TABLE `s` MODIFY COLUMN `v` BIGINT", (ID, wide))
    feed.statement("d.t", 20, Action.RENAME_TABLE, "RENAME TABLE `d`.`s` TO `d`.`t`", (ID, wide))
    query = "ALTER TABLE `t` ADD COLUMN `w` INT DEFAULT 7"
    feed.statement("d.t", 30, Action.ADD_COLUMN, query, (ID, wide, word))
    line = feed._line("d.t", 41, 2, "5").replace(b'"v": "5"', b'"v": "5", "w": "8"')
    feed.file("d.t", 30, line.replace(b'"v": "int"', b'"v": "bigint", "w": "int"'))
    ask("CREATE SCHEMA IF NOT EXISTS d")
    ask("CREATE TABLE d.t (id INTEGER, v BIGINT, w INTEGER" + (")" if isinstance(ask, Duck) else ", PRIMARY KEY (id))"))
    ask("INSERT INTO d.t VALUES (1, 1, 7), (2, 2, 7), (3, 3, 7)")
    replica = Replica(feed, url)
    assert replica.once(50, tz="UTC", start_ts="40").exit_code == 0
    own = replica.settings(tz="UTC")
    (check,) = app.verify(own, Recorder(), loader=InlineLoader()).tables
    assert (check.counted.expected, check.counted.differences, check.counted.unknown_rows) == (3, 0, 0), check.notes
    ask("UPDATE d.t SET w = 9 WHERE id = 1")
    (check,) = app.verify(own, Recorder(), loader=InlineLoader()).tables
    assert [(row.kind, row.values) for row in check.counted.shown] == [("differs", (("w", "7", "9"),))]


def test_a_table_of_another_consumer_is_continued_from_where_that_left_it(
    feed: Feed, database: tuple[str, Ask]
) -> None:
    url, ask = database
    feed.create("d.t", 10)
    feed.puts("d.t", 10, {11: (1, "1"), 21: (2, "2"), 35: (3, "3")})
    replica = Replica(feed, url)
    assert replica.once(30, tz="UTC", name="first").exit_code == 0
    for _ in range(2):
        result = replica.once(40, tz="UTC", name="second", start_ts=("d.t=20",))
        assert (result.exit_code, states(result)) == (5, {"d.t": "stopped"})
        assert "d.t belongs to the consumer 'first' of this target" in result.tables[T].error
    assert ask("SELECT count(*) FROM d.t") == [(2,)]
    assert replica.once(40, tz="UTC", name="second", start_ts=("d.t=30",)).exit_code == 0
    assert ask("SELECT id FROM d.t ORDER BY id") == [(1,), (2,), (3,)]
    left = replica.once(45, tz="UTC", name="first")
    assert (left.exit_code, states(left)) == (5, {"d.t": "stopped"})
    assert "the consumer 'second' of this target, which took it over with --start-ts 30" in left.tables[T].error


def test_who_took_a_table_last_goes_on_with_it_alone(feed: Feed, database: tuple[str, Ask]) -> None:
    """Where a table has no key, two of them would write its rows twice."""
    url, ask = database
    columns = (Column("id", "INT"), Column("v", "INT"))
    feed.statement("d.t", 10, Action.CREATE_TABLE, "CREATE TABLE `t` (`id` INT,`v` INT)", columns)
    replica = Replica(feed, url)
    names: dict[str, dict[str, Any]] = {"b": {}, "c": {"start_ts": "30"}, "a": {"start_ts": ("d.t=40",)}}
    for checkpoint, (name, start) in zip((30, 40, 50), names.items(), strict=True):
        feed.puts("d.t", 10, {checkpoint - 5: (checkpoint, "1")})
        assert replica.once(checkpoint, tz="UTC", name=name, **start).exit_code == 0
    feed.puts("d.t", 10, {55: (60, "1")})
    for name, code in (("b", 5), ("c", 5), ("a", 0), ("b", 5), ("c", 5)):
        assert replica.once(60, tz="UTC", name=name).exit_code == code, name
    assert ask("SELECT id FROM d.t ORDER BY id") == [(30,), (40,), (50,), (60,)]


def test_a_replay_takes_no_table_that_a_consumer_goes_on_with(feed: Feed, database: tuple[str, Ask]) -> None:
    """The consumer would apply the range once more."""
    url, ask = database
    feed.create("d.t", 10)
    feed.puts("d.t", 10, {11: (1, "1"), 35: (2, "2")})
    replica = Replica(feed, url)
    assert replica.once(30, tz="UTC", name="first").exit_code == 0
    feed.checkpoint(40)
    own = replica.settings(tz="UTC", name="again")
    for code, ids in ((5, [(1,)]), (0, [(1,), (2,)])):
        result = app.replay(own, Recorder(), "30", "40", InlineLoader())
        assert (result.exit_code, ask("SELECT id FROM d.t ORDER BY id")) == (code, ids)
        if code:
            assert "forget --name first" in result.tables[T].hint
            app.forget(replica.settings(tz="UTC", name="first"), Recorder(), sure=True)


def test_who_had_a_table_before_does_not_set_its_rows_back(feed: Feed, database: tuple[str, Ask]) -> None:
    url, ask = database
    feed.create("d.t", 10)
    feed.puts("d.t", 10, {11: (1, "1"), 35: (1, "2"), 36: (2, "2")})
    replica = Replica(feed, url)
    assert replica.once(30, tz="UTC", name="first").exit_code == 0
    assert replica.once(40, tz="UTC", name="second", start_ts="30").exit_code == 0
    for name, state in (("first", "not compared"), ("second", "equal in part")):
        own, mended = replica.settings(tz="UTC", name=name), Repairing(write=True)
        (found,) = app.verify(own, Recorder(), loader=InlineLoader(), repairing=mended).tables
        assert found.state == state
        assert ask("SELECT id, v FROM d.t ORDER BY id") == [(1, 2), (2, 2)]


def test_rows_without_a_time_are_refused(feed: Feed, database: tuple[str, Ask]) -> None:
    feed.checkpoint(10)
    own = {"upstream_uri": f"file://{feed.folder}?protocol=csv", "downstream_uri": database[0], "tz": "UTC"}
    given = load({**own, "start_ts": "d.t=5"}, {}).settings
    with pytest.raises(BadConfig, match="--start-ts cannot tell old from new ones") as caught:
        app.once(given, Recorder(), InlineLoader())
    assert (
        "set include-commit-ts=true in the changefeed's [sink.csv], and have it write to a new prefix"
        in caught.value.hint
    )
