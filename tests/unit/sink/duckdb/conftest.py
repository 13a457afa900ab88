from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.unit.sink.duckdb.replica import Replica


@pytest.fixture
def replica(tmp_path: Path) -> Iterator[Replica]:
    replica = Replica(tmp_path)
    yield replica
    replica.sink.close()
