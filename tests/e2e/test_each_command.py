"""Each command as a process, one of them with Spark, one after the other on one replica."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

from consumer.cli.program import COMMANDS
from tests.support.command_line import DEMO, DEMO_TABLES, duckdb_tables

PROGRAM = Path(sys.executable).with_name("storage-consumer")
HERE = ("--in-process-bytes", "4MiB")
STEPS: tuple[tuple[str, int, str, tuple[str, ...]], ...] = (
    ("inspect", 0, "", ()),
    ("check", 0, "", ()),
    ("plan", 0, "", ()),
    ("changes", 0, "", ("--table", "du.t", "--key", "2")),
    ("backfill", 0, "", ("--master", "local[2]")),
    ("once", 0, "", ()),
    ("status", 0, "", ("--check",)),
    ("verify", 0, "", ()),
    ("undo", 0, "", ("--table", "du.t", "--from-ts", "2026-11-21T06:01:21.800Z")),
    ("resync", 0, "", ("--table", "du.t", *HERE)),
    ("skip-ddl", 2, "pending", ("--table", "du.t", "--version", "7")),
    ("retry", 0, "", ("--table", "du.t")),
    ("replay", 0, "", HERE),
    ("load-export", 2, "it is not there", ("no-such-export",)),
    ("run", 0, "", ("--flush-interval", "100ms")),
    ("maintain", 2, "nothing to maintain", ()),
    ("lake-at", 2, "keeps no older versions", ("--moment", "2026-11-21T06:01:21.800Z")),
    ("forget", 0, "", ("--name", "default", "--yes")),
)
"""What is called, how it ends, what its error says, and its flags."""


def test_one_after_the_other(tmp_path: Path) -> None:
    assert sorted(command for command, *_ in STEPS) == sorted(command.name for command in COMMANDS)
    storage = Path(shutil.copytree(DEMO, tmp_path / "storage"))
    for command, code, says, flags in STEPS:
        target = f"duckdb:///{tmp_path}/{'replayed' if command == 'replay' else 'replica'}.duckdb"
        upstream = ("--upstream-uri", f"file://{storage}?protocol=canal-json")
        replica = () if command == "inspect" else ("--downstream-uri", target, "--tz", "UTC")
        left, result, err = _left([command, *upstream, *replica, "--json", *flags])
        assert left == code, (command, result, err)
        assert says in f"{result.get('error')} {result.get('hint')}", (command, result)
        if command not in ("inspect", "check", "plan", "changes"):
            assert duckdb_tables(target) == DEMO_TABLES, command


def _left(words: list[str]) -> tuple[int, dict[str, Any], str]:
    """The exit code, the JSON, and what was logged; `run` gets a signal once it has looked at the storage."""
    process = subprocess.Popen([PROGRAM, *words, "-v"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    if words[0] == "run":
        assert any("round started" in line for line in process.stderr)
        process.send_signal(signal.SIGTERM)
    out, err = process.communicate(timeout=300)
    return process.returncode, json.loads(out.splitlines()[-1]), err
