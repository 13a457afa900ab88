"""A short soak sees that a program leaks handles, and a row of the target that somebody changed."""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from pathlib import Path

import pytest

from tests.faults.targets import ServerTarget
from tests.s3_server import S3Server
from tests.servers import SqlServer
from tests.soak.chart import draw
from tests.soak.rule import judge
from tests.soak.trial import Plan, Soak
from tests.soak.watch import Sample

_PLAN = Plan(rough=3, calm=9, pause=1.5, tables=5, keeping=1, beat=1, interval=0.2, flush="300ms", seed=3)


def leak() -> None:
    """The command line of this process, without Spark; it opens ten files a second and forgets them."""
    from consumer.app import parts
    from consumer.cli.main import main
    from tests.support.inline_loader import InlineLoader

    def leaking() -> None:
        for _ in range(600):
            time.sleep(0.1)
            os.open(__file__, os.O_RDONLY)

    threading.Thread(target=leaking, daemon=True).start()
    setattr(parts, "SparkLoader", lambda _settings: InlineLoader())  # noqa: B010 - mypy sees no such name there
    main(sys.argv[1:])


def test_a_leak_and_a_wrong_row_are_seen(s3_server: S3Server, fresh_mariadb: SqlServer, tmp_path: Path) -> None:
    (tmp_path / "soak").mkdir()
    words = [sys.executable, "-c", "from tests.soak.test_soak import leak; leak()"]
    soak = Soak(tmp_path / "soak", s3_server, ServerTarget(fresh_mariadb), _PLAN, words)
    outcome = soak.play()
    flat = {verdict.measure: verdict.flat for verdict in outcome.verdicts}
    assert (flat["driver handles"], flat["temporary files"], flat["progress rows"]) == (False, True, True)
    assert [line for line in outcome.problems if " grew " not in line] == []
    assert [kind for _, kind in soak.troubles if kind != "calm"]
    fresh_mariadb.execute("UPDATE e0.two SET u = u + 100 LIMIT 1")
    wrong = [line.partition(":")[0] for line in soak.outcome().problems if " grew " not in line]
    assert wrong == ["kept0, two"]
    soak.keep(tmp_path / "soak.json", outcome)
    assert len(json.loads((tmp_path / "soak.json").read_text())["samples"]) == len(soak.watch.samples)
    assert all(path.stat().st_size > 10_000 for path in draw(soak.watch.samples, outcome.verdicts, [], tmp_path / "s"))


@pytest.mark.parametrize(
    ("grows_by", "objects", "flat"),
    [(0.0, 0, True), (0.02, 0, True), (0.2, 0, False), (0.2, 100_000, True)],
    ids=["not at all", "within the limit", "above it", "with what is new in the storage"],
)
def test_what_is_flat(grows_by: float, objects: int, flat: bool) -> None:
    """A life before the last one does not count, and neither does the first third of that."""
    before = [Sample(at, 1, {"driver MiB": 10.0, "objects": 0}) for at in range(30)]
    last = [
        Sample(
            30 + at, 2, {"driver MiB": 50 + 100 * (at >= 30) * (1 + grows_by * (at - 45) / 30), "objects": objects * at}
        )
        for at in range(90)
    ]
    (verdict,) = judge([*before, *last])
    assert verdict.flat is flat
