"""What commands print of names, merged tables, table modes, filters and masks: the examples of docs/shaping.md."""

from __future__ import annotations

import hmac
import re
from pathlib import Path

import duckdb
import pytest

from consumer.model.actions import Action
from consumer.model.columns import Column
from tests.e2e.test_forms_by_hand import MS, first_rows
from tests.e2e.test_forms_by_hand import line as change
from tests.servers import MariaDb
from tests.support.build import ID, VALUE
from tests.support.canal_json import typed_line
from tests.support.command_line import CommandLine
from tests.support.feed import Feed
from tests.support.shop import Shop

DOCS = (Path(__file__).parents[2] / "docs" / "shaping.md").read_text(encoding="utf-8")
MODES, MERGED = (
    DOCS.partition(f"\n## {title}\n")[2].partition("\n## ")[0] for title in ("Table modes", "Merged tables")
)
NAMES = DOCS.partition("\n## Merged tables")[0]
_STEP = re.compile(r"\| (INSERT|UPDATE|DELETE) ([^|]+) \|([^|]*)\|([^|]*)\|")
_PAIR = re.compile(r"\((\d), (\d)\)")
_ROW = re.compile(r"\| (database )?`([^`]+)` \| `([^`]+)` \|")
TABLES = ("shop.orders", "shop.logs")
SECOND = ("--name", "second")


def example(folder: Path, monkeypatch: pytest.MonkeyPatch, text: str, part: str = "") -> None:
    """The first file of `text` that has `part`, as ``c.toml`` in `folder`, where the program runs."""
    found = next(block for block in re.findall(r"```toml\n(.*?)```", text, re.DOTALL) if part in block)
    (folder / "c.toml").write_text(found, encoding="utf-8")
    monkeypatch.chdir(folder)


def flags_of(feed: Feed) -> tuple[str, ...]:
    return "--tz", "UTC", "--upstream-uri", f"file://{feed.folder}?protocol=canal-json"


def test_the_routes_of_the_docs(cli: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows: dict[bool, dict[str, str]] = {False: {}, True: {}}
    for database, name, target in _ROW.findall(NAMES):
        rows[bool(database)][name] = target
    assert (len(rows[False]), len(rows[True])) == (4, 2)
    feed = Feed(tmp_path / "cdc")
    for version, database in enumerate(dict.fromkeys(name.partition(".")[0] for name in rows[False]), 1):
        feed.database(database, version)
    for version, table in enumerate(rows[False], 10):
        feed.create(table, version)
        feed.puts(table, version, {20 + version: (version, "7")})
    feed.checkpoint(50)
    example(tmp_path, monkeypatch, NAMES)
    once = ("once", "--config", "c.toml", *flags_of(feed))
    done = cli.raw(*once)
    assert done.code == 0, done.err
    flags = re.findall(r"--route '([^']+)'", " ".join(NAMES.split()))
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
    assert "--accept-gap-in" in left.err
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


@pytest.fixture
def shards(tmp_path: Path) -> Feed:
    """The rows of the docs' table, in two shards, and their logs."""
    feed, version = Feed(tmp_path / "cdc"), 1
    told = re.findall(r"^\| `(\S+)`: (.*?) \|", MERGED, re.MULTILINE)
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


def test_the_merged_tables_of_the_docs(
    cli: CommandLine, shards: Feed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    example(tmp_path, monkeypatch, MERGED)
    upstream = flags_of(shards)
    done = cli.raw("once", "--config", "c.toml", *upstream)
    assert done.code == 0, done.err
    flags = [word for flag in re.findall(r"--route '([^']+)'", " ".join(MERGED.split())) for word in ("--route", flag)]
    assert len(flags) == 4
    assert cli.raw("once", *upstream, "--downstream-uri", "duckdb:///other.duckdb", *flags).code == 0
    told = re.findall(r"\('(\S+)', (\d+), (\d+)\)", MERGED)
    for file in ("replica.duckdb", "other.duckdb"):
        with duckdb.connect(file) as connection:
            for table, column in (("orders", "_source"), ("log_a", "shard")):
                found = connection.execute(f"SELECT {column}, id, v FROM shop.{table} ORDER BY ALL").fetchall()
                assert found == [(source.replace("orders", table), int(key), int(v)) for source, key, v in told]


def test_plan_shows_what_is_merged(cli: CommandLine, shards: Feed) -> None:
    flags = flags_of(shards)
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
def test_what_is_no_route_that_merges_is_refused(cli: CommandLine, shards: Feed, route: str, why: str) -> None:
    left = cli.raw("once", "--upstream-uri", f"file://{shards.folder}?protocol=canal-json", "--route", route)
    assert (left.code, why.replace("\\", "") in left.err) == (2, True), left.err


def test_a_rule_about_forms_and_one_that_merges_exclude_one_another(cli: CommandLine, shards: Feed) -> None:
    flags = flags_of(shards)
    route = ("--route", "shard_*.orders -> shop.orders merge origin", "--table-mode", "*.orders = append")
    left = cli.raw("once", *flags, *route, "--downstream-uri", cli.target)
    assert left.code == 2
    assert "shard_1.orders: a route merges it with others, and a rule gives it the table mode append" in left.err
    assert "leave it out of the route, or out of the rules of [[consumer.table-modes]]" in left.err
    assert cli.raw("once", *flags, *route[:2], "--downstream-uri", cli.target).code == 0


VERSIONS = [(1, 10, 12, 0), (2, 11, None, 1)]
"""The key, when it came and when it went in milliseconds, and whether it is current."""
NOW = "2024-05-01 00:00:00"


@pytest.fixture
def moded(tmp_path: Path) -> Feed:
    """The tables of the docs' example, and one without a key."""
    feed = Feed(tmp_path / "cdc")
    feed.database("shop", MS)
    for table in ("orders", "items", "prices", "tmp_a"):
        feed.create(f"shop.{table}", 2 * MS)
        changes = change(10, "INSERT", 1, "1") + change(11, "INSERT", 2, "2") + change(12, "DELETE", 1, "1")
        named = changes.replace(b'"database":"d","table":"t"', b'"database":"shop","table":"%s"' % table.encode())
        feed.file(f"shop.{table}", 2 * MS, named)
    feed.checkpoint(20 * MS)
    return feed


def test_the_table_modes_of_the_docs(
    cli: CommandLine, moded: Feed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    example(tmp_path, monkeypatch, MODES)
    upstream = flags_of(moded)
    done = cli.raw("once", "--config", "c.toml", *upstream)
    assert done.code == 0, done.err
    present, at_a_time = re.findall(r"```sql\n(.*?)```", MODES, re.DOTALL)
    with duckdb.connect("replica.duckdb") as connection:
        assert connection.execute(present).fetchall() == [(2, 2, "I", 11 * MS, "shop.orders", 2 * MS, 1)]
        assert len(connection.execute("SELECT * FROM shop.orders").fetchall()) == 3
        told = "SELECT id, epoch_ms(_valid_from), epoch_ms(_valid_to), _is_current FROM shop.prices ORDER BY id"
        assert connection.execute(told).fetchall() == VERSIONS
        for time, ids in ((NOW, [2]), ("1970-01-01 00:00:00.011", [1, 2]), ("1970-01-01 00:00:00.010", [1])):
            rows = connection.execute(at_a_time.replace(NOW, time)).fetchall()
            assert sorted(row[0] for row in rows) == ids
        ended = connection.execute("SELECT id, epoch_ms(ended) FROM shop.items ORDER BY id").fetchall()
        assert ended == [(1, 12), (2, None)]
        assert connection.execute("SELECT * FROM shop.tmp_a").fetchall() == [(2, 2)]
    flags = [word for flag in re.findall(r"--table-mode '([^']+)'", MODES) for word in ("--table-mode", flag)]
    assert cli.raw("once", *upstream, "--downstream-uri", "duckdb:///other.duckdb", *flags).code == 0
    with duckdb.connect("other.duckdb") as connection:
        assert connection.execute("SELECT _op FROM shop.orders ORDER BY _commit_ts").fetchall() == [
            ("I",),
            ("I",),
            ("D",),
        ]
        assert len(connection.execute("SELECT _deleted_at FROM shop.tmp_a").fetchall()) == 2


def test_the_queries_of_the_docs_on_a_server(cli: CommandLine, moded: Feed, fresh_mariadb: MariaDb) -> None:
    upstream = flags_of(moded)
    forms = ("--table-mode", "shop.orders = append", "--table-mode", "shop.prices = history")
    flags = ("--downstream-uri", fresh_mariadb.url(), *forms)
    assert cli.raw("once", *upstream, *flags).code == 0
    present, at_a_time = re.findall(r"```sql\n(.*?)```", MODES, re.DOTALL)
    assert fresh_mariadb.execute(present) == [(2, 2, "I", 11 * MS, "shop.orders", 2 * MS, 1)]
    assert [row[0] for row in fresh_mariadb.execute(at_a_time)] == [2]
    assert len(fresh_mariadb.execute(at_a_time.replace(NOW, "1970-01-01 00:00:00.011"))) == 2


def test_plan_shows_forms_and_verify_compares_them(cli: CommandLine, tmp_path: Path) -> None:
    feed = Feed(tmp_path / "cdc")
    feed.database("d", MS)
    first_rows(feed)
    feed.checkpoint(20 * MS)
    flags = (*flags_of(feed), "--downstream-uri", cli.target)
    form = ("--table-mode", "d.* = append")
    planned = cli.raw("plan", *flags, *form)
    assert f"DDL   d.t, append: version {2 * MS}" in planned.out
    assert '"_op" VARCHAR' in planned.out
    assert "load  d.t, append: 2 files" in planned.out
    assert {
        step["mode"] for step in cli.raw("plan", *flags, *form, "--json").json["steps"] if step["table"] == "d.t"
    } == {"append"}
    assert cli.raw("once", *flags, *form).code == 0
    compared = cli.raw("verify", *flags, *form)
    assert (compared.code, "1 of 1 table is equal, compared whole" in compared.out) == (0, True), compared.out
    assert cli.raw("resync", *flags, *form, "--table", "d.t").code == 0
    with duckdb.connect(cli.target.removeprefix("duckdb:///")) as connection:
        assert connection.execute("SELECT count(*) FROM d.t").fetchall() == [(13,)]
    left = cli.raw("once", *flags)
    assert left.code == 2
    assert "d.t is of the table mode append in the target, and the settings say a mirror" in left.err


def line(table: str, kind: str, pairs: list[tuple[str, str]], ts: int) -> bytes:
    old, new = ({"id": pair[0], "v": pair[1]} for pair in (pairs[0], pairs[-1]))
    database, _, name = table.partition(".")
    was = [old] if len(pairs) > 1 else None
    return typed_line((ID, VALUE), ts, new, kind, old=was, database=database, table=name)


def test_the_filters_of_the_docs(cli: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    example(tmp_path, monkeypatch, DOCS, "[[consumer.rows]]")
    feed = Feed(tmp_path / "cdc")
    feed.database("shop", 1)
    for version, table in enumerate(TABLES, 2):
        feed.create(table, version)
    run = ("--config", "c.toml", *flags_of(feed))
    steps = _STEP.findall(DOCS)
    assert len(steps) == 5
    for ts, (kind, rows, *expected) in enumerate(steps, 10):
        for version, table in enumerate(TABLES, 2):
            feed.file(table, version, line(table, kind, _PAIR.findall(rows), ts))
        feed.checkpoint(ts)
        planned = cli.raw("plan", *run)
        assert "shop.orders: only rows with v > 5" in planned.out + planned.err
        assert "shop.logs: drops INSERT with v <= 5; drops UPDATE to a row with v <= 5" in planned.out + planned.err
        done = cli.raw("once", *run)
        assert done.code == 0, done.err
        with duckdb.connect("replica.duckdb") as connection:
            for table, cell in zip(TABLES, expected, strict=True):
                there = connection.execute(f"SELECT id, v FROM {table} ORDER BY id").fetchall()
                assert there == [(int(key), int(v)) for key, v in _PAIR.findall(cell)], (kind, rows, table)
    assert cli.raw("verify", *run).code == 0
    feed.truncate("shop.logs", 20)
    feed.checkpoint(30)
    assert cli.raw("once", *run).code == 0
    with duckdb.connect("replica.duckdb") as connection:
        assert connection.execute("SELECT id, v FROM shop.logs").fetchall() == [(2, 7)]


def test_the_masks_of_the_docs(cli: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    example(tmp_path, monkeypatch, DOCS, "[[consumer.masks]]")
    rows = re.findall(r"\| `(\w+)` \| `([^`]+)` \| (?:`([^`]+)`|NULL) \| `\w+`", DOCS)
    assert len(rows) == 4
    columns = (
        Column("mail", "VARCHAR", length=99, nullable=False, is_pk=True),
        *(Column(name, "VARCHAR", length=20) for name, *_ in rows),
    )
    feed = Feed(tmp_path / "cdc")
    feed.database("shop", 1)
    own = ", ".join(f"`{name}` VARCHAR(20)" for name, *_ in rows)
    create = f"CREATE TABLE `people` (`mail` VARCHAR(99) PRIMARY KEY, {own})"
    feed.statement("shop.people", 2, Action.CREATE_TABLE, create, columns)
    values = {"mail": "ana@x.org", **{name: value for name, value, _ in rows}}
    feed.file("shop.people", 2, typed_line(columns, 10, values, database="shop", table="people"))
    feed.checkpoint(20)
    monkeypatch.setenv("MASK_KEY", "a key of the operator")
    run = ("--config", "c.toml", *flags_of(feed))
    assert cli.raw("once", *run).code == 0
    assert cli.raw("verify", *run).code == 0
    names = ", ".join(name for name, *_ in rows)
    with duckdb.connect("replica.duckdb") as connection:
        [(mail, *there)] = connection.execute(f"SELECT mail, {names} FROM shop.people").fetchall()
    assert mail == hmac.new(b"a key of the operator", b"ana@x.org", "sha256").hexdigest()
    assert there == [expected or None for *_, expected in rows]
