"""Progress that somebody changed by hand, so that nobody can read it: every command says so, and changes nothing."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import duckdb
import pytest

from tests.servers import MariaDb
from tests.support.command_line import DEMO_TABLES, T_CREATED, CommandLine, command_line, duckdb_tables

JUNK = {
    "UPDATE storage_consumer.consumer SET routes = 'x'": "'x' is not JSON",
    "UPDATE storage_consumer.consumer SET filters = '{'": "'{' is not JSON",
    "UPDATE storage_consumer.consumer SET starts = '[1'": "'[1' is not JSON",
    "UPDATE storage_consumer.folder_progress SET open_files = '-'": "'-' is not JSON",
    "UPDATE storage_consumer.ddl SET state = 'done?'": "'done?' is not a valid DdlState",
    "UPDATE storage_consumer.ddl SET kind = 'by magic'": "'by magic' is not a valid DdlKind",
}
LACKS = [f"storage_consumer.{table}" for table in ("consumer", "table_progress", "folder_progress", "bad_row", "ddl")]
BY_HAND = {**JUNK, **{f"DROP TABLE {table}": table for table in LACKS}}
IN_THE_MIDDLE = {f"DROP TABLE storage_consumer.{table}": f"storage_consumer.{table}" for table in ("audit", "lease")}


@pytest.fixture
def cli(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> CommandLine:
    """`du.t` is empty in the target; its rows are still to come."""
    cli = command_line(tmp_path, capsys, monkeypatch)
    (cli.storage / "metadata").write_text(f'{{"checkpoint-ts":{T_CREATED + 1}}}', encoding="utf-8")
    return cli


@pytest.mark.parametrize(("by_hand", "words"), (BY_HAND | IN_THE_MIDDLE).items(), ids=[*BY_HAND, *IN_THE_MIDDLE])
def test_it_is_named_until_it_is_put_back(cli: CommandLine, by_hand: str, words: str) -> None:
    assert cli.run("once").code == 0
    file = Path(cli.target.removeprefix("duckdb:///"))
    backup = shutil.copy(file, file.with_suffix(".backup"))
    _execute(cli, by_hand)
    cli.mend()
    _is_told(cli, by_hand, words)
    shutil.copy(backup, file)
    assert cli.run("once").code == 0
    assert duckdb_tables(cli.target) == DEMO_TABLES


def test_a_lease_without_a_row(cli: CommandLine) -> None:
    assert cli.run("once").code == 0
    _execute(cli, "DELETE FROM storage_consumer.lease")
    left = cli.run("once")
    assert (left.code, "storage_consumer.lease has no row" in left.err) == (2, True)


@pytest.mark.parametrize(("by_hand", "words"), (BY_HAND | IN_THE_MIDDLE).items(), ids=[*BY_HAND, *IN_THE_MIDDLE])
def test_on_a_server(cli: CommandLine, by_hand: str, words: str, fresh_mariadb: MariaDb) -> None:
    cli = replace(cli, target=fresh_mariadb.url())
    assert cli.run("once").code == 0
    fresh_mariadb.execute(by_hand)
    cli.mend()
    _is_told(cli, by_hand, words)


def _is_told(cli: CommandLine, by_hand: str, words: str) -> None:
    for command in ("once",) if by_hand in IN_THE_MIDDLE else ("once", "status", "plan", "verify", "retry"):
        left = cli.run(command)
        assert left.code == 2, left
        assert "the progress in the target is not as any release leaves it" in left.err
        assert words in left.err
        assert "put storage_consumer back as it was" in left.err


def _execute(cli: CommandLine, statement: str) -> None:
    with duckdb.connect(cli.target.removeprefix("duckdb:///")) as connection:
        connection.execute(statement)
