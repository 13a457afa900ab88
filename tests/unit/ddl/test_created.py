"""The columns of a CREATE TABLE, as TiCDC's schema files describe them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from consumer.ddl.declared import created_columns
from consumer.ddl.definitions import statement_of
from consumer.errors import DdlRefused
from consumer.model.columns import Column
from tests.support.type_cases import FAMILIES, TypeCase

CASES = [case for cases in FAMILIES.values() for case in cases]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.column.name)
def test_every_type_is_as_in_a_schema_file(case: TypeCase) -> None:
    statement = statement_of(f"CREATE TABLE `t` (\n  `{case.column.name}` {case.sql.lower()} DEFAULT NULL\n)")
    (found,) = created_columns(statement)
    # Schema files of the classic architecture have no labels; how wide a whole number is shown does not matter.
    assert replace(found, elements=case.column.elements).kind == case.column.kind
    assert bool(found.elements) == found.labelled


def test_keys_and_nulls() -> None:
    found = created_columns(
        statement_of(
            "CREATE TABLE `t` (\n  `a` bigint(20) unsigned NOT NULL /*T![auto_rand] AUTO_RANDOM(5) */ COMMENT 'a, b',\n"
            "  `B` varchar(10) COLLATE utf8mb4_general_ci NOT NULL DEFAULT 'NOT NULL',\n"
            "  `c` enum('x','it''s') CHARACTER SET latin1 DEFAULT 'x',\n"
            "  `g` int(11) GENERATED ALWAYS AS (`a` + 1) STORED,\n"
            "  PRIMARY KEY (`a`,`b`(3)) /*T![clustered_index] CLUSTERED */,\n  UNIQUE KEY `u` (`c`)\n"
            ") ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 /*T![auto_rand_base] AUTO_RANDOM_BASE=30001 */"
        )
    )
    assert found == (
        Column("a", "BIGINT", True, 20, nullable=False, is_pk=True),
        Column("B", "VARCHAR", length=10, nullable=False, is_pk=True),
        Column("c", "ENUM", elements=("x", "it's")),
        Column("g", "INT", length=11),
    )


def test_a_type_of_another_database() -> None:
    with pytest.raises(DdlRefused, match="the type geometry, which TiDB does not have"):
        created_columns(statement_of("CREATE TABLE `t` (`p` geometry)"))
