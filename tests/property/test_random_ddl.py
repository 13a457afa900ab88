"""Random statements and rows, followed by a MariaDB: at every checkpoint it holds what the same statements have made of
other databases, where they were run directly: rows, columns, indexes, comments, partitions.

`RANDOM_DDL=500 pytest tests/property/test_random_ddl.py` plays as many histories, with new seeds each time.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.servers import MariaDb
from tests.support.random_ddl.machine import Replica, play
from tests.support.random_ddl.profile import LONGEST, PROFILE


@settings(PROFILE)
@given(seed=st.integers(0, 2**32), size=st.integers(1, LONGEST))
def test_a_server_follows(seed: int, size: int, mariadb: MariaDb) -> None:
    with tempfile.TemporaryDirectory() as work:
        play(seed, size, Path(work), mariadb, lambda original: Replica.on(original, mariadb), partitions=True)
