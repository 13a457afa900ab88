"""Every test here runs on each kind of server."""

from __future__ import annotations

import pytest

from tests.servers import SqlServer


@pytest.fixture(params=["mariadb", "mysql", "tidb"])
def fresh_mariadb(request: pytest.FixtureRequest) -> SqlServer:
    """A server with no user database in it."""
    server: SqlServer = request.getfixturevalue(f"fresh_{request.param}")
    return server
