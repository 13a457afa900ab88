"""TiCDC's own sample consumer beside the program, on the same storage and server. Its binary is the user's."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path

from tests.bench.shapes import Shape

_PARAMETERS = "worker-count=16&max-txn-row=2048&time-zone=&batch-dml-enable=false&safe-mode=true"
"""Of its MySQL sink. Without the last two it stops with a duplicate key. Its time zone is the process's (TZ)."""
_LOOK_SECONDS = 0.2
_GIVE_UP_SECONDS = 900


def seconds_of_sample(binary: Path, shape: Shape) -> float:
    """Seconds from its start until the target has the rows of the shape's table: it never ends by itself."""
    command = [
        str(binary),
        f"--upstream-uri={shape.upstream(shape.storage)}",
        f"--downstream-uri={shape.downstream}?{_PARAMETERS}",
        f"--config={shape.config}",
        f"--log-file={shape.work}/sample.log",
        "--flush-interval=1s",
    ]
    begin = time.monotonic()
    process = subprocess.Popen(
        command, env={**os.environ, "TZ": "UTC"}, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        while not _is_there(shape):
            time.sleep(_LOOK_SECONDS)
            if process.poll() is not None:
                raise SystemExit(f"shape {shape.name}: {binary} ended with exit code {process.returncode}")
            if time.monotonic() - begin > _GIVE_UP_SECONDS:
                raise SystemExit(f"shape {shape.name}: {binary} is not done after {_GIVE_UP_SECONDS} s")
        return time.monotonic() - begin
    finally:
        process.kill()
        process.wait()


def _is_there(shape: Shape) -> bool:
    there = shape.server.execute(
        "SELECT COUNT(*) FROM information_schema.tables WHERE table_schema = 'bench' AND table_name = 't'"
    )
    return there == [(1,)] and shape.there() == shape.final
