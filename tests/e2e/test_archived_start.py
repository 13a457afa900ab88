"""A start of Spark from the archive of its classes: taken where there is one, equal to the other, and as tidy."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pyarrow as pa
import pytest
from pyspark import SparkContext
from pyspark.sql import SparkSession

from consumer.errors import JobBroken, TargetUnavailable
from consumer.spark.jvm import end_jvm
from consumer.spark.load import SparkLoader
from consumer.spark.settings import SparkSettings
from tests.e2e.test_signals import ENDS_WITHIN, NOTICED_WITHIN, Consumer, launching, working
from tests.integration.spark.test_failures import Failing, task, works
from tests.support.canal_json import MemoryReader

_WORKS = """
from consumer.spark.load import SparkLoader
from consumer.spark.settings import SparkSettings
from tests.integration.spark.test_failures import works
loader = SparkLoader(SparkSettings("local[1]"))
print(works(loader))
loader.close()
"""


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache folder with the archive in it, made as `make setup` makes it."""
    cache = tmp_path_factory.mktemp("cache")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(cache))
        command = [sys.executable, "-m", "consumer.spark.make_archive"]
        made = subprocess.run(command, check=True, capture_output=True, text=True)
    assert (made.stdout, made.stderr) == ("", "")
    return cache


@pytest.fixture
def temporary(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where temporary files go; the archive is there."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setenv("XDG_CACHE_HOME", str(made))
    monkeypatch.setenv("TMPDIR", str(folder))
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    return folder


@pytest.fixture
def loader() -> Iterator[SparkLoader]:
    end_jvm()
    yield SparkLoader(SparkSettings("local[1]"))
    end_jvm()


def maps_archive(process: int, made: Path) -> bool:
    """Whether Java took the archive: then it is in its memory."""
    return str(made) in Path(f"/proc/{process}/maps").read_text()


def test_the_archive_is_used_and_nothing_stays(temporary: Path, loader: SparkLoader, made: Path) -> None:
    assert works(loader)
    jvm = psutil.Process(SparkContext._gateway.proc.pid)
    assert maps_archive(jvm.pid, made)
    workers = jvm.children(recursive=True)
    assert workers
    assert list(temporary.glob("storage-consumer-*"))
    loader.close()
    assert not jvm.is_running()
    psutil.wait_procs(workers, timeout=5)
    assert not [worker for worker in workers if worker.is_running() and worker.status() != psutil.STATUS_ZOMBIE]
    assert list(temporary.iterdir()) == []


@pytest.mark.parametrize("length", [1, 100], ids=["short", "too long for a socket"])
def test_workers_meet_it_in_its_folder(
    temporary: Path, loader: SparkLoader, monkeypatch: pytest.MonkeyPatch, length: int
) -> None:
    """Where the path of a socket can be so long; else by TCP, as Spark does it."""

    def seen(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _ in batches:
            yield pa.record_batch([[os.environ.get("PYTHON_WORKER_FACTORY_SOCK_DIR", "")]], ["x"])

    base = Path(tempfile.mkdtemp(dir="/tmp"))
    folder = base / ("x" * length)
    folder.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    try:
        assert works(loader)
        rows = SparkSession.builder.getOrCreate().range(1).mapInArrow(seen, "x string").collect()
        (own,) = folder.glob("storage-consumer-spark-*")
        assert [row.x for row in rows] == [str(own) if length == 1 else ""]
        assert own.stat().st_mode & 0o077 == 0, "nobody else can connect"
        loader.close()
        assert list(folder.iterdir()) == []
    finally:
        shutil.rmtree(base)


def test_a_temporary_folder_that_somebody_removes_is_made_anew(temporary: Path, loader: SparkLoader) -> None:
    assert works(loader)
    (own,) = temporary.glob("storage-consumer-spark-*")
    shutil.rmtree(own)
    (outcome,) = loader.load([task(0)], Failing(TargetUnavailable("it went away")), MemoryReader(b""))
    assert isinstance(outcome.error, JobBroken)
    assert works(loader)
    loader.close()
    assert list(temporary.iterdir()) == []


def test_letters_of_the_temporary_folder_in_the_c_locale(temporary: Path) -> None:
    """There Java would take them for question marks."""
    folder = temporary / "tést"
    folder.mkdir()
    environment = {**os.environ, "TMPDIR": str(folder), "LC_ALL": "C"}
    command = [sys.executable, "-c", _WORKS]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert (done.stdout, done.stderr) == ("True\n", "")
    assert list(folder.iterdir()) == []


def test_a_damaged_archive_is_a_plain_start(temporary: Path, loader: SparkLoader, made: Path) -> None:
    (archive,) = made.rglob("*.jsa")
    whole = archive.read_bytes()
    middle = len(whole) // 2
    try:
        archive.write_bytes(whole[:middle] + bytes(1 << 16) + whole[middle + (1 << 16) :])
        assert works(loader)
        assert not maps_archive(SparkContext._gateway.proc.pid, made)
    finally:
        archive.write_bytes(whole)


def test_spark_properties_are_a_start_that_ends_as_spark_ends(temporary: Path, loader: SparkLoader, made: Path) -> None:
    given = SparkLoader(SparkSettings("local[1]", (("spark.eventLog.enabled", "true"),
                                                   ("spark.eventLog.dir", f"file://{temporary}"))))  # fmt: skip
    assert works(given)
    assert not maps_archive(SparkContext._gateway.proc.pid, made)
    given.close()
    assert not list(temporary.glob("*.inprogress"))


@pytest.fixture
def consumer(temporary: Path, tmp_path: Path) -> Iterator[Consumer]:
    started = Consumer("once", tmp_path)
    yield started
    for process in started.family():
        process.kill()
    started.process.communicate()


@pytest.mark.parametrize("moment", [launching, working])
def test_a_signal_ends_all_of_it(consumer: Consumer, moment: Callable[[list[str]], bool], temporary: Path) -> None:
    consumer.wait_for(moment)
    consumer.process.terminate()
    out, err = consumer.process.communicate(timeout=ENDS_WITHIN)
    assert "Traceback" not in err
    assert out
    assert consumer.alone_within(2)
    assert not list(temporary.glob("storage-consumer-*"))


@pytest.mark.parametrize("moment", [launching, working])
def test_nobody_outlives_a_killed_driver(consumer: Consumer, moment: Callable[[list[str]], bool]) -> None:
    consumer.wait_for(moment)
    consumer.process.kill()
    assert consumer.alone_within(NOTICED_WITHIN)
