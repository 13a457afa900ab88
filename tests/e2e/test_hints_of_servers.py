"""What keeps a server from taking rows, mended as the hint says: the table goes on."""

from __future__ import annotations

from pathlib import Path

import pytest

from consumer.sink.mysql.progress.lease import lock_name
from tests.servers import MariaDb, SqlServer
from tests.support.command_line import CommandLine

TRIGGER = "CREATE TRIGGER du.x AFTER INSERT ON du.t FOR EACH ROW SET @a = 1"


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


@pytest.mark.parametrize(
    ("wrong", "words", "mend", "right"),
    [
        ("u:pw@{}/", "grant the target's user all privileges on storage_consumer", "GRANT ALL ON *.* TO u", "u:pw@{}/"),
        ("u:no@{}/", "check the user and the password in --downstream-uri", "GRANT ALL ON *.* TO u", "u:pw@{}/"),
        ("root@{}/du", "leave out the database that it names", "", "root@{}/"),
        ("root@{}/?ssl-mode=VERIFY_CA", "or ask for less: ssl-mode=", "", "root@{}/?ssl-mode=PREFERRED"),
    ],
)
def test_a_server_that_does_not_let_us_in(
    wrong: str, words: str, mend: str, right: str, cli: CommandLine, fresh_mariadb: MariaDb
) -> None:
    fresh_mariadb.execute("CREATE USER u IDENTIFIED BY 'pw'")
    address = f"127.0.0.1:{fresh_mariadb.port}"
    left = cli.run("once", "--downstream-uri", "mysql://" + wrong.format(address))
    assert (left.code, words in left.err) == (2, True), left
    if mend:
        fresh_mariadb.execute(mend)
    assert cli.run("once", "--downstream-uri", "mysql://" + right.format(address)).code == 0


@pytest.mark.parametrize("kind", ["fresh_mariadb", "fresh_mysql"])
def test_a_password_that_has_expired(kind: str, cli: CommandLine, request: pytest.FixtureRequest) -> None:
    server: SqlServer = request.getfixturevalue(kind)
    server.execute("CREATE USER u IDENTIFIED BY 'pw' PASSWORD EXPIRE", "GRANT ALL ON *.* TO u")
    left = cli.run("once", "--downstream-uri", server.url("u", "pw"))
    assert (left.code, "give the user a new password on the server (ALTER USER)" in left.err) == (2, True), left
    server.execute("ALTER USER u IDENTIFIED BY 'new'")
    assert cli.run("once", "--downstream-uri", server.url("u", "new")).code == 0


def test_a_server_that_takes_no_writes(cli: CommandLine, fresh_mariadb: MariaDb) -> None:
    fresh_mariadb.execute("CREATE USER u IDENTIFIED BY 'pw'", "GRANT ALL ON du.* TO u")
    fresh_mariadb.execute("GRANT ALL ON storage_consumer.* TO u", "SET GLOBAL read_only = 1")
    target = ("--downstream-uri", fresh_mariadb.url("u", "pw"))
    try:
        left = cli.run("once", *target, "--max-wait", "0")
        assert (left.code, "try again once it takes writes" in left.err) == (4, True)
    finally:
        fresh_mariadb.execute("SET GLOBAL read_only = 0")
    assert cli.run("once", *target).code == 0


def test_a_password_command_that_cannot_be_run(cli: CommandLine, fresh_mariadb: MariaDb, tmp_path: Path) -> None:
    fresh_mariadb.execute("CREATE USER u IDENTIFIED BY 'pw'", "GRANT ALL ON *.* TO u")
    script = tmp_path / "token"
    target = ("--downstream-uri", f"{fresh_mariadb.url('u')}?password-command={script}", "--max-wait", "0")
    left = cli.run("once", *target)
    assert (left.code, "give the path of a program of this machine" in left.err) == (2, True)
    script.write_text("#!/bin/sh\nexit 7\n")
    script.chmod(0o755)
    left = cli.run("once", *target)
    assert (left.code, "run it by hand as this user" in left.err) == (4, True)
    script.write_text("#!/bin/sh\necho pw\n")
    assert cli.run("once", *target).code == 0
