"""What a TiDB does otherwise than MySQL and MariaDB."""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path

import pytest

from consumer.errors import DdlRefused, RowRefused, TargetBusy
from consumer.model.actions import Action
from consumer.model.columns import Column
from consumer.model.names import TableName
from consumer.model.progress import DdlState
from consumer.model.steps import TableBefore
from consumer.sink.mysql.sink import MySqlSink
from tests.integration.mysql.steps import UPSTREAM, acquired, ddl, settings
from tests.integration.mysql.writing import changes, make_target, write
from tests.support.build import ID, VALUE
from tests.support.conversions import column_of
from tests.support.feed import Feed, Replica, with_two_rows
from tests.tidb_server import TiDb, checks_hold

OWN = {
    "a key that is no row id": ("PRIMARY KEY (`id`) /*T![clustered_index] NONCLUSTERED */", "", "NONCLUSTERED"),
    "rows that are spread": (
        "PRIMARY KEY (`id`) /*T![clustered_index] NONCLUSTERED */",
        "/*T! SHARD_ROW_ID_BITS=4 PRE_SPLIT_REGIONS=2 */",
        "SHARD_ROW_ID_BITS=4 PRE_SPLIT_REGIONS=2",
    ),
    "random keys": ("PRIMARY KEY (`id`) /*T![clustered_index] CLUSTERED */", "", "AUTO_RANDOM(5)"),
    "an expiry": (
        "`at` DATETIME, PRIMARY KEY (`id`)",
        "/*T![ttl] TTL=`at` + INTERVAL 1 DAY */ /*T![ttl] TTL_ENABLE='OFF' */",
        "TTL_ENABLE='OFF'",
    ),
    "ids in steps": ("PRIMARY KEY (`id`)", "/*T![auto_id_cache] AUTO_ID_CACHE=1 */", "AUTO_ID_CACHE=1"),
    "columns that it computes": (
        "`g` INT GENERATED ALWAYS AS (`v` + 1) VIRTUAL, KEY `i` ((`v` * 2)), PRIMARY KEY (`id`)",
        "",
        "KEY `i` ((`v` * 2))",
    ),
    "a default of a sequence": (
        "`at` DATETIME, `s` INT DEFAULT NEXTVAL(`d`.`far`), PRIMARY KEY (`id`)",
        "",
        "`s` int DEFAULT NULL",
    ),
    "a policy of placement": ("PRIMARY KEY (`id`)", "/*T![placement] PLACEMENT POLICY=`far` */", "ENGINE=InnoDB"),
}
"""Members and options of a table, and a part of what the target shows of it."""


@pytest.mark.parametrize("what", OWN)
def test_what_only_a_tidb_has_stays(what: str, fresh_tidb: TiDb, tmp_path: Path) -> None:
    members, options, shown = OWN[what]
    random = " /*T![auto_rand] AUTO_RANDOM(5) */" if what == "random keys" else ""
    feed, replica = Feed(tmp_path), Replica(Feed(tmp_path), fresh_tidb.url())
    feed.database("d", 1)
    create = f"CREATE TABLE `t` (`id` BIGINT NOT NULL{random},`v` INT,{members}) {options}"
    more = tuple(
        Column(name, kind) for name, kind in (("at", "DATETIME"), ("s", "INT")) if f"`{name}` {kind}" in create
    )
    feed.statement("d.t", 2, Action.CREATE_TABLE, create, (replace(ID, type="BIGINT"), VALUE, *more))
    feed.puts("d.t", 2, {5: (1, "10"), 6: (2, "20")})
    assert replica.once(10).exit_code == 0
    assert fresh_tidb.execute("SELECT id, v FROM d.t ORDER BY id") == [(1, 10), (2, 20)]
    assert shown in fresh_tidb.execute("SHOW CREATE TABLE d.t")[0][1]
    assert all(table.ddl + table.rows == 0 for table in replica.once(10).tables.values())


@pytest.mark.parametrize(
    ("before", "after", "text", "told"),
    [
        ("VARCHAR(20)", "DATE", "2023-02-31", "'2023-02-31' is a day that no month has"),
        ("VARCHAR(30)", "DATETIME(3)", "2023-02-31 10:10:10.5", "is a day that no month has"),
        ("BLOB", "DATETIME", "2023-00-10", "is a day that no month has"),
        ("BIGINT", "DATE", "20230231", "'20230231' is a day that no month has"),
        ("JSON", "DATE", "20231001", ""),
        ("JSON", "DATE", "20231131", "is a day that no month has"),
        ("TIME", "DATE", "10:11:12", "by the clock and the time zone of the session"),
        ("DATETIME", "TIMESTAMP", "2024-01-02 03:04:05", "by the clock and the time zone of the session"),
        ("VARCHAR(20)", "DATE", "2024-1-5", ""),
        ("VARCHAR(20)", "INT", "7x", ""),
        ("VARCHAR(20)", "VARCHAR(3)", "abcd", ""),
        ("INT", "DATETIME", "20240229", ""),
    ],
)
def test_a_value_is_upstreams_or_its_session_decided(
    before: str, after: str, text: str, told: str, fresh_tidb: TiDb
) -> None:
    """TiDB itself converts, but no file tells the zone, the day and the sql_mode of the session upstream."""
    fresh_tidb.execute("CREATE DATABASE d", f"CREATE TABLE d.t (id INT PRIMARY KEY, c {before})")
    fresh_tidb.execute("SET sql_mode = ''", f"INSERT INTO d.t VALUES (1, '{text}')")
    held = fresh_tidb.execute("SELECT * FROM d.t")
    sink, old, new = acquired(fresh_tidb), column_of(before), column_of(after)
    step = ddl(
        Action.MODIFY_COLUMN,
        "d",
        "t",
        20,
        f"ALTER TABLE `t` MODIFY COLUMN `c` {after}",
        columns=(ID, replace(new, name="c")),
    )
    [outcome] = sink.apply_ddls([replace(step, table_before=TableBefore((ID, replace(old, name="c"))))], {})
    sink.close()
    if not told:
        assert outcome.error is None
        return
    assert isinstance(outcome.error, DdlRefused)
    assert told in outcome.error.message
    assert fresh_tidb.execute("SELECT * FROM d.t") == held


def test_a_job_that_the_server_still_runs_is_waited_for(fresh_tidb: TiDb, monkeypatch: pytest.MonkeyPatch) -> None:
    """It names its table in lower case."""
    fresh_tidb.execute("CREATE DATABASE `Shop`", "CREATE TABLE `Shop`.`Old` (id INT PRIMARY KEY, v INT)")
    step = ddl(Action.ADD_INDEX, "Shop", "Old", 20, "ALTER TABLE `Old` ADD INDEX (`v`)")
    sink = acquired(fresh_tidb)
    monkeypatch.setattr("consumer.sink.mysql.sink.execute_ddls", _die)
    with pytest.raises(KeyboardInterrupt):
        sink.apply_ddls([step], {})
    monkeypatch.undo()
    sink.close()
    reader = fresh_tidb.connect(autocommit=False)
    reader.cursor().execute("SELECT * FROM `Shop`.`Old`")  # its transaction holds the job up
    orphan = threading.Thread(target=fresh_tidb.execute, args=["ALTER TABLE `Shop`.`Old` ADD INDEX (`v`)"])
    orphan.start()
    jobs = "SELECT 1 FROM information_schema.ddl_jobs WHERE table_name = 'old' AND state = 'running'"
    while not fresh_tidb.execute(jobs):
        pass
    sink = MySqlSink(settings(fresh_tidb))
    intents = sink.acquire(UPSTREAM).ddls
    [outcome] = sink.apply_ddls([step], intents)
    assert isinstance(outcome.error, TargetBusy)
    reader.close()
    orphan.join()
    [outcome] = sink.apply_ddls([step], sink.progress().ddls)
    assert outcome.error is None
    assert sink.progress().ddls[step.id].state is DdlState.DONE
    sink.close()
    assert "`v_2`" not in fresh_tidb.execute("SHOW CREATE TABLE `Shop`.`Old`")[0][1]


def _die(*_: object) -> None:
    raise KeyboardInterrupt


def test_what_it_dropped_last_does_not_come_back(fresh_tidb: TiDb, tmp_path: Path) -> None:
    """The table had stopped: it lacked rows when it was dropped, and would lack them again, unseen."""
    safe_point = "('tikv_gc_safe_point', '20200101-00:00:00.000 +0000', '')"
    fresh_tidb.execute(f"REPLACE INTO mysql.tidb VALUES {safe_point}")
    feed, replica = with_two_rows(tmp_path), Replica(Feed(tmp_path), fresh_tidb.url())
    feed.damaged("d.t", 10)
    feed.drop("d.t", 20)
    assert replica.once(25).exit_code == 0
    feed.statement("d.t", 30, Action.RECOVER_TABLE, "RECOVER TABLE `t`")
    result = replica.once(40)
    assert result.exit_code == 5
    assert "the target did not keep it" in result.tables[TableName("d", "t")].error
    assert fresh_tidb.execute("SHOW TABLES FROM d") == []


def test_its_defaults_do_not_count(fresh_tidb: TiDb) -> None:
    """Sessions that read what was, and policies that are not there."""
    given = {"tidb_enable_external_ts_read": "1", "tidb_placement_mode": "'STRICT'"}
    fresh_tidb.execute(
        "CREATE DATABASE d", "SET GLOBAL tidb_external_ts = @@tidb_current_ts", "CREATE TABLE d.t (a INT)"
    )
    fresh_tidb.execute(*(f"SET GLOBAL {name} = {value}" for name, value in given.items()))
    try:
        sink = acquired(fresh_tidb)
        create = "CREATE TABLE `u` (`id` INT PRIMARY KEY) /*T![placement] PLACEMENT POLICY=`far` */"
        [outcome] = sink.apply_ddls([ddl(Action.CREATE_TABLE, "d", "u", 10, create)], {})
        assert outcome.error is None
        assert sink.progress().ddls
        sink.close()
    finally:
        fresh_tidb.execute(*(f"SET GLOBAL {name} = DEFAULT" for name in given))


def test_a_row_that_a_check_refuses_is_not_lost(fresh_tidb: TiDb) -> None:
    """Its LOAD DATA leaves such a row out, and the old one with it, without a warning."""
    with checks_hold(fresh_tidb):
        target = make_target(fresh_tidb, [ID, VALUE], "id INT PRIMARY KEY, v INT CHECK (v < 100)")
        write(fresh_tidb, target, changes(target, puts=[("1", "5")]))
        with pytest.raises(RowRefused, match=r"id='1'.*Check constraint"):
            write(fresh_tidb, target, changes(target, puts=[("1", "500"), ("2", "6")]))
    assert fresh_tidb.execute("SELECT * FROM db.t") == [(1, 5)]


def test_rows_that_waited_for_a_lock_are_sent_again(fresh_tidb: TiDb) -> None:
    """It executes the LOAD DATA from its beginning then. They are more than it gets in one packet."""
    target = make_target(fresh_tidb, [ID, Column("v", "VARCHAR")], "id INT PRIMARY KEY, v VARCHAR(999)")
    puts = [(str(number), "x" * 900) for number in range(900)]
    write(fresh_tidb, target, changes(target, puts=[("7", "old")]))
    with fresh_tidb.connect(autocommit=False) as holder, holder.cursor() as cursor:
        cursor.execute("SELECT * FROM db.t FOR UPDATE")
        job = threading.Timer(0.5, holder.rollback)
        job.start()
        assert write(fresh_tidb, target, changes(target, puts=puts)).puts == 900
        job.join()
    assert fresh_tidb.execute("SELECT COUNT(*), SUM(LENGTH(v)) FROM db.t") == [(900, 810_000)]


def test_a_row_that_is_too_long_is_named(fresh_tidb: TiDb) -> None:
    target = make_target(fresh_tidb, [ID, Column("b", "LONGBLOB")], "id INT PRIMARY KEY, b LONGBLOB")
    with pytest.raises(RowRefused, match=r"id='7'.*entry too large.*tidb_txn_entry_size_limit"):
        write(fresh_tidb, target, changes(target, puts=[("7", b"x" * (7 << 20))]))
