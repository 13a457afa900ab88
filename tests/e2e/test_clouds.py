"""The whole program on emulators of Google Cloud Storage and Azure, equal to the same files in a folder."""

from __future__ import annotations

import json
from pathlib import Path
from urllib.parse import quote

from tests.cloud_servers import AzureServer, CloudServer, GcsServer
from tests.support.command_line import DEMO, DEMO_TABLES, CommandLine, Left, duckdb_tables


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


def test_all_of_it_arrives_once(cli: CommandLine, cloud: CloudServer) -> None:
    uri = filled(cloud)
    first = cli.run("once", "--upstream-uri", uri, "--json")
    assert first.code == 0, first.err
    assert duckdb_tables(cli.target) == DEMO_TABLES
    second = cli.run("once", "--upstream-uri", uri, "--json")
    assert (second.code, sum(table["rows"] for table in second.json["tables"].values())) == (0, 0)
    beside = f"duckdb:///{cli.storage.parent}/beside.duckdb"
    from_folder = cli.run("once", "--downstream-uri", beside, "--json")
    assert duckdb_tables(beside) == duckdb_tables(cli.target)
    assert applied(first) == applied(from_folder)


def test_a_bucket_that_is_not_there(cli: CommandLine, cloud: CloudServer) -> None:
    for more in ((), ("--checkpoint-ts", "max")):
        left = cli.run("once", "--upstream-uri", cloud.uri("demo", bucket="elsewhere"), *more)
        assert left.code == (2 if isinstance(cloud, AzureServer) else 4)  # Google does not say what is not there
        assert "://elsewhere/demo" in left.err
        assert ": it is not there" in left.err
        assert AzureServer.KEY not in left.err + left.out


def test_a_storage_without_metadata_is_for_later(cli: CommandLine, cloud: CloudServer) -> None:
    left = cli.run("once", "--upstream-uri", cloud.uri("empty"))
    assert left.code == 4
    assert "there is no file metadata in" in left.err


def test_logins_of_azure(cli: CommandLine, azure: AzureServer) -> None:
    filled(azure)
    account = f"account-name={azure.ACCOUNT}"
    sas = azure.sas_token()
    assert (
        cli.run("once", "--upstream-uri", azure.uri("demo", login=f"{account}&sas-token={quote(sas, safe='')}")).code
        == 0
    )
    assert duckdb_tables(cli.target) == DEMO_TABLES
    other = quote(azure.OTHER_KEY, safe="")
    for login, code, sentence in (
        (f"{account}&account-key={other}", 4, "access is denied (AuthorizationFailure)"),
        (f"{account}&account-key=x!", 2, "cannot read file azblob://ticdc/demo/metadata"),
        (f"account-key={other}", 2, "need account-name"),
    ):
        left = cli.run("once", "--upstream-uri", azure.uri("demo", login=login))
        assert left.code == code, left.err
        assert sentence in left.err
        assert not any(secret in left.err + left.out for secret in (azure.OTHER_KEY, other, "x!"))


def test_logins_of_google(cli: CommandLine, gcs: GcsServer, tmp_path: Path) -> None:
    file = tmp_path / "login.json"
    for content, sentence in (
        (None, "the file that credentials-file of the upstream URI names is not there"),
        ("{", "the login in the upstream URI of gcs://ticdc/demo cannot be used"),
        (json.dumps({"private_key": "s3cr3t"}), "the login in the upstream URI of gcs://ticdc/demo cannot be used"),
    ):
        if content is not None:
            file.write_text(content)
        left = cli.run("once", "--upstream-uri", gcs.uri("demo", login=f"credentials-file={file}"))
        assert left.code == 2, left.err
        assert sentence in left.err
        assert "s3cr3t" not in left.err + left.out
