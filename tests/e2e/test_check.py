"""`check`: what a run would meet is said before it, a line each, with what to do. Nothing is changed."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from consumer.model.columns import Column
from tests.s3_server import S3Server
from tests.servers import MariaDb
from tests.support.command_line import Left
from tests.support.feed import VALUE
from tests.support.shop import Shop


def lines(left: Left) -> dict[tuple[str, str], list[str]]:
    """By what was looked at and the verdict: the texts, each with its fix."""
    found: dict[tuple[str, str], list[str]] = {}
    for line in left.json["lines"]:
        found.setdefault((line["about"], line["verdict"]), []).append(f"{line['text']} / {line['fix']}")
    return found


def failed(left: Left) -> Iterator[str]:
    assert left.code == left.json["exit_code"] == 5
    for (_, verdict), texts in lines(left).items():
        yield from texts if verdict == "fail" else ()


def test_a_storage_and_a_target_that_are_in_order(shop: Shop) -> None:
    left = shop.run("check", "--json")
    assert left.code == 0, left.out
    found = lines(left)
    assert not any(verdict == "fail" for _, verdict in found)
    good = {about for about, verdict in found if verdict == "ok"}
    assert {
        "storage",
        "changefeed",
        "tables",
        "time zone",
        "target",
        "progress",
        "plan",
        "collations",
        "java",
        "spark",
        "disk",
    } <= good


def test_a_stopped_table_is_looked_at_again(shop: Shop) -> None:
    """What was recorded is no forecast: a file that is mended stops nothing, one that is not stops it still."""
    damaged = shop.feed.puts("d.it's", 2, {21: (7, "7")})
    right = damaged.read_bytes()
    damaged.write_bytes(right[:-9])
    assert shop.once(30).code != 0
    (said,) = failed(shop.run("check", "--json"))
    assert "d.it's would stop: " in said
    assert damaged.name in said
    damaged.write_bytes(right)
    left = shop.run("check", "--json")
    assert left.code == 0, left.out
    (note,) = [text for text in lines(left)["plan", "warn"] if "d.it's stopped earlier" in text]
    assert damaged.name in note
    assert shop.once(30).code == 0
    assert shop.rows[-1] == (7, 7)


def test_so_is_one_that_the_target_did_not_take(shop: Shop) -> None:
    shop.by_hand("""ALTER TABLE d."it's" ALTER v TYPE TINYINT""")
    shop.feed.puts("d.it's", 2, {21: (7, "700")})
    assert shop.once(30).code != 0
    shop.by_hand("""ALTER TABLE d."it's" ALTER v TYPE INTEGER""")
    assert shop.run("check", "--json").code == 0
    assert shop.once(30).code == 0
    shop.by_hand("""ALTER TABLE d."it's" DROP COLUMN v""")
    shop.feed.puts("d.it's", 2, {31: (8, "8")})
    assert shop.once(40).code != 0
    (said,) = failed(shop.run("check", "--json"))
    assert "d.it's would stop: " in said


def test_nothing_is_changed(shop: Shop) -> None:
    shop.feed.puts("d.it's", 2, {21: (7, "7")})
    shop.feed.checkpoint(30)
    fresh = f"{shop.cli.target}.fresh"
    for target in (shop.cli.target, fresh):
        assert shop.run("check", "--downstream-uri", target).code == 0
    assert shop.rows == [(1, 1), (2, 2)]
    assert not os.path.exists(fresh.removeprefix("duckdb:///"))


def test_options_that_are_not_the_files(shop: Shop, tmp_path: Path) -> None:
    config = tmp_path / "changefeed.toml"
    config.write_text('[sink]\nprotocol = "canal-json"\nterminator = "\\n"\n', encoding="utf-8")
    (said,) = failed(shop.run("check", "--config", str(config), "--json"))
    assert said.startswith(
        "terminator is b'\\n' in the settings, and the files show b'\\r\\n' / write the changefeed's file"
    )
    assert "storage-consumer inspect --upstream-uri" in said


def test_tables_without_a_key_and_older_ones(shop: Shop) -> None:
    plain = (Column("id", "INT"), VALUE)
    shop.feed.describe("d.old", 3)
    shop.feed.describe("d.log", 3, plain)
    left = shop.run("check", "--json")
    found = lines(left)
    assert "1 table without a primary key: d.log;" in found["tables", "warn"][0]
    assert "2 tables are older than the changefeed, and not in the target: d.log, d.old" in found["tables", "warn"][1]


def test_a_table_that_would_stop(shop: Shop) -> None:
    shop.by_hand("""DROP TABLE d."it's" """)
    shop.feed.puts("d.it's", 2, {21: (7, "7")})
    shop.feed.checkpoint(30)
    (said,) = failed(shop.run("check", "--json"))
    assert "d.it's would stop" in said
    assert "resync" in said


def test_a_zone_that_is_not_the_replicas(shop: Shop) -> None:
    said = list(failed(shop.run("check", "--tz", "Europe/Berlin", "--json")))
    assert any("--tz is Europe/Berlin, but the replica of name" in text for text in said)


def test_a_storage_that_is_not_there(shop: Shop, tmp_path: Path) -> None:
    left = shop.run("check", "--upstream-uri", f"file://{tmp_path}/nowhere?protocol=canal-json", "--json")
    (said,) = failed(left)
    assert "it is not there / check the location in the upstream URI" in said
    assert ("target", "ok") in lines(left), "the rest is looked at all the same"


def test_a_bucket_that_is_not_there(shop: Shop, s3_server: S3Server) -> None:
    left = shop.run("check", "--upstream-uri", s3_server.uri("replayed", bucket="no-such-bucket"), "--json")
    (said,) = failed(left)
    assert "no-such-bucket" in said
    assert s3_server.uri("x").rpartition("secret-access-key=")[2] not in left.out


def test_a_user_without_rights(shop: Shop, fresh_mariadb: MariaDb) -> None:
    fresh_mariadb.execute(
        "CREATE USER reader IDENTIFIED BY 'password'",
        "GRANT SELECT, INSERT, UPDATE, DELETE, CREATE, DROP, ALTER ON d.* TO reader",
    )
    target = ("--downstream-uri", fresh_mariadb.url("reader", "password"))
    left = shop.run("check", *target, "--json")
    said = list(failed(left))
    assert "reader@% lacks INDEX, LOCK TABLES, REFERENCES, CREATE VIEW on d / GRANT" in said[0]
    assert "on storage_consumer" in said[1]
    fresh_mariadb.execute(*(text.rpartition(" / ")[2] for text in said))
    right = shop.run("check", *target, "--json")
    assert right.code == 0, right.out
    assert "reader@% has all that are needed" in lines(right)["rights", "ok"][0]
    assert lines(right)["server", "ok"][0].startswith("mariadb 10.11")
    assert fresh_mariadb.execute("SHOW DATABASES LIKE 'storage_consumer'") == []


def test_a_user_who_may_not_log_in(shop: Shop, fresh_mariadb: MariaDb) -> None:
    said = list(failed(shop.run("check", "--downstream-uri", fresh_mariadb.url("nobody", "secret-word"), "--json")))
    assert len(said) == 1
    assert "Access denied" in said[0]
    assert "secret-word" not in said[0]


def test_as_a_person_reads_it(shop: Shop) -> None:
    shown = shop.run("check").out
    assert "ok    java" in shown
    assert shown.rstrip().endswith(" 0 fail")


def test_a_read_only_server(shop: Shop, fresh_mariadb: MariaDb) -> None:
    fresh_mariadb.execute("SET GLOBAL read_only = 1")
    try:
        said = list(failed(shop.run("check", "--downstream-uri", fresh_mariadb.url(), "--json")))
    finally:
        fresh_mariadb.execute("SET GLOBAL read_only = 0")
    assert any("read_only is on" in text for text in said)


def test_tables_that_an_export_is_to_bring(shop: Shop) -> None:
    """Before it is loaded they are no failure, and once they are there nothing is said. `once` would stop at them."""
    shop.feed.describe("d.old", 3)
    shop.feed.puts("d.old", 3, {16: (3, "3")})
    fresh = ("--downstream-uri", f"{shop.cli.target}.fresh")
    left = shop.run("check", "--json", *fresh)
    (said,) = lines(left)["tables", "warn"]
    assert said.startswith(
        "1 table is older than the changefeed, and not in the target: d.old / load them from an export"
    )
    assert "storage-consumer load-export DIR" in said
    assert left.code == 0, left.out
    shop.feed.checkpoint(20)
    assert "d.old would stop: the target has no table d.old" in "".join(failed(shop.run("check", "--json")))
    shop.by_hand("CREATE TABLE d.old (id INT, v INT)")
    assert ("tables", "warn") not in lines(shop.run("check", "--json"))
