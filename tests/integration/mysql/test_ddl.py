"""Statements: executed once, recorded, and found again after a crash between the two."""

from __future__ import annotations

import re
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import pytest

from consumer.errors import DdlRefused
from consumer.model.actions import Action
from consumer.model.columns import Column
from consumer.model.names import TableName
from consumer.model.progress import DdlState, ProgressChange, TableProgress
from consumer.model.steps import ApplyDdl, TableBefore
from consumer.sink.mysql.sink import MySqlSink
from consumer.sink.mysql.statements import execute as mysql_ddl
from consumer.sink.mysql.statements.operations import Operations
from tests.integration.mysql.steps import UPSTREAM, acquired, ddl, settings
from tests.servers import MariaDb
from tests.support.build import ID

CREATE = ddl(Action.CREATE_TABLE, "d", "t", 10, "CREATE TABLE `t` (`id` INT PRIMARY KEY, `v` INT)")
INSERT = "INSERT INTO d.t VALUES (1, 1)"


def test_a_statement_is_executed_and_recorded(fresh_mariadb: MariaDb) -> None:
    sink = acquired(fresh_mariadb)
    [outcome] = sink.apply_ddls([CREATE], {})
    assert outcome.error is None
    progress = sink.progress()
    assert progress.ddls[CREATE.id].state is DdlState.DONE
    assert progress.tables == {TableName("d", "t"): TableProgress(10)}
    assert fresh_mariadb.execute("SELECT step, to_ts, statement FROM storage_consumer.audit") == [
        ("ddl", 10, CREATE.file.query)
    ]
    sink.close()


def test_bare_creates_mean_what_tidb_means(fresh_mariadb: MariaDb) -> None:
    sink = acquired(fresh_mariadb)
    steps = [
        ddl(Action.CREATE_SCHEMA, "made", "", 1, "CREATE DATABASE `made`"),
        ddl(Action.CREATE_TABLE, "missing", "t", 2, "CREATE TABLE `t` (`a` VARCHAR(9))"),
    ]
    assert [outcome.error for outcome in sink.apply_ddls(steps, {})] == [None, None]
    rows = fresh_mariadb.execute(
        "SELECT default_collation_name FROM information_schema.schemata WHERE schema_name IN ('made', 'missing')"
    )
    assert rows == [("utf8mb4_bin",), ("utf8mb4_bin",)]
    assert fresh_mariadb.execute(
        "SELECT collation_name FROM information_schema.columns WHERE table_schema = 'missing'"
    ) == [("utf8mb4_bin",)]
    sink.close()


def test_hidden_columns_of_the_rows_are_plain_ones(fresh_mariadb: MariaDb) -> None:
    """As of a table with SOFTDELETE; a later statement may bring another one."""
    sink = acquired(fresh_mariadb)
    own, gone, origin = ID, Column("_tidb_softdelete_time", "TIMESTAMP", scale=6), Column("_tidb_origin_ts", "BIGINT")
    create = "CREATE TABLE `t` (`id` INT PRIMARY KEY) SOFTDELETE RETENTION 7 DAY"
    first = ddl(Action.CREATE_TABLE, "d", "t", 10, create, columns=(own, gone))
    index = "CREATE INDEX `i` ON `t` (`id`) WHERE `id`>1"
    later = replace(
        ddl(Action.ADD_INDEX, "d", "t", 11, index, columns=(own, gone, origin)), table_before=TableBefore((own, gone))
    )
    for step in (first, later):
        (outcome,) = sink.apply_ddls([step], {})
        assert outcome.error is None
        assert f"column {step.file.columns[-1].name} is hidden upstream" in outcome.note
    sink.close()
    assert fresh_mariadb.execute(
        "SELECT column_name, data_type, datetime_precision, is_nullable, extra, COALESCE(column_default, 'NULL')"
        " FROM information_schema.columns WHERE table_schema = 'd' AND ordinal_position > 1 ORDER BY ordinal_position"
    ) == [(gone.name, "timestamp", 6, "YES", "", "NULL"), (origin.name, "bigint", None, "YES", "", "NULL")]


def test_what_the_server_cannot_compute_is_left_out(fresh_mariadb: MariaDb) -> None:
    sink = acquired(fresh_mariadb)
    body = (
        "`id` INT PRIMARY KEY,`d` INT DEFAULT (NOT_THERE(1)),`s` INT GENERATED ALWAYS AS(NOT_THERE(`id`)) STORED,"
        "`v` INT GENERATED ALWAYS AS(CAST(`id` AS NOTHING)) VIRTUAL"
    )
    steps = [
        ddl(Action.CREATE_TABLE, "d", "t", 10, f"CREATE TABLE `t` ({body})"),
        ddl(Action.SET_DEFAULT_VALUE, "d", "t", 11, "ALTER TABLE `t` ALTER COLUMN `d` SET DEFAULT (NOT_THERE(2))"),
        ddl(Action.ADD_COLUMN, "d", "t", 12, "ALTER TABLE `t` ADD COLUMN `e` INT DEFAULT (NOT_THERE(3))"),
    ]
    notes = [outcome.note for step in steps for outcome in sink.apply_ddls([step], {})]
    assert [note.count("the server does not compute") for note in notes] == [3, 1, 1]
    fresh_mariadb.execute("INSERT INTO d.t (id, d, s) VALUES (1, 2, 3)")
    assert fresh_mariadb.execute("SELECT id, d, s, v, e FROM d.t") == [(1, 2, 3, None, None)]

    over = "ALTER TABLE `t` ADD COLUMN `w` INT GENERATED ALWAYS AS (IFNULL(`v`,0)+1) VIRTUAL"
    (outcome,) = sink.apply_ddls([ddl(Action.ADD_COLUMN, "d", "t", 13, over)], {})
    assert "column w is NULL here" in outcome.note
    assert fresh_mariadb.execute("SELECT w FROM d.t") == [(None,)]

    filled = ddl(Action.ADD_COLUMN, "d", "t", 14, "ALTER TABLE `t` ADD COLUMN `f` INT DEFAULT (NOT_THERE(4))")
    (outcome,) = sink.apply_ddls([filled], {})
    assert isinstance(outcome.error, DdlRefused), "its rows would lack the values"
    sink.close()


def test_what_is_too_long_as_utf8mb4_runs_once_the_table_is_latin1_as_upstream(fresh_mariadb: MariaDb) -> None:
    sink = acquired(fresh_mariadb)
    create = "CREATE TABLE `t` (`id` INT PRIMARY KEY,`k` VARCHAR(15000)) CHARSET=latin1"
    add = ddl(Action.ADD_COLUMN, "d", "t", 11, "ALTER TABLE `t` ADD COLUMN `m` VARCHAR(15000)")
    sink.apply_ddls([ddl(Action.CREATE_TABLE, "d", "t", 10, create)], {})
    (outcome,) = sink.apply_ddls([add], {})
    assert isinstance(outcome.error, DdlRefused)
    convert = re.search("execute (ALTER .*) in the target and run again", outcome.error.hint)
    assert convert is not None
    fresh_mariadb.execute(convert[1])
    (outcome,) = sink.apply_ddls([add], {})
    assert outcome.error is None
    sink.close()


def test_a_database_that_was_there_gets_upstreams_defaults(fresh_mariadb: MariaDb) -> None:
    fresh_mariadb.execute("CREATE DATABASE made")
    sink = acquired(fresh_mariadb)
    [outcome] = sink.apply_ddls([ddl(Action.CREATE_SCHEMA, "made", "", 1, "CREATE DATABASE `made`")], {})
    assert outcome.error is None
    assert "existed already" in outcome.note
    default = "SELECT default_collation_name FROM information_schema.schemata WHERE schema_name = 'made'"
    assert fresh_mariadb.execute(default) == [("utf8mb4_bin",)]
    sink.close()


def test_a_live_name_is_refused_even_with_if_not_exists(fresh_mariadb: MariaDb) -> None:
    fresh_mariadb.execute("CREATE DATABASE d", "CREATE TABLE d.t (x INT)")
    sink = acquired(fresh_mariadb)
    step = ddl(Action.CREATE_TABLE, "d", "t", 10, "CREATE TABLE IF NOT EXISTS `t` (`id` INT)")
    [outcome] = sink.apply_ddls([step], {})
    assert isinstance(outcome.error, DdlRefused)
    assert "a table of this name exists" in str(outcome.error)
    assert sink.progress().ddls == {}
    sink.close()


def test_a_refused_statement_names_the_way_out(fresh_mariadb: MariaDb) -> None:
    sink = acquired(fresh_mariadb)
    good = ddl(Action.CREATE_TABLE, "d", "good", 11, "CREATE TABLE `good` (`id` INT)")
    bad = ddl(Action.ADD_COLUMN, "d", "bad", 12, "ALTER TABLE `bad` ADD COLUMN `x` INT")
    fresh_mariadb.execute("CREATE DATABASE d")
    first, second = sink.apply_ddls([good, bad], {})
    assert first.error is None
    assert isinstance(second.error, DdlRefused)
    assert "1146" in second.error.message
    assert bad.file.query in second.error.message
    assert "skip-ddl --table d.bad --version 12" in second.error.hint
    assert {i.table: r.state for i, r in sink.progress().ddls.items()} == {
        "good": DdlState.DONE,
        "bad": DdlState.REFUSED,
    }
    sink.close()


def test_upstreams_names_stay_out_of_the_targets_own_schemas(fresh_mariadb: MariaDb) -> None:
    sink = acquired(fresh_mariadb)
    [outcome] = sink.apply_ddls(
        [ddl(Action.DROP_SCHEMA, "storage_consumer", "", 1, "DROP DATABASE `storage_consumer`")], {}
    )
    assert isinstance(outcome.error, DdlRefused)
    assert sink.progress().upstream == UPSTREAM
    sink.close()


CRASHES = {
    "create": CREATE,
    "alter": ddl(Action.ADD_COLUMN, "d", "old", 20, "ALTER TABLE `old` ADD COLUMN `w` INT DEFAULT 5"),
    "unnamed index": ddl(Action.ADD_INDEX, "d", "old", 20, "ALTER TABLE `old` ADD INDEX (`v`)"),
    "an index that is left out": ddl(
        Action.MULTI_SCHEMA_CHANGE,
        "d",
        "old",
        20,
        "ALTER TABLE `old` ADD INDEX `p`(`id`) WHERE `id`>1, RENAME COLUMN `v` TO `w`",
    ),
    "drop": ddl(Action.DROP_TABLE, "d", "old", 20, "DROP TABLE `d`.`old`"),
    "truncate": ddl(Action.TRUNCATE_TABLE, "d", "old", 20, "TRUNCATE TABLE `old`"),
    "rename": ddl(
        Action.RENAME_TABLE,
        "e",
        "new",
        20,
        "RENAME TABLE `old` TO `e`.`new`",
        old_name=TableName("d", "old"),
        touches=(TableName("d", "old"), TableName("e", "new")),
    ),
    "drop database": ddl(Action.DROP_SCHEMA, "d", "", 20, "DROP DATABASE `d`"),
    "exchange": ddl(
        Action.EXCHANGE_PARTITION,
        "d",
        "parted",
        20,
        "ALTER TABLE `d`.`parted` EXCHANGE PARTITION `p0` WITH TABLE `d`.`plain`",
        touches=(TableName("d", "parted"), TableName("d", "plain")),
    ),
}


def _prepare_old(server: MariaDb) -> None:
    server.execute(
        "CREATE DATABASE d",
        "CREATE DATABASE e",
        "CREATE TABLE d.old (id INT PRIMARY KEY, v INT)",
        "INSERT INTO d.old VALUES (1, 1)",
        "CREATE TABLE d.parted (id INT PRIMARY KEY) PARTITION BY RANGE (id) (PARTITION p0 VALUES LESS THAN (100))",
        "CREATE TABLE d.plain (id INT PRIMARY KEY)",
        "INSERT INTO d.parted VALUES (1), (2)",
        "INSERT INTO d.plain VALUES (3)",
    )


def _state(server: MariaDb) -> list[object]:
    """All that the statements change: definitions and rows."""
    state: list[object] = []
    for database in ("d", "e"):
        if (database,) not in server.execute("SHOW DATABASES"):
            continue
        for (table,) in server.execute(f"SHOW TABLES FROM {database}"):
            state.append(server.execute(f"SHOW CREATE TABLE {database}.{table}"))
            state.append(sorted(server.execute(f"SELECT * FROM {database}.{table}")))
    return state


def _crash_before(server: MariaDb, step: ApplyDdl, monkeypatch: pytest.MonkeyPatch, *, ran: bool) -> None:
    """End a run between the intent and the fact: with the statement executed, or not."""
    sink = acquired(server)
    if ran:
        monkeypatch.setattr("consumer.sink.mysql.sink.facts", _die)
    else:
        monkeypatch.setattr("consumer.sink.mysql.sink.execute_ddls", _die)
    with pytest.raises(KeyboardInterrupt):
        sink.apply_ddls([step], {})
    monkeypatch.undo()
    sink.close()


def _die(*_: object) -> None:
    raise KeyboardInterrupt


@pytest.mark.parametrize("ran", [True, False])
@pytest.mark.parametrize("kind", CRASHES)
def test_a_crash_between_intent_and_fact(
    kind: str, ran: bool, fresh_mariadb: MariaDb, monkeypatch: pytest.MonkeyPatch
) -> None:
    step = CRASHES[kind]
    _prepare_old(fresh_mariadb)
    undisturbed = acquired(fresh_mariadb, "first")
    assert undisturbed.apply_ddls([step], {})[0].error is None
    expected = _state(fresh_mariadb)
    undisturbed.close()

    fresh_mariadb.drop_all()
    _prepare_old(fresh_mariadb)
    before = _state(fresh_mariadb)
    _crash_before(fresh_mariadb, step, monkeypatch, ran=ran)
    assert (_state(fresh_mariadb) == before) is not ran
    sink = MySqlSink(settings(fresh_mariadb))
    progress = sink.acquire(UPSTREAM)
    assert progress.ddls[step.id].state is DdlState.INTENT
    [outcome] = sink.apply_ddls([step], {step.id: progress.ddls[step.id]})
    assert outcome.error is None
    assert _state(fresh_mariadb) == expected
    assert sink.progress().ddls[step.id].state is DdlState.DONE
    sink.close()


def test_a_refused_statement_is_tried_again_whatever_changed_since(fresh_mariadb: MariaDb) -> None:
    _prepare_old(fresh_mariadb)
    fresh_mariadb.execute("INSERT INTO d.old VALUES (2, 1)")
    sink = acquired(fresh_mariadb)
    step = ddl(Action.ADD_INDEX, "d", "old", 20, "ALTER TABLE `old` ADD UNIQUE INDEX `u`(`v`)")
    [refused] = sink.apply_ddls([step], {})
    assert isinstance(refused.error, DdlRefused)
    assert "1062" in sink.progress().ddls[step.id].reason
    fresh_mariadb.execute("DELETE FROM d.old WHERE id = 2", "ALTER TABLE d.old ADD INDEX mine (v)")
    [outcome] = sink.apply_ddls([step], sink.progress().ddls)
    assert outcome.error is None
    assert "UNIQUE KEY `u`" in fresh_mariadb.execute("SHOW CREATE TABLE d.old")[0][1]
    sink.close()


@pytest.mark.parametrize("mended", [False, True])
def test_an_open_intent_does_not_make_a_taken_name_right(
    mended: bool, fresh_mariadb: MariaDb, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The run died behind its intent, or behind the refusal; what changed since is not what the statement does."""
    _prepare_old(fresh_mariadb)
    fresh_mariadb.execute("CREATE TABLE e.new (x INT)")
    step = CRASHES["rename"]
    _crash_before(fresh_mariadb, step, monkeypatch, ran=False)
    if mended:
        fresh_mariadb.execute("RENAME TABLE e.new TO e.mine")
    sink = MySqlSink(settings(fresh_mariadb))
    intents = sink.acquire(UPSTREAM).ddls
    assert intents[step.id].state is DdlState.INTENT
    [outcome] = sink.apply_ddls([step], intents)
    tables = fresh_mariadb.execute("SHOW TABLES FROM e")
    if mended:
        assert (outcome.error, tables) == (None, [("mine",), ("new",)])
        assert fresh_mariadb.execute("SELECT * FROM e.new") == [(1, 1)]
    else:
        assert isinstance(outcome.error, DdlRefused)
        assert "1050" in outcome.error.message
        assert sink.progress().ddls[step.id].state is DdlState.REFUSED
    sink.close()


def test_an_open_intent_of_a_rename_whose_table_was_not_there_has_not_run(
    fresh_mariadb: MariaDb, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody else's table has the new name since."""
    fresh_mariadb.execute("CREATE DATABASE d", "CREATE DATABASE e")
    step = CRASHES["rename"]
    _crash_before(fresh_mariadb, step, monkeypatch, ran=False)
    fresh_mariadb.execute("CREATE TABLE e.new (x INT)")
    sink = MySqlSink(settings(fresh_mariadb))
    [outcome] = sink.apply_ddls([step], sink.acquire(UPSTREAM).ddls)
    assert isinstance(outcome.error, DdlRefused)
    assert sink.progress().ddls[step.id].state is DdlState.REFUSED
    sink.close()


def test_what_the_server_ended_after_it_was_looked_for_is_done(
    fresh_mariadb: MariaDb, monkeypatch: pytest.MonkeyPatch
) -> None:
    _prepare_old(fresh_mariadb)
    step = CRASHES["alter"]
    _crash_before(fresh_mariadb, step, monkeypatch, ran=False)
    sink = MySqlSink(settings(fresh_mariadb))
    intents = sink.acquire(UPSTREAM).ddls
    real = mysql_ddl._execute

    def late(*given: Any) -> str:
        fresh_mariadb.execute("ALTER TABLE d.old ADD COLUMN w INT DEFAULT 5")
        return real(*given)

    monkeypatch.setattr(mysql_ddl, "_execute", late)
    [outcome] = sink.apply_ddls([step], intents)
    assert outcome.error is None
    assert sink.progress().ddls[step.id].state is DdlState.DONE
    sink.close()


def test_a_statement_that_the_server_still_runs_is_waited_for(
    fresh_mariadb: MariaDb, monkeypatch: pytest.MonkeyPatch
) -> None:
    _prepare_old(fresh_mariadb)
    step = CRASHES["unnamed index"]
    _crash_before(fresh_mariadb, step, monkeypatch, ran=False)
    running = fresh_mariadb.connect()
    orphan = running.cursor()
    orphan.execute("LOCK TABLES d.old WRITE")
    sink = MySqlSink(settings(fresh_mariadb))
    intents = sink.acquire(UPSTREAM).ddls
    with ThreadPoolExecutor(1) as pool:
        answer = pool.submit(sink.apply_ddls, [step], intents)
        time.sleep(0.5)
        assert not answer.done()
        orphan.execute("ALTER TABLE d.old ADD INDEX (v)")
        running.close()
        assert answer.result()[0].error is None
    assert "KEY `v_2`" not in fresh_mariadb.execute("SHOW CREATE TABLE d.old")[0][1]
    sink.close()


@pytest.mark.parametrize("crash_after", [0, 1, 2])
def test_a_query_of_several_statements_goes_on_where_it_ended(
    crash_after: int, fresh_mariadb: MariaDb, monkeypatch: pytest.MonkeyPatch
) -> None:
    """None of the statements bears being executed twice, and none says so."""
    _prepare_old(fresh_mariadb)
    step = ddl(Action.ADD_INDEX, "d", "old", 20, "ALTER TABLE `old` ...")
    statements = tuple(f"ALTER TABLE `old` ADD INDEX ({column})" for column in ("id, v", "v, id", "v"))
    one_short = (*statements[:crash_after], "CRASH", *statements[crash_after + 1 :])
    sink = acquired(fresh_mariadb)
    listed = "consumer.sink.mysql.statements.planned.operations"
    monkeypatch.setattr(listed, lambda *_, **__: Operations(one_short))
    assert isinstance(sink.apply_ddls([step], {})[0].error, DdlRefused)
    monkeypatch.setattr(listed, lambda *_, **__: Operations(statements, "three"))
    sink.close()
    again = MySqlSink(settings(fresh_mariadb))
    [outcome] = again.apply_ddls([step], again.acquire(UPSTREAM).ddls)
    assert outcome.error is None
    assert outcome.note == "three"
    names = fresh_mariadb.execute(
        "SELECT DISTINCT index_name FROM information_schema.statistics WHERE table_name = 'old'"
    )
    assert sorted(names) == [("PRIMARY",), ("id",), ("v",), ("v_2",)]
    again.close()


def test_dropping_what_is_not_there(fresh_mariadb: MariaDb) -> None:
    sink = acquired(fresh_mariadb)
    steps = [
        ddl(Action.DROP_TABLE, "nowhere", "t", 5, "DROP TABLE `nowhere`.`t`"),
        ddl(Action.DROP_SCHEMA, "nowhere", "", 6, "DROP DATABASE `nowhere`"),
    ]
    outcomes = sink.apply_ddls(steps, {})
    assert [(outcome.error, "was not there" in outcome.note) for outcome in outcomes] == [(None, True)] * 2
    sink.close()


def test_empty_table_drops_and_records(fresh_mariadb: MariaDb) -> None:
    fresh_mariadb.execute("CREATE DATABASE d", "CREATE TABLE d.t (id INT)", "INSERT INTO d.t VALUES (1)")
    sink = acquired(fresh_mariadb)
    name = TableName("d", "t")
    assert list(sink.has_rows([name, TableName("d", "none"), TableName("none", "t")])) == [name]
    sink.empty_table(name, ProgressChange(tables={name: TableProgress(0)}))
    assert fresh_mariadb.execute("SHOW TABLES FROM d") == []
    assert list(sink.has_rows([name])) == []
    assert sink.progress().tables == {name: TableProgress(0)}
    sink.close()


def test_five_hundred_creates(fresh_mariadb: MariaDb) -> None:
    sink = acquired(fresh_mariadb)
    steps = [
        ddl(Action.CREATE_TABLE, "d", f"t{number}", 10 + number, f"CREATE TABLE `t{number}` (`id` INT PRIMARY KEY)")
        for number in range(500)
    ]
    outcomes = sink.apply_ddls(steps, {})
    assert [outcome for outcome in outcomes if outcome.error] == []
    assert len(fresh_mariadb.execute("SHOW TABLES FROM d")) == 500
    assert all(record.state is DdlState.DONE for record in sink.progress().ddls.values())
    sink.close()


def test_a_bare_timestamp_can_be_null(fresh_mariadb: MariaDb) -> None:
    fresh_mariadb.execute("SET GLOBAL explicit_defaults_for_timestamp = 0")
    try:
        sink = acquired(fresh_mariadb)
        sink.apply_ddls([ddl(Action.CREATE_TABLE, "d", "t", 1, "CREATE TABLE `t` (`a` TIMESTAMP)")], {})
        sink.close()
    finally:
        fresh_mariadb.execute("SET GLOBAL explicit_defaults_for_timestamp = 1")
    assert "`a` timestamp NULL DEFAULT NULL" in fresh_mariadb.execute("SHOW CREATE TABLE d.t")[0][1]
