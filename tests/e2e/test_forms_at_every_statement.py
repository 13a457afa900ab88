"""Forms on servers, where one statement of a run meets a fault: no change is lost, none is there twice."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from tests.e2e.test_forms_by_hand import MS, Formed, rows_and_statements, wanted
from tests.servers import SqlServer
from tests.support.crashes import Crash
from tests.support.feed import Feed
from tests.support.server_faults import FAULTS, Fault, Fuse, faulty


def moments(
    server: SqlServer,
    folder: Path,
    form: str,
    fault: Fault,
    level: str,
    numbers: Sequence[int],
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[tuple[int, str]]:
    """Runs with a fault at each of the statements `numbers`, as far as there is one; yields its number and text."""
    replica = Formed(Feed(folder), server.url(), server.execute, form)
    replica.feed.database("d", MS)
    rows_and_statements(replica.feed)
    columns, rows = wanted(form)
    for moment in numbers:
        server.drop_all()
        assert replica.once(12 * MS, consistency=level).exit_code == 0
        replica.feed.checkpoint(20 * MS)
        fuse = Fuse(fault, moment)
        with faulty(fuse, monkeypatch):
            try:
                ended = replica.once(max_wait="20s", consistency=level).exit_code
            except Crash:
                ended = -9
        # 4: a busy machine took longer than the time for retries.
        assert ended in ((-9,) if fuse.burnt and fault.startswith("killed") else (0, 4)), (moment, fuse.statement)
        if ended:
            server.kill_clients()
            assert replica.once(20 * MS, consistency=level).exit_code == 0, (moment, fuse.statement)
        assert replica.rows(columns) == rows, (moment, fuse.statement)
        assert replica.once(30 * MS, consistency=level).exit_code == 0
        assert replica.rows(columns) == rows, (moment, fuse.statement)
        if not fuse.burnt:
            return
        yield moment, fuse.statement


@pytest.mark.parametrize(
    ("name", "fault", "level"),
    [
        *(("fresh_mariadb", fault, "row") for fault in FAULTS),
        ("fresh_mariadb", "lost", "snapshot"),
        ("fresh_mariadb", "killed behind", "snapshot"),
        ("fresh_mysql", "lost", "row"),
        ("fresh_mysql", "killed behind", "snapshot"),
    ],
)
def test_history(
    name: str,
    fault: Fault,
    level: str,
    request: pytest.FixtureRequest,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """At some of its statements; each of the kinds begins at another one."""
    first = FAULTS.index(fault) * 7
    server: SqlServer = request.getfixturevalue(name)
    met = list(moments(server, tmp_path / "cdc", "history", fault, level, range(first, 1000, 29), monkeypatch))
    assert len(met) > 4
