"""Random statements and rows, followed by a server: at every checkpoint it holds what the same statements have made of
other databases of it, where they were run directly: rows, columns, indexes, comments, collations, partitions.

`RANDOM_DDL=500 pytest tests/property/test_random_ddl.py` plays as many histories, with new seeds each time.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.servers import SqlServer
from tests.support.random_ddl.machine import play
from tests.support.random_ddl.profile import HISTORIES, LONGEST, PROFILE
from tests.support.random_ddl.replica import Replica


@settings(PROFILE, max_examples=HISTORIES or 11)
@given(seed=st.integers(0, 2**32), size=st.integers(1, LONGEST))
@pytest.mark.parametrize("kind", ["mariadb", "mysql"])
def test_a_server_follows(seed: int, size: int, kind: str, request: pytest.FixtureRequest) -> None:
    server: SqlServer = request.getfixturevalue(kind)
    with tempfile.TemporaryDirectory() as work:
        play(seed, size, Path(work), server, lambda original: Replica.on(original, server), partitions=True)
