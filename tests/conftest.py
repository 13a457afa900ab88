"""Fixtures that several suites share."""

from __future__ import annotations

import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from consumer.errors import BadConfig
from consumer.model.process import cache_folder
from consumer.spark.load import SparkLoader
from tests.cloud_servers import AZURITE, AzureServer, CloudServer, GcsServer, azurite_blob
from tests.groups import GROUPS, TEST, group_of, has_none_of_test
from tests.mysql_server import NO_MYSQL, MySql, has_mysql, mysql_template
from tests.s3_server import S3Server
from tests.servers import MariaDb, mariadb_template
from tests.support.lakes import lake_loader
from tests.tidb_server import NO_TIDB, TiDb, has_tidb, why_left_out

_LONG = (
    "tests/integration/spark/",
    "tests/e2e/test_corpus.py",
    "tests/e2e/test_each_command.py",
    "tests/e2e/test_kill.py",
    "tests/e2e/test_rounds.py",
    "tests/contract/test_loaders.py",
    "tests/e2e/test_load_export.py",
    "tests/property/",
    "tests/e2e/",
    "tests/faults/",
    "tests/integration/",
    "tests/contract/",
)
"""Files and folders whose files take long, the longest first."""
_TESTS = Path(__file__).parent
_MEMORY, _ROOM = Path("/dev/shm"), 6 << 30

if "TMPDIR" not in os.environ and _MEMORY.is_dir() and shutil.disk_usage(_MEMORY).free > _ROOM:
    # A commit there does not wait for a disk, which is half of the time of most tests of servers and of DuckDB files.
    os.environ["TMPDIR"] = str(_MEMORY)
    tempfile.tempdir = None
# Tests and the program are compiled once, and not by each process that is started.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

settings.register_profile("without a deadline", deadline=None)
settings.load_profile("without a deadline")
"""An example that takes long on a busy machine is no failure."""

signal.signal(signal.SIGHUP, signal.SIG_DFL)
"""Under nohup it is ignored, also by what tests start, and a command that is started so goes on."""
signal.signal(signal.SIGINT, signal.default_int_handler)
"""The same where a shell runs the tests in its background."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--group", choices=[TEST, *GROUPS], help="only the tests of this group (tests/groups.py)")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """`make test` imports no file whose tests all belong to groups of `make proof`."""
    place = collection_path.relative_to(_TESTS) if collection_path.is_relative_to(_TESTS) else Path()
    return (config.getoption("group") == TEST and has_none_of_test(place.as_posix())) or None


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Long files first: a process that gets one of them last works on it when the others have nothing left to do."""
    if group := config.getoption("group"):
        config.hook.pytest_deselected(items=[item for item in items if group_of(item) != group])
        items[:] = [item for item in items if group_of(item) == group]
    items.sort(key=lambda item: next((at for at, name in enumerate(_LONG) if item.nodeid.startswith(name)), len(_LONG)))


@pytest.fixture(scope="session", autouse=True)
def _cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A cache folder of the test session, in which Spark's archive of classes is the user's."""
    cache = tmp_path_factory.mktemp("cache")
    (cache / "storage-consumer").mkdir(mode=0o700)
    (cache / "storage-consumer" / "spark").symlink_to(cache_folder("spark"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(cache))
        yield


@pytest.fixture(scope="session", autouse=True)
def _soon() -> Iterator[None]:
    """A storage that fails is asked again."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("consumer.storage.s3._FIRST_PAUSE", 0.03)
        yield


@pytest.fixture(scope="session")
def mariadb(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MariaDb]:
    """One MariaDB for the whole test session."""
    server = MariaDb(mariadb_template(tmp_path_factory.mktemp("mariadb"))).start()
    yield server
    server.stop()


@pytest.fixture
def fresh_mariadb(mariadb: MariaDb) -> MariaDb:
    """The session's MariaDB with no user database in it."""
    mariadb.drop_all()
    return mariadb


@pytest.fixture(scope="session")
def mysql() -> Iterator[MySql]:
    """One MySQL for the whole test session, where one is unpacked."""
    if not has_mysql():
        pytest.skip(NO_MYSQL)
    server = MySql(mysql_template()).start()
    yield server
    server.stop()


@pytest.fixture
def fresh_mysql(mysql: MySql) -> MySql:
    """The session's MySQL with no user database in it."""
    mysql.drop_all()
    return mysql


@pytest.fixture(scope="session")
def tidb() -> Iterator[TiDb]:
    """One TiDB for the whole test session, where one is built."""
    if not has_tidb():
        pytest.skip(NO_TIDB)
    server = TiDb(None).start()
    yield server
    server.stop()


@pytest.fixture
def fresh_tidb(request: pytest.FixtureRequest) -> TiDb:
    """The session's TiDB with no user database in it; tests that cannot hold there are skipped."""
    if reason := why_left_out(request.node.nodeid):
        pytest.skip(reason)
    server: TiDb = request.getfixturevalue("tidb")
    server.drop_all()
    return server


@pytest.fixture(scope="session")
def s3_server() -> Iterator[S3Server]:
    """One S3 server for the whole test session."""
    server = S3Server()
    try:
        yield server.start()
    finally:
        server.stop()


@pytest.fixture(scope="session")
def gcs() -> Iterator[GcsServer]:
    """One emulator of Google Cloud Storage for the whole test session."""
    server = GcsServer()
    try:
        yield server.start()
    finally:
        server.stop()


@pytest.fixture(scope="session")
def azure() -> Iterator[AzureServer]:
    """One emulator of Azure Blob Storage for the whole test session, where it is installed."""
    if azurite_blob() is None:
        pytest.skip(AZURITE)
    server = AzureServer()
    try:
        yield server.start()
    finally:
        server.stop()


@pytest.fixture(params=["gcs", "azure"])
def cloud(request: pytest.FixtureRequest) -> CloudServer:
    """Each of the two."""
    server: CloudServer = request.getfixturevalue(request.param)
    return server


@pytest.fixture(scope="session")
def lake_spark() -> Iterator[SparkLoader]:
    """The Spark of all lakes of this process. Skipped where their jars are not there."""
    try:
        loader = lake_loader()
    except BadConfig as lacking:
        pytest.skip(str(lacking))
    yield loader
    loader.close()
