"""Progress is read as it was written, and quickly."""

from __future__ import annotations

from datetime import datetime

import pytest

from consumer.errors import BadConfig, TargetUnavailable
from consumer.model.files import Folder
from consumer.model.names import TableName
from consumer.model.progress import (
    AuditRow,
    FolderProgress,
    Progress,
    ProgressChange,
    State,
    TableProgress,
)
from consumer.model.times import ms_to_tso
from consumer.sink.mysql.settings import MySqlSettings
from consumer.sink.mysql.sink import MySqlSink
from tests.integration.mysql.steps import UPSTREAM, acquired, settings
from tests.servers import MariaDb

MOMENT = ms_to_tso(1_700_000_000_123) + 5
CHANGE = ProgressChange(
    applied_ts=MOMENT,
    tables={
        TableName("a", "T"): TableProgress(MOMENT - 1, State.STOPPED, "it's \\ broken\n🙂", "resync"),
        TableName("a", "t"): TableProgress(2, State.DROPPED),
        TableName("é`b", "x y"): TableProgress((1 << 63) - 1, State.EXCLUDED),
        TableName("e", "b"): TableProgress(9),
    },
)


def test_the_public_view(fresh_mariadb: MariaDb) -> None:
    sink = acquired(fresh_mariadb)
    sink.record(CHANGE)
    sink.record(ProgressChange(tables={TableName("a", "t"): None, TableName("e", "b"): None}))
    rows = fresh_mariadb.execute("SELECT * FROM storage_consumer.replica ORDER BY `table`")
    moment = datetime(2023, 11, 14, 22, 13, 20, 123000)
    assert [(row[0], row[1], row[2], row[4]) for row in rows] == [
        ("replica", "a.T", MOMENT - 1, "stopped"),
        ("replica", "e.b", MOMENT, "ok"),
        ("replica", "é`b.x y", (1 << 63) - 1, "excluded"),
    ]
    assert rows[1][3] == moment
    sink.close()


def test_five_hundred_tables_in_one_change(fresh_mariadb: MariaDb) -> None:
    sink = acquired(fresh_mariadb)
    names = [TableName("db", f"table_{number}") for number in range(500)]
    change = ProgressChange(
        tables={name: TableProgress(5) for name in names},
        folders={Folder(f"db/{name.table}", 5): FolderProgress(1, 2, "s") for name in names},
        audit=tuple(AuditRow("load", name, 1, 5) for name in names),
    )
    sink.record(change)
    sink.record(ProgressChange(applied_ts=6, tables=dict.fromkeys(names)))
    assert sink.progress().tables == {}
    assert len(sink.progress().folders) == 500
    sink.close()


def test_consumers_of_two_names_do_not_meet(fresh_mariadb: MariaDb) -> None:
    one, two = acquired(fresh_mariadb, "one"), acquired(fresh_mariadb, "ONE")
    one.record(CHANGE)
    assert two.progress() == Progress(upstream=UPSTREAM)
    one.close()
    two.close()


def test_no_progress_yet_is_empty_and_writes_nothing(fresh_mariadb: MariaDb) -> None:
    assert MySqlSink(settings(fresh_mariadb)).progress() == Progress()
    assert ("storage_consumer",) not in fresh_mariadb.execute("SHOW DATABASES")


def test_a_refused_login(fresh_mariadb: MariaDb) -> None:
    fresh_mariadb.execute("CREATE USER 'u'@'%' IDENTIFIED BY 'right'")
    wrong = MySqlSettings.from_uri(fresh_mariadb.url("u", "wrong"), name="replica")
    with pytest.raises(BadConfig, match="1045") as caught:
        MySqlSink(wrong).acquire(UPSTREAM)
    assert "wrong" not in str(caught.value)


def test_a_missing_grant(fresh_mariadb: MariaDb) -> None:
    fresh_mariadb.execute("CREATE USER 'u'@'%' IDENTIFIED BY 'pw'")
    sink = MySqlSink(MySqlSettings.from_uri(fresh_mariadb.url("u", "pw"), name="replica"))
    with pytest.raises(BadConfig, match=r"command denied|storage_consumer") as caught:
        sink.acquire(UPSTREAM)
    assert "grant" in caught.value.hint


def test_a_server_that_is_not_there() -> None:
    away = MySqlSettings.from_uri("mysql://root@127.0.0.1:1/", name="replica")
    with pytest.raises(TargetUnavailable, match=r"127\.0\.0\.1:1"):
        MySqlSink(away).progress()
