"""A server whose disk is full: it is waited for, nothing is refused for it, and all goes on once there is room."""

from __future__ import annotations

import contextlib
import os
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from consumer.errors import TargetUnavailable
from consumer.model.actions import Action
from tests.mysql_server import NO_MYSQL, MySql, has_mysql, mysql_template
from tests.servers import MariaDb, SqlServer, mariadb_template
from tests.support.feed import Feed, Replica, states

SMALL_LOG = {"MariaDB": "--innodb-log-file-size=8M", "MySQL": "--innodb-redo-log-capacity=16M"}


class SmallDisk:
    """A server with its data on a file system of its own, in memory."""

    def __init__(self, folder: Path, server: SqlServer) -> None:
        self.server, self._filler = server, folder / "filler"

    def fill(self) -> None:
        with self._filler.open("wb", buffering=0) as file, contextlib.suppress(OSError):
            while True:
                file.write(bytes(4096))

    def make_room(self) -> None:
        self._filler.unlink()


@pytest.fixture(params=SMALL_LOG)
def disk(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SmallDisk]:
    if request.param == "MySQL" and not has_mysql():
        pytest.skip(NO_MYSQL)
    template = mysql_template() if request.param == "MySQL" else mariadb_template(tmp_path)
    folder, elsewhere = tmp_path / "disk", tmp_path / "tmp"
    folder.mkdir()
    elsewhere.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=200m", "tmpfs", str(folder)]
    if os.geteuid() or subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("only root can make a small file system")
    try:
        with monkeypatch.context() as patch:
            patch.setattr(tempfile, "tempdir", str(folder))
            options = (SMALL_LOG[request.param], f"--tmpdir={elsewhere}")
            server = MySql(template, options) if request.param == "MySQL" else MariaDb(template, options)
        try:
            yield SmallDisk(folder, server.start())
        finally:
            server.kill()
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


def test_what_needs_room_waits_for_it(disk: SmallDisk, tmp_path: Path) -> None:
    feed = Feed(tmp_path / "cdc")
    feed.database("d", 1)
    feed.create("d.t", 2)
    feed.puts("d.t", 2, {10: (1, "1")})
    replica = Replica(feed, disk.server.url())
    disk.fill()
    with pytest.raises(TargetUnavailable, match="the target has no room") as told:
        replica.once(15, max_wait="500ms")
    assert "make room" in told.value.hint
    disk.make_room()
    assert replica.once().exit_code == 0
    feed.statement("d.t", 20, Action.ADD_INDEX, "ALTER TABLE `t` ADD INDEX `i` (`v`)")
    feed.create("d.u", 21)
    feed.puts("d.u", 21, {22: (2, "2")})
    disk.fill()
    result = replica.once(30, max_wait="500ms")
    assert (result.exit_code, states(result)["d.u"]) == (4, "waits")
    assert "the target has no room" in (result.tables[next(n for n in result.tables if n.table == "u")].error or "")
    disk.make_room()
    assert replica.once().exit_code == 0
    assert disk.server.execute("SELECT id, v FROM d.t UNION ALL SELECT id, v FROM d.u") == [(1, 1), (2, 2)]
    assert disk.server.execute("SHOW INDEX FROM d.t WHERE Key_name = 'i'")
