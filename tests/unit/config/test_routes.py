"""Routes: how they are written, which names they give, what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from consumer.config.load import load
from consumer.errors import BadConfig
from consumer.model.names import TableName
from consumer.model.naming import SAME, naming_from, naming_of, routes_of

URI = {"upstream_uri": "file:///cdc?protocol=canal-json"}


def target(name: str, *routes: str) -> str:
    database, _, table = name.partition(".")
    return str(naming_of(routes_of(routes)).target(TableName(database, table)))


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("shop.orders", "archive.orders"),
        ("SHOP.Items", "replica.Items"),
        ("shop_7.users", "users.of_7_"),
        ("shop_.users", "users.of__"),
        ("prod_bank.t", "bank.t"),
        ("prod_.t", "prod_.t"),
        ("a.b.c", "x.y"),
        ("a.bxc", "a.bxc"),
        ("other.t", "other.t"),
        ("shop", "replica"),
        ("shop_7", "shop_7"),
        ("prod_bank", "bank"),
        ("a", "a"),
    ],
)
def test_the_first_route_that_fits_names_a_table_and_one_for_all_tables_a_database(name: str, expected: str) -> None:
    routes = (
        "shop.orders -> archive.orders", "shop.* -> replica.*", "shop_*.users -> users.of_*_", "prod_*.* -> *.*",
        "a.`b.c` -> x.y",
    )  # fmt: skip
    assert target(name, *routes) == expected


def test_a_database_is_not_named_by_a_text_of_a_table() -> None:
    assert target("shop", "shop.* -> of_*.t", "s*.* -> *.x_*") == "hop"
    assert target("a", "*.* -> all.*_*") == "a"


def test_names_are_the_same_where_tidb_takes_them_for_the_same() -> None:
    assert target("SHÖP.ÄT", "shöp.ä* -> x.*") == "x.T"
    assert target("\u017fhop.t", "shop.* -> x.*") == "\u017fhop.t"
    assert target("D\u0130X.t", "d\u0130*.* -> *.*") == "X.t"


def test_wildcards_stand_for_each_text_once_and_quoted_ones_for_themselves() -> None:
    assert target("a.b", "*.* -> *x.y*") == "ax.yb"
    assert target("*.b", "`*`.* -> `a``*`.*") == "a`*.b"
    assert target("a.b", "`*`.* -> x.*") == "a.b"


@pytest.mark.parametrize(
    ("route", "why"),
    [
        ("shop.*", "is not a route"),
        ("shop -> replica", "is not a route"),
        ("a.b.c -> d.e", "is not a route"),
        ("shop.t? -> x.t?", "is not a route"),
        (r"shop_(\d+).t -> x.t", "is not a route"),
        ("!shop.* -> x.*", "is not a route"),
        ("a*b*.t -> x.*_*", "more than one"),
        ("shop_*.orders -> shop.orders", "merge them with a column"),
        ("shop.* -> x.t", "merge them with a column"),
        ("shop.t -> x.*", "stands for nothing"),
        ("shop.* -> `Storage_Consumer`.*", "keeps the progress"),
    ],
)
def test_what_is_not_from_one_table_to_one_is_refused(route: str, why: str) -> None:
    with pytest.raises(BadConfig, match=f"--route is refused: .*{why}"):
        load({**URI, "routes": [route]}, {})


def test_one_table_does_not_get_two_names() -> None:
    with pytest.raises(BadConfig, match=r"'SHOP.\* -> b.\*' is never used: 'shop.\* -> a.\*' has the same tables"):
        load({**URI, "routes": ["shop.* -> a.*", "SHOP.* -> b.*"]}, {})


def test_flags_the_environment_and_the_file_say_the_same(tmp_path: Path) -> None:
    file = tmp_path / "changefeed.toml"
    file.write_text('[[consumer.routes]]\nfrom = "a.*"\nto = "b.*"\n[[consumer.routes]]\nfrom = "c.*"\nto = "d.*"\n')
    told = ["a.* -> b.*", "c.* -> d.*"]
    settings = [
        load({**URI, "routes": told}, {}).settings,
        load(URI, {"STORAGE_CONSUMER_ROUTE": ";".join(told)}).settings,
        load(URI, {}, str(file)).settings,
    ]
    assert [[str(route) for route in one.routes] for one in settings] == [told] * 3
    assert load(URI, {}).settings.naming is SAME


@pytest.mark.parametrize("entry", ['{from = "a.*"}', '{from = "a.*", to = "b.*", tables = "x"}'])
def test_a_table_of_the_file_that_is_no_route_is_refused(entry: str, tmp_path: Path) -> None:
    file = tmp_path / "changefeed.toml"
    file.write_text(f"[consumer]\nroutes = [{entry}]\n")
    with pytest.raises(BadConfig, match=r"\[consumer\] routes is refused: a route has from and to"):
        load(URI, {}, str(file))


def test_what_is_recorded_gives_the_same_names() -> None:
    naming = naming_of(routes_of(["`a  ->  b`.*   ->  c.*", "x.y -> `new\nline`.`;`"]))
    again = naming_from(naming.routes)
    for name in (TableName("a  ->  b", "t"), TableName("x", "y"), TableName("a  ->  b", "")):
        assert again.target(name) == naming.target(name) != name


@pytest.mark.parametrize(
    ("route", "target", "databases"),
    [
        ("y.* -> y.*", "x.a", {"x"}),
        ("x1.* -> rr.x1_*", "rr.x1_a", {"x1"}),
        ("x1.* -> rr.x1_*", "rr.a", {"rr"}),
        ("x1.* -> rr.x1_*", "x1.a", set()),
        ("x1.a -> x1.b", "x1.b", {"x1"}),
        ("x*.* -> rr_*.t_*", "rr_7.t_a", {"x7"}),
        ("x*.* -> rr.*_*", "rr.7_a_a", {"x7_a"}),
        ("x*.a -> rr.a merge _source", "rr.a", {"x*", "rr"}),
    ],
)
def test_the_databases_whose_table_gets_a_name_of_the_target(route: str, target: str, databases: set[str]) -> None:
    found = naming_of(routes_of([route])).databases("A", TableName(*target.split(".")))
    assert set(found) == databases
