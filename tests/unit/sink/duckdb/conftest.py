from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.unit.sink.duckdb.replica import ID, Replica, V


@pytest.fixture
def replica(tmp_path: Path) -> Iterator[Replica]:
    replica = Replica(tmp_path)
    yield replica
    replica.close_file()
    replica.sink.close()


@pytest.fixture
def filled(replica: Replica) -> Replica:
    """Two rows, id and v."""
    replica.put((ID, V), [("1", "10"), ("2", None)])
    return replica
