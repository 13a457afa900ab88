"""Table rules mean what they mean to TiCDC."""

from __future__ import annotations

import pytest

from consumer.config.table_filter import TableFilter, table_filter, whole_name
from consumer.model.names import TableName


def wanted(rules: list[str], *names: tuple[str, str], case_sensitive: bool = False) -> list[bool]:
    rule_set = TableFilter(rules, case_sensitive=case_sensitive)
    return [rule_set.matches(TableName(*name)) for name in names]


@pytest.mark.parametrize(
    ("rules", "name", "matches"),
    [
        ([], ("a", "b"), True),
        (["*.*"], ("a", "b"), True),
        (["shop.*"], ("shop", "orders"), True),
        (["shop.*"], ("shop2", "orders"), False),
        (["shop.o?d*"], ("shop", "orders"), True),
        (["shop.[a-c]x"], ("shop", "bx"), True),
        (["shop.[!a-c]x"], ("shop", "bx"), False),
        (["shop.*", "!shop.tmp_*"], ("shop", "tmp_1"), False),
        (["!shop.tmp_*", "shop.*"], ("shop", "tmp_1"), True),
        (["!shop.*"], ("other", "t"), False),
        (["*.*", "!*.log"], ("a", "log"), False),
        (["`a.b`.`c``d`"], ("a.b", "c`d"), True),
        (['"a b".*'], ("a b", "t"), True),
        (["my-db.t$1"], ("my-db", "t$1"), True),
        ([r"a\.b.c"], ("a.b", "c"), True),
        ([r"/^sh(op)?$/./^t\d+$/"], ("shop", "t12"), True),
        ([r"/^sh(op)?$/./^t\d+$/"], ("shop", "t12x"), False),
        (["数据.*"], ("数据", "t"), True),
        (["a.b*"], ("a", "b\nc"), True),
    ],
)
def test_rules(rules: list[str], name: tuple[str, str], matches: bool) -> None:
    assert wanted(rules, name) == [matches]


def test_case_counts_only_when_asked() -> None:
    assert wanted(["Shop.T"], ("shop", "t")) == [True]
    assert wanted(["Shop.T"], ("shop", "t"), ("Shop", "T"), case_sensitive=True) == [False, True]


def test_a_database_passes_when_one_of_its_tables_could() -> None:
    assert wanted(["shop.orders"], ("shop", ""), ("crm", "")) == [True, False]
    assert wanted(["*.*", "!shop.tmp"], ("shop", "")) == [True]
    assert wanted(["*.*", "!shop.*"], ("shop", ""), ("crm", "")) == [False, True]


@pytest.mark.parametrize(
    "rule", ["", "!", "shop", "a.b.c", "a.", ".b", "a b.c", "`a.b", '"a.b', "/a.b", "/(/.b", "a'.b", "`a`b.c", "@file"]
)
def test_what_is_no_rule_is_refused_by_its_text(rule: str) -> None:
    with pytest.raises(ValueError, match=r"rule|regular expression") as caught:
        TableFilter([rule])
    assert rule in str(caught.value)


@pytest.mark.parametrize(
    ("rule", "table"),
    [
        ("d.t", ("d", "t")),
        ("`d`.t", ("d", "t")),
        ("`a.b`.`c``d`", ("a.b", "c`d")),
        ('"a*b"."c""d"', ("a*b", 'c"d')),
        ("größe.t_$-1", ("größe", "t_$-1")),
        ("d.*", None),
        ("d.t?", None),
        ("d.[a]", None),
        ("d./t/", None),
        (r"d.t\*", None),
        ("!d.t", None),
    ],
)
def test_a_rule_without_a_wildcard_is_the_name_of_one_table(rule: str, table: tuple[str, str] | None) -> None:
    assert whole_name(rule) == (None if table is None else TableName(*table))
    if table is not None:
        assert table_filter((rule,), True).matches(TableName(*table))


@pytest.mark.parametrize(
    ("rules", "hidden"),
    [
        ([], False),
        (["*.*"], False),
        (["*.*", "!x1.*"], True),
        (["*.*", "!x1.b"], False),
        (["x2.*", "x3.*"], True),
        (["x2.*", "*.a"], False),
    ],
)
def test_a_database_that_no_file_tells_of_can_have_a_table_that_is_left_out(rules: list[str], hidden: bool) -> None:
    assert TableFilter(rules).hides("a") is hidden
