"""What keeps a server from taking rows, mended as the hint says: the table goes on."""

from __future__ import annotations

from pathlib import Path

import pytest

from consumer.sink.mysql.progress.lease import lock_name
from tests.servers import MariaDb
from tests.support.command_line import CommandLine, command_line

TRIGGER = "CREATE TRIGGER du.x AFTER INSERT ON du.t FOR EACH ROW SET @a = 1"


@pytest.fixture
def cli(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> CommandLine:
    return command_line(tmp_path, capsys, monkeypatch)


@pytest.mark.parametrize(
    ("by_hand", "words", "mend", "parameters"),
    [
        (TRIGGER, "drop them", "DROP TRIGGER du.x", ""),
        (TRIGGER, "allow-triggers=true", "", "&allow-triggers=true"),
        ("ALTER TABLE du.t DROP COLUMN v", "storage-consumer resync --table du.t", "resync", ""),
        ("RENAME TABLE du.t TO du.away", "storage-consumer resync --table du.t", "resync", ""),
        ("RENAME TABLE du.t TO du.away", "it was dropped there", "RENAME TABLE du.away TO du.t", ""),
    ],
)  # fmt: skip
def test_a_table_that_was_changed_by_hand(
    by_hand: str, words: str, mend: str, parameters: str, cli: CommandLine, fresh_mariadb: MariaDb
) -> None:
    checkpoint = (cli.storage / "metadata").read_bytes()
    target = f"{fresh_mariadb.url()}?ssl-mode=DISABLED"
    (cli.storage / "metadata").write_text('{"checkpoint-ts":470611618500000000}', encoding="utf-8")
    assert cli.run("once", "--downstream-uri", target).code == 0
    fresh_mariadb.execute(by_hand)
    (cli.storage / "metadata").write_bytes(checkpoint)
    left = cli.run("once", "--downstream-uri", target)
    assert left.code == 3, left
    assert words in left.err
    if mend == "resync":
        assert cli.run("resync", "--table", "du.t", "--downstream-uri", target).code == 0
    elif mend:
        fresh_mariadb.execute(mend)
    assert cli.run("once", "--downstream-uri", target + parameters).code == 0
    assert fresh_mariadb.execute("SELECT id, v FROM du.t WHERE id < 5 ORDER BY id") == [(1, 10), (2, 22), (4, 4)]


def test_a_consumer_that_is_still_at_work(cli: CommandLine, fresh_mariadb: MariaDb) -> None:
    target = ("--downstream-uri", f"{fresh_mariadb.url()}?ssl-mode=DISABLED", "--max-wait", "0", "--name", "default")
    assert cli.run("once", *target).code == 0
    with fresh_mariadb.connect() as other, other.cursor() as cursor:
        cursor.execute("SELECT GET_LOCK(%s, 0)", (lock_name("default"),))
        for command in (("once",), ("forget", "--yes")):
            left = cli.run(*command, *target)
            assert (left.code, "wait until it has ended, or end it" in left.err) == (4, True)
    assert cli.run("once", *target).code == 0
    assert cli.run("forget", "--yes", *target).code == 0
