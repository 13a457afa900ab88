"""The same program on a standalone master with two workers, also where an executor dies under a load."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from tests.e2e.corpus import Case, read_cases
from tests.e2e.targets import File, Server, Target
from tests.spark_cluster import SparkCluster

FIXTURES = Path(__file__).parents[3] / "fixtures" / "cdc"


@pytest.fixture(scope="module")
def cluster() -> Iterator[SparkCluster]:
    with SparkCluster(workers=2) as started:
        yield started


@pytest.fixture(params=["MariaDB", "DuckDB"])
def target(request: pytest.FixtureRequest, tmp_path: Path) -> Target:
    """The DuckDB file lies where the workers see it too."""
    return Server(request.getfixturevalue("fresh_mariadb")) if request.param == "MariaDB" else File(tmp_path)


def test_once_on_a_standalone_cluster_ends_equal(target: Target, cluster: SparkCluster, tmp_path: Path) -> None:
    case = volume(tmp_path)
    done = run(command(case, target, cluster))
    assert done.returncode == 0, done.stderr
    assert target.differences(case, None) == []


def test_executors_that_die_under_a_load_lose_nothing(target: Target, cluster: SparkCluster, tmp_path: Path) -> None:
    """Spark runs the tasks again elsewhere: on the other worker, or on an executor that is started again."""
    case = volume(tmp_path)
    killed: list[int] = []
    done = run(command(case, target, cluster), lambda: kill_one(cluster, killed))
    assert killed, done.stderr
    if done.returncode:  # a job that broke may end the run, never with a trace
        assert done.returncode in (3, 4), done.stderr
        assert "Traceback" not in done.stderr
        done = run(command(case, target, cluster))
    assert done.returncode == 0, done.stderr
    assert target.differences(case, None) == []


def test_the_first_load_knows_the_cores_of_all_workers() -> None:
    """Executors come some seconds after Spark: without them two cores would count."""
    start = "from consumer.spark.session import start_session; from consumer.spark.settings import SparkSettings; "
    tell = "import sys; session = start_session(SparkSettings(sys.argv[1])); print(session.cores); session.close()"
    with SparkCluster(workers=2, cores=3) as cluster:
        told = subprocess.run([sys.executable, "-c", start + tell, cluster.url], capture_output=True, timeout=300)
    assert told.stdout.split() == [b"6"], told.stderr


def test_the_jvms_have_our_flags_before_those_of_the_cluster(cluster: SparkCluster) -> None:
    """The last of two flags counts."""
    start = "from consumer.spark.session import start_session; from consumer.spark.settings import SparkSettings; "
    theirs = "-XX:TieredStopAtLevel=4"
    conf = f"(('spark.executor.extraJavaOptions', '{theirs}'), ('spark.driver.extraJavaOptions', '{theirs}'))"
    wait = f"import sys; session = start_session(SparkSettings(sys.argv[1], {conf})); print(); input(); session.close()"
    process = subprocess.Popen(
        [sys.executable, "-uc", start + wait, cluster.url], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "\n"
        children = [child for child in psutil.Process(process.pid).children() if "java" in child.name()]
        jvms = [line for jvm in [*children, *cluster.executors()] if theirs in (line := jvm.cmdline())]
        assert len(jvms) >= 2
        assert all(line.index("-XX:TieredStopAtLevel=1") < line.index(theirs) for line in jvms)
    finally:
        process.communicate("\n", timeout=60)


def kill_one(cluster: SparkCluster, killed: list[int]) -> None:
    """kill -9, of an executor whose Python workers are at work, at most twice."""
    for executor in cluster.executors():
        with contextlib.suppress(psutil.Error):
            if len(killed) < 2 and executor.pid not in killed and executor.children():
                executor.kill()
                killed.append(executor.pid)
                return


def volume(folder: Path) -> Case:
    return next(case for case in read_cases(FIXTURES, folder) if case.name == "ticdc/l_volume/cj_none")


def command(case: Case, target: Target, cluster: SparkCluster) -> list[str]:
    return [
        str(Path(sys.executable).with_name("storage-consumer")), "once",
        "--upstream-uri", f"file://{case.folder / 'storage'}?protocol=canal-json", "--downstream-uri", target.url,
        "--config", str(case.folder / "config.toml"), "--tz", "UTC", "--master", cluster.url,
        "--spark-conf", "spark.executor.memory=600m", "--spark-conf", "spark.driver.host=127.0.0.1",
    ]  # fmt: skip


def run(line: list[str], meanwhile: Callable[[], None] | None = None) -> subprocess.CompletedProcess[str]:
    """Run it to its end; `meanwhile` is called again and again until then."""
    ended = threading.Event()

    def again() -> None:
        while meanwhile is not None and not ended.wait(0.1):
            meanwhile()

    thread = threading.Thread(target=again)
    thread.start()
    try:
        return subprocess.run(line, capture_output=True, text=True, check=False)
    finally:
        ended.set()
        thread.join()
