"""The temporary folders of a process: what a killed one left is removed by the next start, and nothing else."""

from __future__ import annotations

import errno
import os
import subprocess
from pathlib import Path

import pytest

from consumer.model.process import new_folder


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    return folder


def next_one() -> Path:
    """The folder of a start that ends at once."""
    folder, lock = new_folder("spark")
    os.close(lock)
    return Path(folder)


def test_what_was_left_behind_is_removed_by_the_next_start(temporary: Path) -> None:
    left = next_one()
    (left / "blocks").mkdir()
    (left / "blocks" / "one").write_text("x")
    assert [path.name for path in temporary.iterdir()] == [left.name]
    new = next_one()
    assert [path.name for path in temporary.iterdir()] == [new.name]


def test_a_folder_stays_as_long_as_its_process_lives(temporary: Path) -> None:
    folder, lock = new_folder("spark")
    process = subprocess.Popen(["/bin/sleep", "100"], pass_fds=(lock,))
    os.close(lock)
    next_one()
    assert Path(folder).is_dir()
    process.kill()
    process.wait()
    next_one()
    assert not Path(folder).exists()


def test_what_is_not_ours_stays(temporary: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    link = temporary / "storage-consumer-spark-link"
    link.symlink_to(elsewhere)
    others = temporary / "storage-consumer-spark-others"
    others.mkdir()
    others.chmod(0o777)
    another = temporary / "storage-consumer-notes"
    another.mkdir()
    next_one()
    assert link.is_symlink()
    assert elsewhere.is_dir()
    assert others.is_dir()
    assert another.is_dir()


def test_a_folder_that_another_start_took_is_made_anew(temporary: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def taken(path: str, flags: int) -> int:
        monkeypatch.undo()
        monkeypatch.setattr("tempfile.tempdir", str(temporary))
        os.rmdir(path)
        return os.open(path, flags)

    monkeypatch.setattr("consumer.model.process.os.open", taken)
    assert next_one().is_dir()


def test_without_locks_a_start_works_and_removes_nothing(temporary: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def lacking(*_: object) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr("fcntl.flock", lacking)
    left = [next_one(), next_one()]
    assert sorted(temporary.iterdir()) == sorted(left)
