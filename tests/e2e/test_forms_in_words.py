"""Forms by the command line: the examples of docs/shaping.md, and what commands print."""

from __future__ import annotations

import re
from pathlib import Path

import duckdb
import pytest

from tests.e2e.test_forms_by_hand import MS, first_rows, line
from tests.servers import MariaDb
from tests.support.command_line import CommandLine
from tests.support.feed import Feed

DOCS = (
    (Path(__file__).parents[2] / "docs" / "shaping.md")
    .read_text(encoding="utf-8")
    .partition("\n## Forms\n")[2]
    .partition("\n## ")[0]
)
VERSIONS = [(1, 10, 12, 0), (2, 11, None, 1)]
"""The key, when it came and when it went in milliseconds, and whether it is current."""
NOW = "2024-05-01 00:00:00"


@pytest.fixture
def feed(tmp_path: Path) -> Feed:
    """The tables of the docs' example, and one without a key."""
    feed = Feed(tmp_path / "cdc")
    feed.database("shop", MS)
    for table in ("orders", "items", "prices", "tmp_a"):
        feed.create(f"shop.{table}", 2 * MS)
        changes = line(10, "INSERT", 1, "1") + line(11, "INSERT", 2, "2") + line(12, "DELETE", 1, "1")
        named = changes.replace(b'"database":"d","table":"t"', b'"database":"shop","table":"%s"' % table.encode())
        feed.file(f"shop.{table}", 2 * MS, named)
    feed.checkpoint(20 * MS)
    return feed


def test_the_examples_of_the_docs(
    cli: CommandLine, feed: Feed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "c.toml").write_text(re.findall(r"```toml\n(.*?)```", DOCS, re.DOTALL)[0], encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    upstream = ("--tz", "UTC", "--upstream-uri", f"file://{feed.folder}?protocol=canal-json")
    done = cli.raw("once", "--config", "c.toml", *upstream)
    assert done.code == 0, done.err
    present, at_a_time = re.findall(r"```sql\n(.*?)```", DOCS, re.DOTALL)
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
    flags = [word for flag in re.findall(r"--table-mode '([^']+)'", DOCS) for word in ("--table-mode", flag)]
    assert cli.raw("once", *upstream, "--downstream-uri", "duckdb:///other.duckdb", *flags).code == 0
    with duckdb.connect("other.duckdb") as connection:
        assert connection.execute("SELECT _op FROM shop.orders ORDER BY _commit_ts").fetchall() == [
            ("I",),
            ("I",),
            ("D",),
        ]
        assert len(connection.execute("SELECT _deleted_at FROM shop.tmp_a").fetchall()) == 2


def test_the_queries_of_the_docs_on_a_server(cli: CommandLine, feed: Feed, fresh_mariadb: MariaDb) -> None:
    upstream = ("--tz", "UTC", "--upstream-uri", f"file://{feed.folder}?protocol=canal-json")
    forms = ("--table-mode", "shop.orders = append", "--table-mode", "shop.prices = history")
    flags = ("--downstream-uri", fresh_mariadb.url(), *forms)
    assert cli.raw("once", *upstream, *flags).code == 0
    present, at_a_time = re.findall(r"```sql\n(.*?)```", DOCS, re.DOTALL)
    assert fresh_mariadb.execute(present) == [(2, 2, "I", 11 * MS, "shop.orders", 2 * MS, 1)]
    assert [row[0] for row in fresh_mariadb.execute(at_a_time)] == [2]
    assert len(fresh_mariadb.execute(at_a_time.replace(NOW, "1970-01-01 00:00:00.011"))) == 2


def test_plan_shows_forms_and_verify_compares_them(cli: CommandLine, tmp_path: Path) -> None:
    feed = Feed(tmp_path / "cdc")
    feed.database("d", MS)
    first_rows(feed)
    feed.checkpoint(20 * MS)
    flags = (
        "--tz",
        "UTC",
        "--upstream-uri",
        f"file://{feed.folder}?protocol=canal-json",
        "--downstream-uri",
        cli.target,
    )
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
    assert (compared.code, "1 of 1 tables are equal, compared whole" in compared.out) == (0, True), compared.out
    assert cli.raw("resync", *flags, *form, "--table", "d.t").code == 0
    with duckdb.connect(cli.target.removeprefix("duckdb:///")) as connection:
        assert connection.execute("SELECT count(*) FROM d.t").fetchall() == [(13,)]
    left = cli.raw("once", *flags)
    assert left.code == 2
    assert "d.t is of the form append in the target, and the settings say a mirror" in left.err
