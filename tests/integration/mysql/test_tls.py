"""What each ssl-mode takes of a server with TLS of an authority of its own: the right one, one for another host, one of
another authority, one that has expired, and none."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from consumer.errors import BadConfig
from consumer.sink.mysql.server.connection import connect_to_server
from consumer.sink.mysql.settings import MySqlSettings
from tests.certificates import Authority
from tests.servers import MariaDb, mariadb_template

PASSWORD = "not-for-everybody"
ALL = ("VERIFY_IDENTITY", "VERIFY_CA", "REQUIRED", "PREFERRED", "DISABLED")
TAKEN = {
    "right": ALL,
    "other host": ALL[1:],
    "other authority": ALL[2:],
    "expired": ALL[2:],
    "none": ALL[3:],
}


class TlsServer:
    """A MariaDB whose certificate can be changed while it runs."""

    def __init__(self, folder: Path) -> None:
        self.authority = Authority(folder, "authority")
        self._own = {
            "right": self.authority.sign("right", "127.0.0.1"),
            "other host": self.authority.sign("other-host", "elsewhere.example"),
            "other authority": Authority(folder, "other").sign("of-other", "127.0.0.1"),
            "expired": self.authority.sign("expired", "127.0.0.1", days=-1),
        }
        self._shown = folder / "server.pem", folder / "server.key"
        options = (f"--ssl-ca={self.authority.file}", f"--ssl-cert={self._shown[0]}", f"--ssl-key={self._shown[1]}")
        self._show("right")
        self.server = MariaDb(mariadb_template(folder), options).start()
        self.server.execute(
            f"CREATE USER replica IDENTIFIED BY '{PASSWORD}' REQUIRE SSL", "GRANT ALL ON *.* TO replica"
        )

    def show(self, which: str) -> None:
        self._show(which)
        self.server.execute("FLUSH SSL")

    def _show(self, which: str) -> None:
        for own, shown in zip(self._own[which], self._shown, strict=True):
            shutil.copy(own, shown)


@pytest.fixture(scope="module")
def tls(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TlsServer]:
    found = TlsServer(tmp_path_factory.mktemp("tls"))
    yield found
    found.server.stop()


def settings(server: MariaDb, user: str, mode: str, authority: Path) -> MySqlSettings:
    return MySqlSettings.from_uri(f"{server.url(user, PASSWORD)}?ssl-mode={mode}&ssl-ca={authority}", name="c")


def cipher(wanted: MySqlSettings) -> str:
    """What the connection is encrypted with, "" for nothing."""
    connection = connect_to_server(wanted, "dml")
    with connection, connection.cursor() as cursor:
        cursor.execute("SHOW STATUS LIKE 'Ssl_cipher'")
        return str(cursor.fetchone()[1])


@pytest.mark.parametrize("mode", ALL)
@pytest.mark.parametrize("which", TAKEN)
def test_what_a_mode_takes(which: str, mode: str, tls: TlsServer, mariadb: MariaDb) -> None:
    server, user = tls.server, "replica"
    if which == "none":
        server, user = mariadb, "plain"
        server.execute(f"CREATE OR REPLACE USER plain IDENTIFIED BY '{PASSWORD}'")
    else:
        tls.show(which)
    wanted = settings(server, user, mode, tls.authority.file)
    if mode == "DISABLED" and which != "none":
        with pytest.raises(BadConfig, match="Access denied"):  # the user may log in over TLS alone
            connect_to_server(wanted, "dml")
    elif mode in TAKEN[which]:
        assert bool(cipher(wanted)) == (which != "none")
    else:
        with pytest.raises(BadConfig) as refused:
            connect_to_server(wanted, "dml")
        assert "ssl-ca=/path/ca.pem" in refused.value.hint
        assert PASSWORD not in f"{refused.value} {refused.value.hint}"


def test_without_a_mode_an_authority_that_is_given_must_have_signed(tls: TlsServer) -> None:
    tls.show("other authority")
    uri = f"{tls.server.url('replica', PASSWORD)}?ssl-ca={tls.authority.file}"
    with pytest.raises(BadConfig, match="certificate verify failed"):
        connect_to_server(MySqlSettings.from_uri(uri, name="c"), "dml")
    tls.show("right")
    assert cipher(MySqlSettings.from_uri(uri, name="c"))


def test_an_authority_that_is_no_certificate(tls: TlsServer, tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_text("none")
    with pytest.raises(BadConfig, match="ssl-ca, ssl-cert or ssl-key cannot be used"):
        connect_to_server(settings(tls.server, "replica", "VERIFY_CA", tmp_path / "ca.pem"), "dml")
