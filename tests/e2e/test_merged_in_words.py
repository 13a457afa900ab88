"""Merged tables by the command line: the example of docs/shaping.md, and what commands print."""

from __future__ import annotations

import re
from pathlib import Path

import duckdb
import pytest

from tests.support.command_line import CommandLine
from tests.support.feed import Feed

DOCS = (
    (Path(__file__).parents[2] / "docs" / "shaping.md")
    .read_text(encoding="utf-8")
    .partition("\n## Merged tables\n")[2]
    .partition("\n## ")[0]
)


@pytest.fixture
def feed(tmp_path: Path) -> Feed:
    """The rows of the docs' table, in two shards, and their logs."""
    feed, version = Feed(tmp_path / "cdc"), 1
    told = re.findall(r"^\| `(\S+)`: (.*?) \|", DOCS, re.MULTILINE)
    assert len(told) == 2
    for table, rows in told:
        feed.database(table.partition(".")[0], version)
        found = [(int(key), v) for key, v in re.findall(r"\((\d+), (\d+)\)", rows)]
        for name in (table, table.replace("orders", "log_a")):
            version += 1
            feed.create(name, version)
            feed.puts(name, version, {20 + key: (key, v) for key, v in found})
        version += 1
    feed.checkpoint(50)
    return feed


def test_the_example_of_the_docs(cli: CommandLine, feed: Feed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "c.toml").write_text(re.findall(r"```toml\n(.*?)```", DOCS, re.DOTALL)[0], encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    upstream = ("--tz", "UTC", "--upstream-uri", f"file://{feed.folder}?protocol=canal-json")
    done = cli.raw("once", "--config", "c.toml", *upstream)
    assert done.code == 0, done.err
    flags = [word for flag in re.findall(r"--route '([^']+)'", " ".join(DOCS.split())) for word in ("--route", flag)]
    assert len(flags) == 4
    assert cli.raw("once", *upstream, "--downstream-uri", "duckdb:///other.duckdb", *flags).code == 0
    told = re.findall(r"\('(\S+)', (\d+), (\d+)\)", DOCS)
    for file in ("replica.duckdb", "other.duckdb"):
        with duckdb.connect(file) as connection:
            for table, column in (("orders", "_source"), ("log_a", "shard")):
                found = connection.execute(f"SELECT {column}, id, v FROM shop.{table} ORDER BY ALL").fetchall()
                assert found == [(source.replace("orders", table), int(key), int(v)) for source, key, v in told]


def test_plan_shows_what_is_merged(cli: CommandLine, feed: Feed) -> None:
    flags = ("--tz", "UTC", "--upstream-uri", f"file://{feed.folder}?protocol=canal-json")
    route = ("--downstream-uri", cli.target, "--route", "shard_*.orders -> shop.orders merge origin")
    planned = cli.raw("plan", *flags, *route)
    assert planned.code == 0, planned.err
    for number, version in ((1, 2), (2, 5)):
        assert (
            f"DDL   shard_{number}.orders -> shop.orders, merge (_source as origin): version {version}" in planned.out
        )
        assert f"load  shard_{number}.orders -> shop.orders, merge (_source as origin): 1 file" in planned.out
    assert 'CREATE TABLE "shop"."orders" ("origin" VARCHAR' in planned.out
    done = cli.raw("once", *flags, *route)
    assert "shard_1.orders -> shop.orders" in done.out
    compared = cli.raw("verify", *flags, *route)
    assert (compared.code, "4 of 4 tables are equal, compared whole" in compared.out) == (0, True), compared.out
    left = cli.raw("once", *flags, "--downstream-uri", cli.target, "--route", "shard_1.* -> other.*")
    assert left.code == 2
    assert "--route 'shard_*.orders -> shop.orders merge origin'" in left.err


@pytest.mark.parametrize(
    ("route", "why"),
    [
        ("a*.t -> x.t merge", "is not a route"),
        ("a*.t -> x.t merge _*", r"has a \* in the name"),
        ("a*.t -> x.t_* merge c", "stands for nothing in the same part"),
        ("a*.t -> x.t", "as in 'a*.t -> x.t merge _source'"),
        (f"a*.t -> x.t merge {'c' * 65}", "has 1 to 64 characters"),
    ],
)
def test_what_is_no_route_that_merges_is_refused(cli: CommandLine, feed: Feed, route: str, why: str) -> None:
    left = cli.raw("once", "--upstream-uri", f"file://{feed.folder}?protocol=canal-json", "--route", route)
    assert (left.code, why.replace("\\", "") in left.err) == (2, True), left.err


def test_a_rule_about_forms_and_one_that_merges_exclude_one_another(cli: CommandLine, feed: Feed) -> None:
    flags = ("--tz", "UTC", "--upstream-uri", f"file://{feed.folder}?protocol=canal-json")
    route = ("--route", "shard_*.orders -> shop.orders merge origin", "--table-mode", "*.orders = append")
    left = cli.raw("once", *flags, *route, "--downstream-uri", cli.target)
    assert left.code == 2
    assert "a route merges shard_1.orders with others, and a rule gives it the form append" in left.err
    assert "leave it out of the route, or out of the rules of [[consumer.table-modes]]" in left.err
    assert cli.raw("once", *flags, *route[:2], "--downstream-uri", cli.target).code == 0
