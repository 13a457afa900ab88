"""Fixtures that several suites share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.servers import MariaDb, mariadb_template


@pytest.fixture(scope="session")
def mariadb(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MariaDb]:
    """One MariaDB for the whole test session."""
    server = MariaDb(mariadb_template(tmp_path_factory.mktemp("mariadb"))).start()
    yield server
    server.stop()


@pytest.fixture
def fresh_mariadb(mariadb: MariaDb) -> MariaDb:
    """The session's MariaDB with no user database in it."""
    mariadb.drop_all()
    return mariadb
