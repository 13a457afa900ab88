"""The whole program on emulators of Google Cloud Storage and Azure, equal to the same files in a folder."""

from __future__ import annotations

import json
from pathlib import Path
from urllib.parse import quote

import pytest

from tests.cloud_servers import AzureServer, CloudServer, GcsServer
from tests.support.command_line import DEMO, DEMO_TABLES, CommandLine, Left, command_line, duckdb_tables


@pytest.fixture
def line(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> CommandLine:
    return command_line(tmp_path, capsys, monkeypatch)


def filled(cloud: CloudServer) -> str:
    """The URI of the demo changefeed in this cloud."""
    for path in DEMO.rglob("*"):
        if path.is_file():
            cloud.put(f"demo/{path.relative_to(DEMO).as_posix()}", path.read_bytes())
    return cloud.uri("demo")


def applied(summary: Left) -> dict[str, dict[str, object]]:
    """What was done to each table, without how long it took."""
    tables = summary.json["tables"].items()
    return {name: {key: told for key, told in table.items() if not key.endswith("seconds")} for name, table in tables}


def test_all_of_it_arrives_once(line: CommandLine, cloud: CloudServer) -> None:
    uri = filled(cloud)
    first = line.run("once", "--upstream-uri", uri, "--json")
    assert first.code == 0, first.err
    assert duckdb_tables(line.target) == DEMO_TABLES
    second = line.run("once", "--upstream-uri", uri, "--json")
    assert (second.code, sum(table["rows"] for table in second.json["tables"].values())) == (0, 0)
    beside = f"duckdb:///{line.storage.parent}/beside.duckdb"
    from_folder = line.run("once", "--downstream-uri", beside, "--json")
    assert duckdb_tables(beside) == duckdb_tables(line.target)
    assert applied(first) == applied(from_folder)


def test_a_bucket_that_is_not_there_is_for_later(line: CommandLine, cloud: CloudServer) -> None:
    for more in ((), ("--checkpoint-ts", "max")):
        left = line.run("once", "--upstream-uri", cloud.uri("demo", bucket="elsewhere"), *more)
        assert left.code == 4
        assert "://elsewhere/demo" in left.err
        assert ": it is not there" in left.err
        assert AzureServer.KEY not in left.err + left.out


def test_a_storage_without_metadata_is_for_later(line: CommandLine, cloud: CloudServer) -> None:
    left = line.run("once", "--upstream-uri", cloud.uri("empty"))
    assert left.code == 4
    assert "there is no file metadata in" in left.err


def test_logins_of_azure(line: CommandLine, azure: AzureServer) -> None:
    filled(azure)
    account = f"account-name={azure.ACCOUNT}"
    sas = azure.sas_token()
    assert (
        line.run("once", "--upstream-uri", azure.uri("demo", login=f"{account}&sas-token={quote(sas, safe='')}")).code
        == 0
    )
    assert duckdb_tables(line.target) == DEMO_TABLES
    other = quote(azure.OTHER_KEY, safe="")
    for login, code, sentence in (
        (f"{account}&account-key={other}", 4, "access is denied (AuthorizationFailure)"),
        (f"{account}&account-key=x!", 2, "cannot read file azblob://ticdc/demo/metadata"),
        (f"account-key={other}", 2, "need account-name"),
    ):
        left = line.run("once", "--upstream-uri", azure.uri("demo", login=login))
        assert left.code == code, left.err
        assert sentence in left.err
        assert not any(secret in left.err + left.out for secret in (azure.OTHER_KEY, other, "x!"))


def test_logins_of_google(line: CommandLine, gcs: GcsServer, tmp_path: Path) -> None:
    file = tmp_path / "login.json"
    for content, sentence in (
        (None, "the file that credentials-file of the upstream URI names is not there"),
        ("{", "the login in the upstream URI of gcs://ticdc/demo cannot be used"),
        (json.dumps({"private_key": "s3cr3t"}), "the login in the upstream URI of gcs://ticdc/demo cannot be used"),
    ):
        if content is not None:
            file.write_text(content)
        left = line.run("once", "--upstream-uri", gcs.uri("demo", login=f"credentials-file={file}"))
        assert left.code == 2, left.err
        assert sentence in left.err
        assert "s3cr3t" not in left.err + left.out
