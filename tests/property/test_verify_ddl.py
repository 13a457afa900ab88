"""Histories of random statements and rows, followed by a target: `verify` finds no difference wherever the target is as
it must be.

`VERIFY_DDL=50 pytest tests/property/test_verify_ddl.py` plays as many on each target, other ones each day.
"""

from __future__ import annotations

import os
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path

import pytest

from consumer.errors import CannotBeExact
from tests.servers import MariaDb, SqlServer
from tests.support.random_ddl.duckdb_replica import duckdb_replica
from tests.support.random_ddl.machine import play
from tests.support.random_ddl.profile import LONGEST
from tests.support.random_ddl.replica import Replica

MORE = int(os.environ.get("VERIFY_DDL", "0"))
FIRST = datetime.now(UTC).timetuple().tm_yday * 1000 if MORE else 1
SEEDS = range(FIRST, FIRST + (MORE or 3))


class States(Counter[str]):
    """How often tables came out as what."""

    def look(self, folder: Path, replica: Replica) -> None:
        for table in replica.verify(folder).tables:
            self[table.state] += 1
            assert not table.counted.differences, table
            assert table.error is None or isinstance(table.error, CannotBeExact), table


@pytest.mark.parametrize("seed", SEEDS)
def test_a_file_is_equal(seed: int, mariadb: MariaDb, tmp_path: Path) -> None:
    states = States()
    size = seed % LONGEST + 1
    play(seed, size, tmp_path / "storage", mariadb, lambda _: duckdb_replica(tmp_path), False, states.look)
    assert states["equal"] or not states


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("kind", ["mariadb", "mysql"])
def test_a_server_is_equal(seed: int, kind: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    server: SqlServer = request.getfixturevalue(kind)
    states = States()
    play(seed, seed % LONGEST + 1, tmp_path, server, lambda original: Replica.on(original, server), True, states.look)
    assert states["equal"] or not states
