"""``python -m tests.support.page_scene docs/page.png`` draws the picture of the page, by headless Chromium."""

from __future__ import annotations

import math
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from consumer.model.events import (
    Idle,
    Recorded,
    RoundFinished,
    RoundStarted,
    StepFinished,
    WorkMoved,
    WorkStarted,
    WorkUnit,
)
from consumer.model.hints import resync_command
from consumer.model.load import LoadPart
from consumer.model.names import TableName
from consumer.model.progress import AuditRow, Progress, State, TableProgress
from consumer.model.times import ms_to_tso
from consumer.observe.http import serving
from consumer.observe.live import SAMPLE_SECONDS, Identity, Live
from consumer.observe.page import site

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
_FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
]
_HOURS = 3.0


def chromium(url: str, *flags: str) -> str:
    """What Chromium prints for `url`."""
    assert CHROMIUM is not None
    with tempfile.TemporaryDirectory() as profile:
        command = [CHROMIUM, *_FLAGS, f"--user-data-dir={profile}", *flags, url]
        return subprocess.run(command, check=True, capture_output=True, text=True, timeout=120).stdout


def scene(names: list[TableName]) -> Live:
    """Three hours of a consumer of tables, of which the first one is stopped, with a load under way."""
    clock = [time.time() - _HOURS * 3600]
    identity = Identity(
        "prod",
        "s3://changes/prod?protocol=canal-json",
        "mysql://replica@db.internal:3306/",
        "--upstream-uri 's3://changes/prod?protocol=canal-json' --downstream-uri mysql://replica@db.internal:3306/",
        [("flush-interval", '"5s"'), ("http", '"127.0.0.1:9464"'), ("tz", '"UTC"')],
    )
    live = Live(identity, lambda: clock[0])

    def ago(seconds: float) -> int:
        return ms_to_tso(int((clock[0] - seconds) * 1000))

    error = f"{names[0]}: line 12 of CDC00000000000000000003.json: the value of `price` is no DECIMAL(10,2)"
    hint = "correct the file, or load the table again: " + resync_command(names[0])
    stopped = {names[0]: TableProgress(ago(-_HOURS * 3600 + 700), State.STOPPED, error, hint)}
    for number in range(int(_HOURS * 3600 / SAMPLE_SECONDS)):
        clock[0] += SAMPLE_SECONDS
        wave = math.sin(number / 40) + math.sin(number / 7) / 3 + 1.5
        tables = stopped if number > 660 else {}
        live.tell(RoundStarted(ago(2), 20, 40, 10_000_000, names))
        live.tell(Recorded(Progress("s3://changes/prod", ago(3 + 6 * wave), tables, time_zone="UTC")))
        name = names[number * 7 % 60]
        live.tell(StepFinished(AuditRow("load", name, 0, ago(2), puts=int(90_000 * wave), deletes=700), 2.0, 9_000_000))
        live.tell(RoundFinished(ago(2), 3.2, len(tables), 0))
        live.tell(Idle(ago(3)))
        live.beat()
    query = "ALTER TABLE `orders` ADD COLUMN `note` VARCHAR(200) DEFAULT ''"
    live.tell(StepFinished(AuditRow("ddl", names[3], 0, ago(9), statement=query), 0.4))
    work = WorkUnit((names[3],), 4, 50_000_000)
    live.tell(RoundStarted(ago(2), 20, 40, 80_000_000, names))
    live.tell(WorkStarted(work))
    live.tell(WorkMoved(work, LoadPart(31_000_000, 200_000, 150_000)))
    return live


if __name__ == "__main__":
    tables = [TableName(f"shop_{number % 40}", f"orders_{number}") for number in range(5000)]
    with serving(site([scene(tables)], 600, ""), ("127.0.0.1", 0), "http") as address:
        chromium(address, "--window-size=1200,1000", f"--screenshot={Path(sys.argv[1]).resolve()}")
