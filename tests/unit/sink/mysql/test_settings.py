from __future__ import annotations

import pickle

import pytest

from consumer.errors import BadConfig
from consumer.model.names import quote
from consumer.sink.mysql.server.connection import Flavor, Purpose, session_assignments
from consumer.sink.mysql.settings import MySqlSettings


def read(uri: str) -> MySqlSettings:
    return MySqlSettings.from_uri(uri, name="n", time_zone="Asia/Shanghai")


def test_a_whole_uri() -> None:
    got = read(
        "mysql://us%40er:p%2Fw%3A%C3%A9@db.example:3307/?ssl-ca=%2Fca.pem&ssl-cert=/c&ssl-key=/k&worker-count=4"
        "&connect-timeout=3&allow-triggers=true"
    )
    assert got == MySqlSettings(
        "db.example", 3307, "us@er", "p/w:é", "n", "Asia/Shanghai", 4, "/ca.pem", "/c", "/k", 3, "", True
    )


@pytest.mark.parametrize(
    ("uri", "host", "port"),
    [
        ("mysql://u@h", "h", 3306),
        ("mariadb://u@h/", "h", 3306),
        ("tidb://u@h/", "h", 4000),
        ("mysql://u@[::1]:3310/", "::1", 3310),
        ("mysql://", "127.0.0.1", 3306),
    ],
)
def test_hosts(uri: str, host: str, port: int) -> None:
    assert (read(uri).host, read(uri).port) == (host, port)


def test_socket_and_zone() -> None:
    got = read("mysql://u@/?socket=/run/my.sock")
    assert (got.address, got.time_zone) == ("/run/my.sock", "Asia/Shanghai")


@pytest.mark.parametrize(
    "uri",
    [
        "postgres://h/",
        "mysql://h/db",
        "mysql://h/?unknown=1",
        "mysql://h/?time-zone=UTC",
        "mysql://h/?worker-count=0",
        "mysql://h/?worker-count=x",
        "mysql://h/?allow-triggers=yes",
        "mysql://h:99999/",
        "mysql://h:x/",
        "mysql://h/?flag",
        "tidb://h/?write-source=0",
        "tidb://h/?write-source=16",
        "tidb://h/?write-source=on",
    ],
)
def test_what_is_refused(uri: str) -> None:
    with pytest.raises(BadConfig):
        read(uri)


@pytest.mark.parametrize("name", ["", "x" * 65])
def test_consumer_names(name: str) -> None:
    with pytest.raises(BadConfig):
        MySqlSettings.from_uri("mysql://h/", name=name)


def test_the_password_is_not_shown() -> None:
    got = read("mysql://u:secret@h/")
    assert "secret" not in repr(got)
    assert "password='***'" in repr(got)
    assert pickle.loads(pickle.dumps(got)) == got


@pytest.mark.parametrize(
    ("text", "flavor"),
    [
        ("8.0.36", Flavor("mysql", (8, 0, 36))),
        ("5.7.44-log", Flavor("mysql", (5, 7, 44))),
        ("10.11.6-MariaDB-1:10.11.6+maria~ubu2204", Flavor("mariadb", (10, 11, 6))),
        ("5.5.5-10.4.2-MariaDB", Flavor("mariadb", (10, 4, 2))),
        ("8.0.11-TiDB-v7.5.1", Flavor("tidb", (7, 5, 1))),
        ("5.7.25-TiDB-v6.5.0-alpha", Flavor("tidb", (6, 5, 0))),
    ],
)
def test_flavors(text: str, flavor: Flavor) -> None:
    assert Flavor.parse(text) == flavor


def test_quoting() -> None:
    assert quote("a`b") == "`a``b`"


@pytest.mark.parametrize("purpose", ["dml", "ddl"])
def test_changes_in_tidb_carry_the_mark_that_its_own_changefeed_leaves_out(purpose: Purpose) -> None:
    tidb = Flavor.parse("8.0.11-TiDB-v7.5.0")
    assert "SESSION tidb_cdc_write_source = 3" in session_assignments(read("tidb://h/?write-source=3"), purpose, tidb)
    assert not any("write_source" in value for value in session_assignments(read("tidb://h/"), purpose, tidb))


@pytest.mark.parametrize("version", ["8.0.36", "10.11.6-MariaDB-1"])
def test_other_servers_have_no_marks(version: str) -> None:
    with pytest.raises(BadConfig, match="only TiDB has marks for changes"):
        session_assignments(read("mysql://h/?write-source=3"), "dml", Flavor.parse(version))
