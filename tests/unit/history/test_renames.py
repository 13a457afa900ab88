"""Old names that a file does not tell, and renames of one version."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import permutations

import pytest

from consumer.history.incarnations import Incarnation, LiveTables
from consumer.history.renames import find_old_name, order_same_version, overwritten_rename, rename_pairs
from consumer.history.upstream_session import upstream_session
from consumer.model.columns import Column
from consumer.model.files import SchemaFile
from consumer.model.names import TableName

ID = (Column("id", "INT", is_pk=True, nullable=False),)
ID_V = (*ID, Column("v", "INT"))


def file(query: str, name: str, columns: tuple[Column, ...] = ID) -> SchemaFile:
    database, _, table = name.partition(".")
    return SchemaFile(f"{name}/meta/x", f"{database}/{table}", database, table, 7, 1, query, 14, columns)


def there(tables: Mapping[TableName, tuple[Column, ...]]) -> LiveTables:
    live = LiveTables()
    for name, columns in tables.items():
        live.put(name, Incarnation(None, [name], [0], columns=columns))
    return live


def names(*texts: str) -> list[TableName]:
    return [TableName(*text.split(".")) for text in texts]


def test_pairs_as_typed() -> None:
    (pair,) = rename_pairs(file("RENAME TABLE `a`.`b` TO `c`.`D`;", "c.d"))
    assert (pair.old, pair.new) == (TableName("a", "b"), TableName("c", "d"))
    (pair,) = rename_pairs(file("ALTER TABLE `b` RENAME AS `c`.`d`", "c.d"))
    assert (pair.old, pair.database, pair.table) == (None, None, "b")
    (pair,) = rename_pairs(file("RENAME TABLE `b` TO `d`", "c.d"))
    assert pair.old == TableName("c", "b")
    assert rename_pairs(file("TRUNCATE TABLE `d`", "c.d")) == []


@pytest.mark.parametrize(
    ("query", "live", "old"),
    [
        ("RENAME TABLE `x1`.`A` TO `x2`.`n`", ["x1.a", "x2.a"], "x1.a"),
        ("RENAME TABLE `x1`.`a` TO `x2`.`n`", [], "x1.a"),
        ("ALTER TABLE `a` RENAME AS `x2`.`n`", ["x1.A", "x1.b"], "x1.A"),
        ("ALTER TABLE `n` RENAME AS `x2`.`n`", ["x1.n", "x2.n"], "x1.n"),
        ("ALTER TABLE `a` RENAME AS `n`", ["x1.a", "x2.a"], "x2.a"),
        ("ALTER TABLE `a` RENAME AS `x2`.`n`", ["x2.a"], "x2.a"),
        ("ALTER TABLE `a` RENAME AS `x2`.`n`", ["x1.a", "x2.a"], None),
        ("ALTER TABLE `a` RENAME AS `x2`.`n`", ["x1.b"], None),
        ("TRUNCATE TABLE `a`", ["x1.a"], None),
        ("RENAME TABLE `x2`.`n` TO `x2`.`n`", ["x1.a", "x2.n"], None),
        ("RENAME TABLE `x2`.`N` TO `x2`.`n`", ["x2.N"], "x2.N"),
    ],
)
def test_old_name(query: str, live: list[str], old: str | None) -> None:
    found = find_old_name(file(query, "x2.n"), there(dict.fromkeys(names(*live), ID)))
    assert found == (names(old)[0] if old else None)


def test_columns_tell_which_table_was_renamed_where_no_statement_can_be_left_out_that_would_make_others_alike() -> None:
    renamed = file("RENAME TABLE `a` TO `x3`.`n`", "x3.n", ID_V)
    other = (Column("w", "INT"),)
    for columns, databases in (((*ID, *other), "x2"), (ID, "x1 x2"), ((*ID_V, *other), "x1 x2")):
        tables = there({TableName("x1", "a"): columns, TableName("x2", "a"): ID_V, TableName("x3", "n"): ID})
        assert upstream_session(renamed, tables).databases == tuple(databases.split())
        assert find_old_name(renamed, tables) == (TableName("x2", "a") if databases == "x2" else None)
    assert find_old_name(renamed, there({TableName("x1", "a"): ID})) is None


SELECT = "CREATE VIEW `x1`.`n` AS SELECT 1 FROM "
LIKE = "CREATE TABLE `x1`.`n` LIKE `a`"
KEY = "CREATE TABLE `x1`.`n` (`i` INT, FOREIGN KEY (`i`) REFERENCES "


@pytest.mark.parametrize(
    ("query", "live", "databases"),
    [
        # FORMAT 47: the database of the file does not go first.
        (LIKE, "x2.a", "x2"),
        (LIKE, "x1.a x2.a", "x1 x2"),
        (LIKE, "x1.a+v x2.a", "x2"),
        ("CREATE TABLE `n` LIKE `a`", "x2.a", "x1"),
        ("CREATE TABLE `n` LIKE `a`", "x1.a+v x2.a", "x1"),
        (SELECT + "`a`", "x1.a+v x2.A", "x1 x2"),
        (SELECT + "`a` JOIN `b`", "x1.a x2.a x2.b", "x2"),
        (SELECT + "`a` JOIN `b`", "x1.a x2.b", ""),
        (SELECT + "`a` JOIN `x3`.`b`", "x1.a x2.b", "x1"),
        ("CREATE VIEW `n` AS SELECT 1 FROM `a`", "x2.a", "x1"),
        (KEY + "`a`(`id`))", "x1.a x2.a", "x1 x2"),
        (KEY + "`a`(`V`))", "x1.a x2.a+v", "x2"),
        (KEY + "`n`(`i`))", "", "x1"),
        (KEY + "`n`(`id`))", "x2.n", "x1 x2"),
        ("ALTER TABLE `n` ADD FOREIGN KEY (`i`) REFERENCES `a`(`id`)", "x2.a", "x1"),
        ("ALTER TABLE `x1`.`n` EXCHANGE PARTITION `p` WITH TABLE `a`", "x1.a x2.a", "x1 x2"),
        ("ALTER TABLE `n` EXCHANGE PARTITION `p` WITH TABLE `a`", "x2.a", "x1"),
        ("FLASHBACK TABLE `x1`.`a` TO `n`", "x2.a", "x1"),
    ],
)
def test_the_sessions_database(query: str, live: str, databases: str) -> None:
    tables = {name: ID_V if plus else ID for name, plus, _ in (text.partition("+") for text in live.split())}
    found = upstream_session(file(query, "x1.n"), there({TableName(*name.split(".")): c for name, c in tables.items()}))
    assert found.databases == tuple(databases.split())


def test_who_frees_a_name_goes_first() -> None:
    first = file("RENAME TABLE `d`.`a` TO `d`.`b`", "d.b")
    second = file("RENAME TABLE `d`.`x` TO `d`.`A`", "d.A")
    third = file("RENAME TABLE `d`.`y` TO `d`.`x`", "d.x")
    other = file("RENAME TABLE `d`.`o` TO `e`.`o`", "e.o")
    for files in permutations([first, second, third, other]):
        groups = order_same_version(files)
        assert all(len(group) == 1 for group in groups)
        flat = [group[0] for group in groups]
        assert len(flat) == 4
        assert flat.index(first) < flat.index(second) < flat.index(third)


def test_tables_that_exchange_their_names_are_one_group() -> None:
    swap = [
        file("RENAME TABLE `d`.`a` TO `d`.`tmp`", "d.tmp"),
        file("RENAME TABLE `d`.`b` TO `d`.`a`", "d.a"),
        file("RENAME TABLE `d`.`tmp` TO `d`.`b`", "d.b"),
    ]
    alone = file("RENAME TABLE `d`.`x` TO `d`.`y`", "d.y")
    for files in permutations([*swap, alone]):
        groups = order_same_version(files)
        assert sorted(len(group) for group in groups) == [1, 3]
        (circle,) = (group for group in groups if len(group) == 3)
        assert all(member in circle for member in swap)
        steps = [swap.index(member) for member in circle]
        assert steps in ([0, 1, 2], [1, 2, 0], [2, 0, 1])


def test_a_change_of_case_waits_for_nobody() -> None:
    only = file("RENAME TABLE `d`.`t` TO `d`.`T`", "d.T")
    assert order_same_version([only]) == [[only]]
    assert find_old_name(only, there({TableName("d", "t"): ID})) == TableName("d", "t")


def test_nothing_to_order() -> None:
    assert order_same_version([]) == []


TO_A, TO_B = file("RENAME TABLE `d`.`b` TO `d`.`a`", "d.a"), file("RENAME TABLE `d`.`x` TO `d`.`b`", "d.b")


def overwritten(files: list[SchemaFile], *live: str, **others: tuple[Column, ...]) -> list[tuple[str, str]]:
    tables = there({**dict.fromkeys(names(*live), ID), **{TableName("d", name): c for name, c in others.items()}})
    found = overwritten_rename(files, {name.folded for name in tables}, tables)
    return [(str(file.name), file.query) for file in found]


def test_a_circle_tells_of_the_rename_that_was_overwritten() -> None:
    lost = [("d.x", "RENAME TABLE `d`.`A` TO `d`.`x`")]
    assert overwritten([TO_A, TO_B], "d.A", "d.b") == lost
    to_c = file("RENAME TABLE `d`.`x` TO `d`.`c`", "d.c")
    assert overwritten([TO_A, file("RENAME TABLE `d`.`c` TO `d`.`b`", "d.b"), to_c], "d.A", "d.b", "d.c") == lost
    assert overwritten([TO_A, file("RENAME TABLE `e`.`x` TO `d`.`b`", "d.b")], "d.A", "d.b", "d.x") == [
        ("e.x", "RENAME TABLE `d`.`A` TO `e`.`x`")
    ]


def test_what_is_not_clear_is_not_made_up() -> None:
    assert overwritten([TO_A, TO_B], "d.b") == []  # nothing is in the way
    assert overwritten([TO_A, TO_B], "d.a", "d.b", "d.x") == []  # nothing is missing
    assert overwritten([TO_A, TO_B], "d.b", a=ID_V) == []  # other columns
    assert overwritten([TO_B], "d.b") == []
    again = [file(f.query.replace("`d`", "`e`"), f"e.{f.table}") for f in (TO_A, TO_B)]
    assert overwritten([TO_A, TO_B, *again], "d.a", "d.b", "e.a", "e.b") == []  # which one is which
    assert overwritten([file("RENAME TABLE `d`.`c` TO `d`.`e`", "d.e"), TO_B], "d.c", "d.b") == []
