"""The zone of statements: the changefeed's, on servers without zone tables too."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

import pytest

from consumer.errors import DdlRefused
from consumer.model.actions import Action
from consumer.model.columns import Column
from consumer.model.steps import ApplyDdl, TableBefore
from consumer.model.times import ms_to_tso
from consumer.sink.mysql.sink import MySqlSink
from tests.integration.mysql.steps import UPSTREAM, ddl, settings
from tests.servers import MariaDb
from tests.support.build import ID

SUMMER = ms_to_tso(round(datetime.fromisoformat("2024-07-01T12:00:00+00:00").timestamp() * 1000))
NEVER_LEARNED = "America/New_York"
LEARNED = "Europe/Berlin"


def sink_in(server: MariaDb, zone: str) -> MySqlSink:
    sink = MySqlSink(replace(settings(server), time_zone=zone))
    sink.acquire(UPSTREAM)
    return sink


def alter(query: str, *columns: Column, before: tuple[Column, ...] = (ID,), action: Action) -> ApplyDdl:
    return replace(ddl(action, "d", "t", SUMMER, query, columns=(ID, *columns)), table_before=TableBefore(before))


@pytest.fixture
def server(fresh_mariadb: MariaDb) -> MariaDb:
    fresh_mariadb.execute("CREATE DATABASE d", "CREATE TABLE d.t (id INT PRIMARY KEY)", "INSERT INTO d.t VALUES (1)")
    return fresh_mariadb


def test_a_literal_default_is_the_moment_of_the_schema_file(server: MariaDb) -> None:
    """Whatever the zone of the session upstream was."""
    sink = sink_in(server, NEVER_LEARNED)
    column = Column("at", "TIMESTAMP", nullable=False, default="2024-01-15 04:30:00")
    query = "ALTER TABLE `t` ADD COLUMN `at` TIMESTAMP NOT NULL DEFAULT '2024-01-15 10:00:00'"
    [outcome] = sink.apply_ddls([alter(query, column, action=Action.ADD_COLUMN)], {})
    sink.close()
    assert outcome.error is None
    server.execute("INSERT INTO d.t (id) VALUES (2)")
    found = server.execute("SET time_zone = '+00:00'", "SELECT at FROM d.t")
    assert found == [(datetime(2024, 1, 15, 4, 30),)] * 2


def test_the_present_time_is_the_changefeeds(server: MariaDb) -> None:
    sink = sink_in(server, NEVER_LEARNED)
    columns = (
        Column("l", "DATETIME", default="CURRENT_TIMESTAMP"),
        Column("m", "TIMESTAMP", default="CURRENT_TIMESTAMP"),
    )
    query = "ALTER TABLE `t` ADD COLUMN (`l` DATETIME DEFAULT NOW(), `m` TIMESTAMP DEFAULT CURRENT_TIMESTAMP)"
    [outcome] = sink.apply_ddls([alter(query, *columns, action=Action.MULTI_SCHEMA_CHANGE)], {})
    sink.close()
    assert outcome.error is None
    found = server.execute("SET time_zone = '+00:00'", "SELECT l, m FROM d.t")
    assert found == [(datetime(2024, 7, 1, 8), datetime(2024, 7, 1, 12))]


@pytest.fixture
def times(server: MariaDb) -> MariaDb:
    server.execute(
        "ALTER TABLE d.t ADD COLUMN at TIMESTAMP NULL, ADD COLUMN v INT",
        "SET time_zone = '+00:00'",
        "REPLACE INTO d.t VALUES (1, '2024-01-15 11:00:00', 1), (2, '2024-07-15 11:00:00', 2)",
    )
    return server


AT, V = Column("at", "TIMESTAMP"), Column("v", "INT")
TO_DATETIME = alter(
    "ALTER TABLE `t` MODIFY COLUMN `at` DATETIME",
    Column("at", "DATETIME"),
    V,
    before=(ID, AT, V),
    action=Action.MODIFY_COLUMN,
)


@pytest.mark.parametrize("zone", ["UTC", LEARNED])
def test_times_that_change_their_type_are_refused(zone: str, times: MariaDb) -> None:
    """Upstream went by the zone of the session that ran the statement, which is not the changefeed's."""
    times.learn_zone(LEARNED)
    sink = sink_in(times, zone)
    [outcome] = sink.apply_ddls([TO_DATETIME], {})
    assert isinstance(outcome.error, DdlRefused)
    assert "the time zone of the session that ran the statement" in outcome.error.message
    assert "skip-ddl --table d.t" in outcome.error.hint
    other = alter(
        "ALTER TABLE `t` MODIFY COLUMN `v` BIGINT",
        AT,
        Column("v", "BIGINT"),
        before=(ID, AT, V),
        action=Action.MODIFY_COLUMN,
    )
    assert sink.apply_ddls([other], {})[0].error is None
    assert times.execute("SELECT v FROM d.t ORDER BY id") == [(1,), (2,)]
    times.execute("UPDATE d.t SET at = NULL")
    [outcome] = sink.apply_ddls([TO_DATETIME], {})
    sink.close()
    assert outcome.error is None


@pytest.mark.parametrize(("zone", "sets"), [("UTC", 0), ("+00:00", 0), (NEVER_LEARNED, 2)])
def test_the_sessions_zone_is_set_only_for_a_statement_in_another(zone: str, sets: int, server: MariaDb) -> None:
    sink = sink_in(server, zone)
    server.execute("SET GLOBAL log_output = 'TABLE'", "TRUNCATE mysql.general_log", "SET GLOBAL general_log = 1")
    try:
        query = "ALTER TABLE `t` ADD COLUMN `l` DATETIME DEFAULT NOW()"
        column = Column("l", "DATETIME", default="CURRENT_TIMESTAMP")
        [outcome] = sink.apply_ddls([alter(query, column, action=Action.ADD_COLUMN)], {})
    finally:
        server.execute("SET GLOBAL general_log = 0", "SET GLOBAL log_output = 'FILE'")
    sink.close()
    assert outcome.error is None
    sent = "SELECT argument FROM mysql.general_log WHERE argument LIKE "
    assert server.execute(sent + "'ALTER TABLE%ADD COLUMN `l`%'")
    assert len(server.execute(sent + "'SET time_zone%'")) == sets
    found = server.execute("SELECT l FROM d.t")
    assert found == [(datetime(2024, 7, 1, 12 - 4 * (zone == NEVER_LEARNED)),)]
