"""Files of staged rows."""

from __future__ import annotations

import resource
from pathlib import Path

import pytest

from consumer.errors import TargetUnavailable
from consumer.model.names import TableName
from consumer.sink.staging import save


def test_a_file_that_does_not_fit_takes_no_room(tmp_path: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, hard))
    try:
        with pytest.raises(TargetUnavailable, match="File too large") as told:
            save(str(tmp_path), TableName("d", "t"), bytes(100_000), ".arrow", "")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert "make room" in told.value.hint
    assert list(tmp_path.iterdir()) == []
