"""The whole program on a real S3 server, with credentials that may only read, over a network that fails at times."""

from __future__ import annotations

import random
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import botocore.auth
import duckdb
import pytest
from pyspark.sql.datasource import Filter, GreaterThan

from tests.fault_proxy import FAULTS, FaultProxy
from tests.s3_server import READER, S3Server
from tests.support.command_line import DEMO, DEMO_TABLES, T_CREATED, CommandLine, duckdb_tables
from tests.support.export import Export
from tests.support.spark_source import planned, read


@pytest.fixture
def proxy(s3_server: S3Server) -> Iterator[FaultProxy]:
    s3_server.put_directory(DEMO, "demo")
    with FaultProxy(s3_server.port) as proxy:
        yield proxy


def test_all_of_it_arrives_over_a_bad_network(cli: CommandLine, s3_server: S3Server, proxy: FaultProxy) -> None:
    rnd = random.Random(11)
    proxy.fault = lambda method, path: rnd.choice(FAULTS) if rnd.random() < 0.2 else None
    uri = s3_server.uri("demo", endpoint=proxy.endpoint)
    assert cli.run("once", "--upstream-uri", uri).code == 0
    assert duckdb_tables(cli.target) == DEMO_TABLES


def test_a_second_run_reads_no_data_file(cli: CommandLine, s3_server: S3Server, proxy: FaultProxy) -> None:
    uri = s3_server.uri("demo", endpoint=proxy.endpoint)
    assert cli.run("once", "--upstream-uri", uri).code == 0
    proxy.requests.clear()
    left = cli.run("once", "--upstream-uri", uri, "--json")
    assert (left.code, sum(table["rows"] for table in left.json["tables"].values())) == (0, 0)
    assert proxy.listings == 1
    assert not [path for _, path, _ in proxy.requests if "/CDC" in path]


def test_a_data_source_reads_it_and_leaves_files_out(s3_server: S3Server, proxy: FaultProxy) -> None:
    uri = s3_server.uri("demo", endpoint=proxy.endpoint)
    assert read(uri, table="du.t").num_rows == 24
    assert read(uri, table="du.t", mode="state").num_rows == 7

    def files(*filters: Filter) -> set[str]:
        reader, pieces = planned(uri, filters, table="du.t", partition_bytes="1B")
        proxy.requests.clear()
        for piece in pieces:
            list(reader.read(piece))
        return {path.partition("?")[0] for _, path, _ in proxy.requests if "/CDC" in path}

    assert len(files()) == 12
    assert len(files(GreaterThan(("_commit_ts",), 470611621546557439))) < 12


def test_a_storage_that_stays_away_is_for_later(cli: CommandLine, s3_server: S3Server, proxy: FaultProxy) -> None:
    uri = s3_server.uri("demo", endpoint=proxy.endpoint)
    proxy.fault = lambda method, path: "busy" if "list-type=2" in path else None
    left = cli.run("once", "--upstream-uri", uri)
    assert left.code == 4
    assert "cannot read the storage s3://ticdc/demo: the storage is too busy (SlowDown)" in left.err
    assert not any(secret in left.err + left.out for secret in READER)
    proxy.fault = lambda method, path: None
    assert cli.run("once", "--upstream-uri", uri).code == 0
    assert duckdb_tables(cli.target) == DEMO_TABLES


def test_a_clock_that_is_an_hour_off_is_named(
    cli: CommandLine, s3_server: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    s3_server.put_directory(DEMO, "demo")
    uri = s3_server.uri("demo")
    with monkeypatch.context() as hour_off:
        hour_off.setattr(botocore.auth, "get_current_datetime", lambda: datetime.now(UTC) + timedelta(hours=1))
        left = cli.run("once", "--upstream-uri", uri)
    assert left.code == 4
    assert "the clock of this machine is wrong (RequestTimeTooSkewed)" in left.err
    assert "set it (the storage takes requests of about the present only), then run again; nothing is lost" in left.err
    assert cli.run("once", "--upstream-uri", uri).code == 0
    assert duckdb_tables(cli.target) == DEMO_TABLES


def test_a_role_is_not_asked_for_and_its_keys_are_taken(cli: CommandLine, s3_server: S3Server) -> None:
    s3_server.put_directory(DEMO, "demo")
    uri = s3_server.uri("demo")
    left = cli.run("once", "--upstream-uri", f"{uri}&role-arn=arn:aws:iam::1:role/x")
    assert (left.code, "give access-key, secret-access-key and session-token" in left.err) == (2, True)
    assert "access-key=" in uri
    assert cli.run("once", "--upstream-uri", uri).code == 0


def test_an_export_is_loaded_over_a_bad_network(
    cli: CommandLine, s3_server: S3Server, proxy: FaultProxy, tmp_path: Path
) -> None:
    export = Export(tmp_path / "export", T_CREATED - 1, "csv", ".gz", rows_per_file=2)
    export.database("du")
    create = "CREATE TABLE `old` (`id` int NOT NULL,`v` varchar(9) DEFAULT NULL,PRIMARY KEY (`id`))"
    export.table("du", "old", create, ["id", "v"], [(1, "a"), (2, None), (3, "c")])
    s3_server.put_directory(export.finish(), "export")
    rnd = random.Random(12)
    proxy.fault = lambda method, path: rnd.choice(FAULTS) if rnd.random() < 0.2 else None
    uris = [s3_server.uri(folder, endpoint=proxy.endpoint) for folder in ("export", "demo")]
    left = cli.run("load-export", uris[0], "--upstream-uri", uris[1], "--accept-gap-in", "*.*")
    assert left.code == 0
    assert cli.run("once", "--upstream-uri", uris[1]).code == 0
    assert duckdb_tables(cli.target) == DEMO_TABLES
    with duckdb.connect(cli.target.removeprefix("duckdb:///")) as connection:
        assert connection.sql("FROM du.old ORDER BY id").fetchall() == [(1, "a"), (2, None), (3, "c")]
    left = cli.run("load-export", f"{uris[0].replace('/export', '/nowhere')}", "--upstream-uri", uris[1])
    assert (left.code, "has no `metadata`" in left.err) == (2, True)
    assert not any(secret in left.err + left.out for secret in READER)
