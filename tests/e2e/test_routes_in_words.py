"""Routes by the command line: the example of docs/shaping.md, what commands print, two consumers of one target."""

from __future__ import annotations

import re
from pathlib import Path

import duckdb
import pytest

from tests.servers import MariaDb
from tests.support.command_line import CommandLine
from tests.support.feed import Feed
from tests.support.shop import Shop

DOCS = Path(__file__).parents[2] / "docs" / "shaping.md"
_ROW = re.compile(r"\| (database )?`([^`]+)` \| `([^`]+)` \|")
SECOND = ("--name", "second")


def test_the_example_of_the_docs(cli: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = DOCS.read_text(encoding="utf-8").partition("\n## Merged tables")[0]
    rows: dict[bool, dict[str, str]] = {False: {}, True: {}}
    for database, name, target in _ROW.findall(text):
        rows[bool(database)][name] = target
    assert (len(rows[False]), len(rows[True])) == (4, 2)
    feed = Feed(tmp_path / "cdc")
    for version, database in enumerate(dict.fromkeys(name.partition(".")[0] for name in rows[False]), 1):
        feed.database(database, version)
    for version, table in enumerate(rows[False], 10):
        feed.create(table, version)
        feed.puts(table, version, {20 + version: (version, "7")})
    feed.checkpoint(50)
    (tmp_path / "c.toml").write_text(re.findall(r"```toml\n(.*?)```", text, re.DOTALL)[0], encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    once = ("once", "--config", "c.toml", "--tz", "UTC", "--upstream-uri", f"file://{feed.folder}?protocol=canal-json")
    done = cli.raw(*once)
    assert done.code == 0, done.err
    flags = re.findall(r"--route '([^']+)'", " ".join(text.split()))
    assert cli.raw(*once, *(word for flag in flags for word in ("--route", flag))).code == 0
    with duckdb.connect("replica.duckdb") as connection:
        found = connection.execute("SELECT schema_name, table_name FROM duckdb_tables()").fetchall()
        schemas = {schema for (schema,) in connection.execute("SELECT schema_name FROM duckdb_schemas()").fetchall()}
        assert {f"{s}.{t}" for s, t in found if s != "storage_consumer"} == set(rows[False].values())
        assert set(rows[True].values()) <= schemas
        for version, target in enumerate(rows[False].values(), 10):
            assert connection.execute(f"SELECT id FROM {target}").fetchall() == [(version,)]


def test_results_name_upstreams_table_and_the_targets(shop: Shop) -> None:
    route = ("--route", "`d`.* -> e.*", "--downstream-uri", f"{shop.cli.target}.other")
    planned = shop.run("plan", *route)
    for line in ("DDL   d -> e: version 1", "DDL   d.it's -> e.it's: version 2", "load  d.it's -> e.it's: 1 file"):
        assert line in planned.out
    assert 'target: CREATE SCHEMA IF NOT EXISTS "e"\n' in planned.out
    assert "d.it's -> e.it's" in shop.run("once", *route).out
    assert "d.it's -> e.it's" in shop.run("verify", *route).out
    table = shop.run("verify", *route, "--json").json["tables"]["d.it's"]
    assert (table["state"], table["target_table"]) == ("equal", "e.it's")
    shop.feed.damaged("d.it's", 2)
    left = shop.once(20, *route)
    assert left.code == 3
    assert shop.run("status", *route, "--json").json["tables"]["d.it's"]["target_table"] == "e.it's"
    assert "resync --table" in left.err
    assert "--route '`d`.* -> e.*'" in left.err


def test_a_table_that_another_consumer_keeps_under_that_name_is_refused(shop: Shop, fresh_mariadb: MariaDb) -> None:
    other = Feed(shop.feed.folder.parent / "other")
    other.database("e", 1)
    for version, name in enumerate(("e.t", "e.u"), 2):
        other.create(name, version)
        other.puts(name, version, {10: (7, "7")})
    other.checkpoint(15)
    for target in (shop.cli.target + ".other", fresh_mariadb.url()):
        to = ("--downstream-uri", target)
        assert shop.once(15, *to, "--route", "d.`it's` -> e.T").code == 0
        second = (*to, *SECOND, "--upstream-uri", f"file://{other.folder}?protocol=canal-json")
        left = shop.run("once", *second, "--route", "e.t -> e.T")
        why = "e.T (upstream's e.t) belongs to the consumer 'default' of this target"
        assert (left.code, why in left.err) == (5, True), left.err
        assert shop.run("once", *second, "--route", "e.t -> d.`it's`").code == 0, "only the target's name is taken"
    assert fresh_mariadb.execute("SELECT * FROM e.T") == [(1, 1), (2, 2)]
    assert fresh_mariadb.execute("SELECT * FROM d.`it's`") == [(7, 7)]
