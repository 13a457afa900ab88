"""Random statements and rows, followed by a DuckDB file: at every checkpoint it has the rows and columns that the same
statements, run directly, have given a MariaDB.

`RANDOM_DDL=500 pytest tests/property/test_random_ddl_duckdb.py` plays as many histories, with new seeds each time.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.servers import MariaDb
from tests.support.random_ddl.duckdb_replica import duckdb_replica
from tests.support.random_ddl.machine import play
from tests.support.random_ddl.profile import HISTORIES, LONGEST, PROFILE


@settings(PROFILE, max_examples=HISTORIES or 8)
@given(seed=st.integers(0, 2**32), size=st.integers(1, LONGEST))
def test_a_file_follows(seed: int, size: int, mariadb: MariaDb) -> None:
    with tempfile.TemporaryDirectory() as work:
        folder = Path(work)
        play(seed, size, folder / "storage", mariadb, lambda _: duckdb_replica(folder), partitions=False)
