"""Files of staged rows."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from consumer.errors import LeaseHeld, StagingUnseen, TargetUnavailable
from consumer.model.names import TableName
from consumer.sink.columnar.lock import FileLock
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


def test_a_worker_of_another_user_is_told(tmp_path: Path) -> None:
    """The folder is the driver's user's alone."""
    folder = tmp_path / "1" / "load"
    folder.mkdir(parents=True)
    folder.chmod(0o500)
    user = os.geteuid()
    if user == 0:
        os.seteuid(65534)
    try:
        with pytest.raises(StagingUnseen, match=f"a Spark worker may not write to the folder {folder}") as told:
            save(str(folder), TableName("d", "t"), b"x", ".arrow", "share it")
    finally:
        os.seteuid(user)
    assert told.value.hint == "share it"


def test_one_file_has_the_locks_of_many_tables(tmp_path: Path) -> None:
    """Whether it is taken by this process or another."""
    one, same, other = (FileLock(str(tmp_path), "table", "tables.lock", part) for part in ("a", "a", "b"))
    one.take()
    other.take()
    with pytest.raises(LeaseHeld):
        same.take()
    take = "from consumer.sink.columnar.lock import FileLock; FileLock({!r}, 't', 'tables.lock', {!r}).take()"
    for part, error in (("a", "LeaseHeld"), ("c", "")):
        command = [sys.executable, "-c", take.format(str(tmp_path), part)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert ("LeaseHeld" if "LeaseHeld" in done.stderr else done.stderr) == error
    one.release()
    same.take()
    assert [file.name for file in tmp_path.iterdir()] == ["tables.lock"]
