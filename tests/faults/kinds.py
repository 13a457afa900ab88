"""What happens to a consumer that stands at a point, or to its target, and how it goes on."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable

from tests.faults.chain import Chain

_FROZEN = 0.2
"""Seconds. Nothing in the program or a server takes notice of less than many more."""


def killed(chain: Chain) -> None:
    chain.program.send(signal.SIGKILL)


def frozen(chain: Chain) -> None:
    time.sleep(_FROZEN)
    chain.program.send(signal.SIGCONT)


def overtaken(chain: Chain) -> None:
    """The target takes the frozen consumer for dead, another one does the work, and the first wakes up."""
    chain.target.cut_off()
    chain.run()
    chain.program.send(signal.SIGCONT)


def machine_killed(chain: Chain) -> None:
    """The JVM of a command that writes to a lake."""
    chain.program.kill_machine()
    chain.program.send(signal.SIGCONT)


def cut_off(chain: Chain) -> None:
    chain.target.cut_off()
    chain.program.send(signal.SIGCONT)


def target_killed(chain: Chain) -> None:
    chain.target.kill()
    chain.program.send(signal.SIGCONT)


def target_set_back(chain: Chain) -> None:
    chain.target.set_back()
    chain.program.send(signal.SIGCONT)


def interrupted(chain: Chain) -> None:
    chain.program.send(signal.SIGTERM)
    chain.program.send(signal.SIGCONT)


KINDS: dict[str, Callable[[Chain], None]] = {
    "kill -9": killed,
    "frozen": frozen,
    "overtaken": overtaken,
    "SIGTERM": interrupted,
    "JVM kill -9": machine_killed,
    "cut off": cut_off,
    "target killed": target_killed,
    "target set back": target_set_back,
}
OF_A_FILE = ("kill -9", "frozen", "overtaken", "SIGTERM")
"""Those that a DuckDB file knows."""
OF_A_LAKE = (*OF_A_FILE, "JVM kill -9")
OF_A_SERVER = tuple(name for name in KINDS if name != "JVM kill -9")
OF_A_TIDB = tuple(name for name in OF_A_SERVER if name != "target set back")
"""One of several servers that hold the rows has them all."""
