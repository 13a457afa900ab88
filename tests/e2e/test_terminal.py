"""The program on a terminal: whoever watches sees what it does, also when there is nothing to do."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import shutil
import signal
import struct
import subprocess
import sys
import termios
import time
from pathlib import Path

import pytest

from tests.support.command_line import DEMO

PROGRAM = Path(sys.executable).with_name("storage-consumer")
WAITS = 60
_CODES = re.compile(rb"\x1b\[[0-9;?]*[a-zA-Z]")


class OnTerminal:
    """The program with all of its streams on a terminal."""

    def __init__(self, command: str, folder: Path, upstream: str, *more: str, columns: int = 150) -> None:
        words = [str(PROGRAM), command, "--upstream-uri", upstream, "--tz", "UTC", "--master", "local[1]"]
        words += ["--downstream-uri", f"duckdb:///{folder}/replica.duckdb", *more]
        self.process, self.terminal = pty.fork()
        if not self.process:
            os.environ["TERM"] = "xterm"
            os.execv(words[0], words)
        fcntl.ioctl(self.terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
        self.shown = b""

    def sees(self, text: str) -> bool:
        """Read on until `text` is there, or the program has ended."""
        deadline = time.monotonic() + WAITS
        while text not in _CODES.sub(b"", self.shown).decode(errors="replace"):
            assert time.monotonic() < deadline, self.shown
            ready, _, _ = select.select([self.terminal], [], [], 1)
            try:
                read = os.read(self.terminal, 65536) if ready else None
            except OSError:
                return False
            if read == b"":
                return False
            self.shown += read or b""
        return True

    def ended(self) -> int:
        """Its exit code, once it has ended."""
        assert not self.sees("\x00")
        return os.waitstatus_to_exitcode(os.waitpid(self.process, 0)[1])


@pytest.fixture
def storage(tmp_path: Path) -> str:
    folder = shutil.copytree(DEMO, tmp_path / "storage")
    return f"file://{folder}?protocol=canal-json"


def test_run_shows_its_loads_and_that_it_waits(tmp_path: Path, storage: str) -> None:
    terminal = OnTerminal("run", tmp_path, storage, "--flush-interval", "200ms")
    assert terminal.sees("so far")  # bytes and rows of the loads in hand
    assert re.search(rb"0 B of [0-9.]+ KiB, 0 changes, 0 rows", _CODES.sub(b"", terminal.shown))
    assert terminal.sees("all is applied up to 2026-")
    assert terminal.sees("waits for new files")
    os.kill(terminal.process, signal.SIGINT)
    assert terminal.ended() == 0


def test_a_storage_without_metadata_is_waited_for_in_words(tmp_path: Path, storage: str) -> None:
    (tmp_path / "storage" / "metadata").rename(tmp_path / "metadata")
    terminal = OnTerminal("run", tmp_path, storage, "--flush-interval", "200ms")
    assert terminal.sees("trying again")
    assert terminal.sees("waits to try again")
    (tmp_path / "metadata").rename(tmp_path / "storage" / "metadata")
    assert terminal.sees("succeeded after retries")
    os.kill(terminal.process, signal.SIGTERM)
    assert terminal.ended() == 0


@pytest.mark.parametrize(("command", "code", "moment"), [("run", 4, "waits to try again"), ("once", 4, "so far")])
def test_a_terminal_that_is_closed_ends_it(command: str, code: int, moment: str, tmp_path: Path, storage: str) -> None:
    if command == "run":
        (tmp_path / "storage" / "metadata").unlink()
    terminal = OnTerminal(command, tmp_path, storage, "--flush-interval", "200ms")
    assert terminal.sees(moment)
    began = time.monotonic()
    os.close(terminal.terminal)
    assert os.waitstatus_to_exitcode(os.waitpid(terminal.process, 0)[1]) == code
    assert time.monotonic() - began < 30


def test_nohup_outlives_its_terminal(tmp_path: Path, storage: str) -> None:
    (tmp_path / "storage" / "metadata").rename(tmp_path / "metadata")
    words = [
        "nohup",
        str(PROGRAM),
        "run",
        "--upstream-uri",
        storage,
        "--flush-interval",
        "200ms",
        "--log-format",
        "json",
    ]
    words += ["--downstream-uri", f"duckdb:///{tmp_path}/replica.duckdb"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        while "trying again" not in process.stderr.readline():
            assert process.poll() is None
        process.send_signal(signal.SIGHUP)
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(1)
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 4  # the storage does not answer


def test_inspect_cuts_no_word_at_80_columns(tmp_path: Path) -> None:
    upstream = f"file://{DEMO}?protocol=canal-json"
    program = OnTerminal("inspect", tmp_path, upstream, "--time-range", columns=80)
    assert program.ended() == 0
    shown = _CODES.sub(b"", program.shown).decode()
    for words in ("table files bytes DDL", "table first row last row", "du.s 7 4.1 KiB 2"):
        assert words in " ".join(shown.split()), shown
    assert "2026-11-21T06:00:53.761Z   2026-11-21T06:01:15.585Z" in shown


def test_the_list_of_commands_has_whole_sentences() -> None:
    left = subprocess.run([PROGRAM, "--help"], capture_output=True, text=True, check=True, env={"COLUMNS": "80"})
    assert "..." not in left.stdout.partition("Commands:")[2]
    assert "which tables are stopped and why." in " ".join(left.stdout.split())
