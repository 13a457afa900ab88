"""Tables kept under a trash name, on real servers: what hangs on them, and a death between any two statements."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import count

import pytest

from consumer.errors import DdlRefused
from consumer.model.actions import Action
from consumer.model.names import TableName
from consumer.model.progress import DdlState
from consumer.model.steps import ApplyDdl
from consumer.sink.mysql.sink import MySqlSink
from consumer.sink.mysql.statements import execute as mysql_ddl
from consumer.sink.mysql.statements.trash import remaining_statements
from tests.integration.mysql.steps import UPSTREAM, acquired, ddl, settings
from tests.servers import MariaDb, SqlServer

TRASH = TableName("d", "__trash_20_t")
PLAIN = (
    "CREATE TABLE d.t (id INT PRIMARY KEY, v INT, g INT AS (v + 1) VIRTUAL, KEY kv (v))"
    " PARTITION BY HASH (id) PARTITIONS 2",
    "INSERT INTO d.t (id, v) VALUES (1, 7), (5, 8)",
)
PARENT = (
    "CREATE TABLE d.t (id INT PRIMARY KEY AUTO_INCREMENT, v INT, g INT AS (v + 1) VIRTUAL)",
    "SET sql_mode = 'NO_AUTO_VALUE_ON_ZERO'",
    "INSERT INTO d.t (id, v) VALUES (0, 7), (1, 8)",
    "CREATE TABLE d.child (id INT PRIMARY KEY, t INT, CONSTRAINT fk_1 FOREIGN KEY (t) REFERENCES d.t (id))",
    "INSERT INTO d.child VALUES (1, 1)",
)
CHILD = (
    "CREATE TABLE d.p (id INT PRIMARY KEY)",
    "CREATE TABLE d.t (id INT PRIMARY KEY, v INT, p INT, CONSTRAINT fk_1 FOREIGN KEY (p) REFERENCES d.p (id))",
    "INSERT INTO d.t VALUES (1, 7, NULL), (5, 8, NULL)",
)
TRIGGER = (
    "CREATE TABLE d.t (id INT PRIMARY KEY, v INT)",
    "INSERT INTO d.t VALUES (1, 7), (5, 8)",
    "CREATE TRIGGER d.tr BEFORE INSERT ON d.t FOR EACH ROW SET NEW.v = 0",
)
SETUPS = {"plain": PLAIN, "parent": PARENT, "child": CHILD, "trigger": TRIGGER}
STEPS = {
    "drop": replace(ddl(Action.DROP_TABLE, "d", "t", 20, "DROP TABLE `d`.`t`"), trash=TRASH),
    "truncate": replace(ddl(Action.TRUNCATE_TABLE, "d", "t", 20, "TRUNCATE TABLE `t`"), trash=TRASH),
    "drop database": replace(
        ddl(Action.DROP_SCHEMA, "d", "", 20, "DROP DATABASE `d`"), trash=TableName("__trash_20_d", "")
    ),
}


def prepare(server: SqlServer, setup: str) -> None:
    server.drop_all()
    server.execute("CREATE DATABASE d", *SETUPS[setup])


def state(server: SqlServer) -> dict[str, object]:
    """Every table outside the consumer's own schema: its definition without counters, and its rows."""
    found: dict[str, object] = {}
    for database, table in server.execute(
        "SELECT table_schema, table_name FROM information_schema.tables WHERE table_schema IN ('d', '__trash_20_d')"
    ):
        create = server.execute(f"SHOW CREATE TABLE `{database}`.`{table}`")[0][1]
        rows = server.execute(f"SELECT * FROM `{database}`.`{table}` ORDER BY 1")
        found[f"{database}.{table}"] = (re.sub(r" AUTO_INCREMENT=\d+", "", create), rows)
    return found


def run(sink: MySqlSink, step: ApplyDdl) -> str:
    intents = {i: r for i, r in sink.progress().ddls.items() if r.state is DdlState.INTENT}
    (outcome,) = sink.apply_ddls([step], intents)
    assert outcome.error is None, outcome.error
    return outcome.note


@pytest.mark.parametrize("setup", SETUPS)
@pytest.mark.parametrize("kind", STEPS)
def test_a_death_before_any_statement_ends_the_same(
    kind: str, setup: str, mariadb: MariaDb, monkeypatch: pytest.MonkeyPatch
) -> None:
    step, real = STEPS[kind], remaining_statements
    prepare(mariadb, setup)
    sink = acquired(mariadb)
    assert run(sink, step) in ("d.t is kept as d.__trash_20_t", "d is kept as __trash_20_d")
    sink.close()
    expected = state(mariadb)
    for moment in count():
        prepare(mariadb, setup)
        sink, died = acquired(mariadb), False

        def dying(*given: object, moment: int = moment) -> object:
            for number, statement in enumerate(real(*given)):  # type: ignore[arg-type]
                if number == moment:
                    raise KeyboardInterrupt
                yield statement

        monkeypatch.setattr(mysql_ddl, "remaining_statements", dying)
        try:
            sink.apply_ddls([step], {})
        except KeyboardInterrupt:
            died = True
        monkeypatch.undo()
        sink.close()
        again = MySqlSink(settings(mariadb))
        again.acquire(UPSTREAM)
        if died:
            run(again, step)
        assert again.progress().ddls[step.id].state is DdlState.DONE
        again.close()
        assert state(mariadb) == expected, f"died before statement {moment}"
        if not died:
            break
    assert moment >= (2 if kind != "drop" else 1)


@pytest.mark.parametrize("setup", SETUPS)
def test_a_truncated_table_keeps_all_that_hangs_on_it(setup: str, fresh_mariadb: SqlServer) -> None:
    prepare(fresh_mariadb, setup)
    before = {name: create for name, (create, _) in state(fresh_mariadb).items()}  # type: ignore[misc]
    rows = fresh_mariadb.execute("SELECT id, v FROM d.t ORDER BY id")
    sink = acquired(fresh_mariadb)
    run(sink, STEPS["truncate"])
    sink.close()
    after = state(fresh_mariadb)
    assert {name: create for name, (create, _) in after.items() if name != str(TRASH)} == before  # type: ignore[misc]
    assert fresh_mariadb.execute("SELECT COUNT(*) FROM d.t") == [(0,)]
    assert fresh_mariadb.execute("SELECT id, v FROM d.__trash_20_t ORDER BY id") == rows
    assert fresh_mariadb.execute("SELECT COUNT(*) FROM information_schema.triggers WHERE event_object_table = 't'") == [
        (int(setup == "trigger"),)
    ]


def test_names_of_foreign_keys_are_free_for_the_next_table(fresh_mariadb: SqlServer) -> None:
    prepare(fresh_mariadb, "child")
    sink = acquired(fresh_mariadb)
    run(sink, STEPS["drop"])
    create = "CREATE TABLE `t` (`id` INT PRIMARY KEY,`p` INT,CONSTRAINT `fk_1` FOREIGN KEY (`p`) REFERENCES `p`(`id`))"
    run(sink, ddl(Action.CREATE_TABLE, "d", "t", 30, create))
    sink.close()


def test_an_empty_table_leaves_no_trash_when_truncated(fresh_mariadb: SqlServer) -> None:
    fresh_mariadb.execute("CREATE DATABASE d", "CREATE TABLE d.t (id INT PRIMARY KEY)")
    sink = acquired(fresh_mariadb)
    run(sink, STEPS["truncate"])
    sink.close()
    assert list(state(fresh_mariadb)) == ["d.t"]


@pytest.mark.parametrize("ran", [True, False])
def test_a_recovery_that_died_is_taken_up(ran: bool, fresh_mariadb: SqlServer, monkeypatch: pytest.MonkeyPatch) -> None:
    prepare(fresh_mariadb, "plain")
    sink = acquired(fresh_mariadb)
    run(sink, STEPS["drop"])
    step = replace(ddl(Action.RECOVER_TABLE, "e", "u", 30, "FLASHBACK TABLE `d`.`t` TO `e`.`u`"), trash=TRASH)
    name = "facts" if ran else "execute_ddls"
    monkeypatch.setattr(f"consumer.sink.mysql.sink.{name}", _die)
    with pytest.raises(KeyboardInterrupt):
        sink.apply_ddls([step], {})
    monkeypatch.undo()
    sink.close()
    again = MySqlSink(settings(fresh_mariadb))
    again.acquire(UPSTREAM)
    assert run(again, step) == "e.u came back from d.__trash_20_t"
    again.close()
    assert fresh_mariadb.execute("SELECT COUNT(*) FROM e.u") == [(2,)]


def test_nothing_is_moved_over_a_table_that_is_there(fresh_mariadb: SqlServer) -> None:
    prepare(fresh_mariadb, "plain")
    sink = acquired(fresh_mariadb)
    run(sink, STEPS["drop"])
    fresh_mariadb.execute("CREATE TABLE d.t (id INT)")
    step = replace(ddl(Action.RECOVER_TABLE, "d", "t", 30, "RECOVER TABLE `t`"), trash=TRASH)
    (outcome,) = sink.apply_ddls([step], {})
    assert isinstance(outcome.error, DdlRefused)
    assert "a table of this name exists" in outcome.error.message
    sink.close()


@pytest.mark.parametrize("same", [True, False])
def test_a_place_in_the_trash_is_free_for_the_same_rows_alone(same: bool, fresh_mariadb: SqlServer) -> None:
    prepare(fresh_mariadb, "plain")
    fresh_mariadb.execute(
        "CREATE TABLE d.__trash_20_t (id INT PRIMARY KEY, v INT)",
        f"INSERT INTO d.__trash_20_t VALUES (5, 8), (1, {7 if same else 9})",
    )
    sink = acquired(fresh_mariadb)
    (outcome,) = sink.apply_ddls([STEPS["truncate"]], {})
    sink.close()
    assert (outcome.error is None) is same
    assert same or "rename or drop d.__trash_20_t" in outcome.error.hint  # type: ignore[union-attr]


def _die(*_: object) -> None:
    raise KeyboardInterrupt
