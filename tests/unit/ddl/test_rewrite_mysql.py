"""Each rule by its pairs, and every statement of a real changefeed."""

from __future__ import annotations

import re
from typing import Any

import pytest

from consumer.ddl.definitions import statement_of
from consumer.ddl.references import references
from consumer.ddl.resolve import StatementNames
from consumer.ddl.rewrite_mysql import FlavorName, RewriteContext, rewrite_statement
from consumer.ddl.tidb_syntax import leave_out_computed
from consumer.ddl.tokens import Edits, tokenize
from consumer.errors import DdlRefused
from consumer.model.actions import RENAME_ACTIONS, Action
from consumer.model.names import TableName
from tests.unit.ddl.pairs import Written, cases, corpus, run

FLAVORS: tuple[FlavorName, ...] = ("mysql", "mariadb", "tidb")
RULED = re.compile(
    r"/\*T!|VECTOR|ENFORCED|INVISIBLE|0900|CHARACTER SET (LATIN1|ASCII|UTF8)\b(?! COLLATE)|\(\(|STORED NOT NULL|;$"
    r"|CREATE TABLE.*(UNIQUE KEY[,) ]|INDEX\(|UNIQUE\(|(?<!PRIMARY |FOREIGN )KEY\(|FOREIGN KEY)"
)
"""What no rule names must stay byte for byte; this says, apart from the rules, where one may apply."""
NAMED = {"ALTER TABLE `upper`.`mixedcase` ADD COLUMN `Extra` INT"}


def _id(case: dict[str, Any]) -> str:
    return f"{case['rule']}: {case['input'][:40]}"


def _check(case: dict[str, Any], flavor: FlavorName) -> None:
    result = run(case, flavor)
    assert "; ".join(result.statements) == case.get(f"expected_{flavor}", case["expected"])
    wanted = case.get("notes", [])
    assert len(result.notes) == len(wanted)
    assert all(any(part in note for note in result.notes) for part in wanted), result.notes


@pytest.mark.parametrize("case", cases("mariadb.toml"), ids=_id)
def test_mariadb(case: dict[str, Any]) -> None:
    _check(case, "mariadb")


@pytest.mark.parametrize("case", cases("mysql.toml"), ids=_id)
def test_mysql(case: dict[str, Any]) -> None:
    _check(case, "mysql")


@pytest.mark.parametrize("flavor", FLAVORS)
@pytest.mark.parametrize("case", cases("indexes.toml"), ids=_id)
def test_indexes(case: dict[str, Any], flavor: FlavorName) -> None:
    _check(case, flavor)


@pytest.mark.parametrize("flavor", FLAVORS)
@pytest.mark.parametrize("case", cases("names.toml"), ids=_id)
def test_names(case: dict[str, Any], flavor: FlavorName) -> None:
    if "refused" in case:
        with pytest.raises(DdlRefused, match=re.escape(case["refused"])):
            run(case, flavor)
    else:
        _check(case, flavor)


def _as_written(written: Written, flavor: FlavorName) -> str:
    statement = statement_of(written.query)
    found = statement.references
    known = {TableName(r.database or written.name.database, r.table) for r in found if r.role != "table"}
    old = next((n for r in found for n in known if r.role == "old" and n.table == r.table), None)
    place = RewriteContext(flavor, StatementNames(known, written.name, old), 1 << 18)
    return "; ".join(rewrite_statement(statement, Action(written.type), place).statements)


@pytest.mark.parametrize("flavor", FLAVORS)
def test_a_statement_that_no_rule_names_stays_byte_for_byte(flavor: FlavorName) -> None:
    plain = [
        written
        for written in corpus()
        if written.type not in RENAME_ACTIONS
        and written.query not in NAMED
        and "ENFORCED" not in written.query
        and not written.query.startswith("CREATE TABLE IF NOT EXISTS")
        and (flavor == "tidb" or not RULED.search(written.query))
    ]
    assert len(plain) > 290
    assert [_as_written(written, flavor) for written in plain] == [written.query for written in plain]


def test_a_rename_names_both_databases() -> None:
    renames = [written for written in corpus() if written.type in RENAME_ACTIONS]
    for written in renames:
        old, new = references(tokenize(_as_written(written, "mysql")))
        assert old.database is not None
        assert (new.database, new.table) == (written.name.database, written.name.table)
    assert len(renames) > 40


@pytest.mark.parametrize(
    ("query", "timestamp"),
    [
        ("ALTER TABLE `t` ADD COLUMN `c` DATETIME(3) DEFAULT CURRENT_TIMESTAMP(3)", 1_700_000_000.123),
        ("ALTER TABLE `t` ADD COLUMN `c` DATETIME DEFAULT NOW()", 1_700_000_000.123),
        ("ALTER TABLE `t` ADD COLUMN `CURRENT_TIMESTAMP` INT COMMENT 'NOW'", None),
        ("CREATE TABLE `t` (`c` DATETIME DEFAULT CURRENT_TIMESTAMP())", None),
    ],
)
def test_old_rows_get_upstreams_moment(query: str, timestamp: float | None) -> None:
    case = {"input": query, "version": (1_700_000_000_123 << 18) + 5}
    assert run(case, "mariadb").timestamp == timestamp


@pytest.mark.parametrize(
    ("query", "flavor"),
    [
        ("RECOVER TABLE `t`", "mysql"),
        ("FLASHBACK TABLE `t` TO `t2`", "mariadb"),
        ("RECOVER TABLE `t`", "tidb"),
        ("RECOVER TABLE BY JOB 12", "tidb"),
    ],
)
def test_rows_that_come_back_are_refused(query: str, flavor: FlavorName) -> None:
    with pytest.raises(DdlRefused, match="came back"):
        run({"input": query, "action": 25}, flavor)


@pytest.mark.parametrize(
    ("query", "flavor", "refused"),
    [
        ("ALTER TABLE `t` TRUNCATE PARTITION `p0`", "mariadb", True),
        ("ALTER TABLE `t` EXCHANGE PARTITION `p0` WITH TABLE `d`.`x`", "mysql", True),
        ("ALTER TABLE `t` TRUNCATE PARTITION `p0`", "tidb", False),
        ("ALTER TABLE `t` TRUNCATE PARTITION ALL", "mysql", False),
        ("ALTER TABLE `t` ADD PARTITION PARTITIONS 2", "mysql", False),
    ],
)
def test_partitions_by_key_hold_other_rows_here(query: str, flavor: FlavorName, refused: bool) -> None:
    case = {"input": query, "action": Action.TRUNCATE_PARTITION, "key_partitioned": True}
    if refused:
        with pytest.raises(DdlRefused, match="BY KEY"):
            run(case, flavor)
    else:
        assert run(case, flavor).statements == (query,)


@pytest.mark.parametrize(
    ("query", "refused", "filled", "expected"),
    [
        (
            "CREATE TABLE `t` (`a` BINARY(16) PRIMARY KEY DEFAULT (F(G())),`b` INT DEFAULT F(1) COMMENT 'x',"
            "`c` INT DEFAULT 1)",
            "ab",
            True,
            "CREATE TABLE `t` (`a` BINARY(16) PRIMARY KEY,`b` INT COMMENT 'x',`c` INT DEFAULT 1)",
        ),
        (
            "CREATE TABLE `t` (`a` INT DEFAULT (F(1)),`b` INT DEFAULT (F(2)))",
            "b",
            True,
            "CREATE TABLE `t` (`a` INT DEFAULT (F(1)),`b` INT)",
        ),
        (
            "CREATE TABLE `t` (`a` INT,`v` INT GENERATED ALWAYS AS(F(`a`)) VIRTUAL NOT NULL,`w` INT AS (`v`+1),"
            "`s` INT GENERATED ALWAYS AS(`w`+1) STORED NOT NULL,KEY `k`(`v`))",
            "v",
            True,
            "CREATE TABLE `t` (`a` INT,`v` INT GENERATED ALWAYS AS(NULL) VIRTUAL,`w` INT AS (NULL),"
            "`s` INT NOT NULL,KEY `k`(`v`))",
        ),
        (
            "ALTER TABLE `t` ALTER COLUMN `a` SET DEFAULT (F(1)), MODIFY COLUMN `b` INT DEFAULT (F(1)), "
            "DROP COLUMN `c`",
            "ab",
            True,
            "ALTER TABLE `t` ALTER COLUMN `a` DROP DEFAULT, MODIFY COLUMN `b` INT, DROP COLUMN `c`",
        ),
        (
            "ALTER TABLE `t` ADD COLUMN `a` INT DEFAULT (F(1)), ADD COLUMN `v` INT AS (F(`b`)) VIRTUAL",
            "av",
            True,
            "ALTER TABLE `t` ADD COLUMN `a` INT DEFAULT (F(1)), ADD COLUMN `v` INT AS (NULL) VIRTUAL",
        ),
        ("ALTER TABLE `t` ADD COLUMN `a` INT DEFAULT (F(1))", "a", False, "ALTER TABLE `t` ADD COLUMN `a` INT"),
        ("ALTER TABLE `t` ADD COLUMN `a` DATETIME DEFAULT NOW()", "a", False, None),
    ],
)
def test_what_the_server_does_not_compute_is_done_without(
    query: str, refused: str, filled: bool, expected: str | None
) -> None:
    edits = Edits()
    notes = list(leave_out_computed(statement_of(query), edits, lambda one: one.column in refused, filled))
    assert edits.apply(query) == (expected or query)
    assert bool(notes) == (expected is not None)


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("ADD COLUMN `h` INT AS (IFNULL(`G`,0)) VIRTUAL NOT NULL", "ADD COLUMN `h` INT AS (NULL) VIRTUAL"),
        (
            "ADD COLUMN `h` INT AS (`g`+1), ADD COLUMN `i` INT AS (`h`+1)",
            "ADD COLUMN `h` INT AS (NULL), ADD COLUMN `i` INT AS (NULL)",
        ),
        ("MODIFY COLUMN `h` INT AS (IFNULL(UNIX_TIMESTAMP(`g`),0))", "MODIFY COLUMN `h` INT AS (NULL)"),
        ("ADD COLUMN `h` INT AS (`a`+1)", None),
        ("DROP COLUMN `g`, ADD COLUMN `h` INT DEFAULT (F(1))", None),
        ("MODIFY COLUMN `g` INT AS (`a`+1)", None),
    ],
)
def test_what_reads_a_column_that_an_earlier_statement_left_null_is_null_too(query: str, expected: str | None) -> None:
    edits, text = Edits(), f"ALTER TABLE `t` {query}"
    notes = list(leave_out_computed(statement_of(text), edits, lambda _: False, nulls={"g"}))
    assert edits.apply(text) == f"ALTER TABLE `t` {expected or query}"
    assert bool(notes) == (expected is not None)


def test_a_collation_with_no_stand_in_is_refused() -> None:
    case = {"input": "CREATE TABLE `t` (`a` TEXT COLLATE utf8mb4_0900_ai_ci)", "collations": ["utf8mb4_unicode_ci"]}
    with pytest.raises(DdlRefused, match="utf8mb4_0900_ai_ci"):
        run(case, "mysql")
