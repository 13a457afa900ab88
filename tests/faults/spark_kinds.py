"""What happens to the processes of a Spark task that stands at a point, and how they go on."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from contextlib import suppress

import psutil

from tests.faults.spark_chain import SparkChain

_FROZEN = 0.3
_WRITES_WITHIN = 2.0
"""Seconds in which a worker that goes on has written its rows."""
_ENDS_WITHIN = 15.0
"""Seconds in which Spark ends an executor that it gave up."""


def worker_killed(chain: SparkChain) -> None:
    chain.worker.kill()


def worker_frozen(chain: SparkChain) -> None:
    time.sleep(_FROZEN)
    _wake(chain.worker)


def executor_killed(chain: SparkChain) -> None:
    """The kernel ends the worker that stands: its group has nobody left."""
    chain.executor.kill()
    _wake(chain.worker)


def executor_frozen(chain: SparkChain) -> None:
    chain.executor.suspend()
    time.sleep(_FROZEN)
    _wake(chain.executor, chain.worker)


def node_given_up(chain: SparkChain) -> None:
    """The executor and Spark's own process beside it freeze, too. Spark takes the executor for lost, another one does
    the work, and then the worker goes on: a late attempt. Nobody there can end it before it has written."""
    node = chain.executor.parent()
    assert node is not None
    node.suspend()
    chain.executor.suspend()
    chain.arrive()
    _wake(chain.worker)
    time.sleep(_WRITES_WITHIN)
    _wake(chain.executor, node)
    psutil.wait_procs([chain.worker], _ENDS_WITHIN)


def driver_killed(chain: SparkChain) -> None:
    """The task goes on beside the next driver."""
    chain.end(signal.SIGKILL)
    _wake(chain.worker)
    chain.start()


def machine_killed(chain: SparkChain) -> None:
    """The driver's JVM."""
    for child in chain.driver().children():
        if child.name() == "java":
            child.kill()
    _wake(chain.worker)


def cut_off(chain: SparkChain) -> None:
    chain.target.cut_off()
    _wake(chain.worker)


def target_killed(chain: SparkChain) -> None:
    chain.target.kill()
    _wake(chain.worker)


def target_set_back(chain: SparkChain) -> None:
    chain.target.set_back()
    _wake(chain.worker)


def _wake(*processes: psutil.Process) -> None:
    for process in processes:
        with suppress(psutil.NoSuchProcess):
            process.resume()


KINDS: dict[str, Callable[[SparkChain], None]] = {
    "worker kill -9": worker_killed,
    "worker frozen": worker_frozen,
    "executor kill -9": executor_killed,
    "executor frozen": executor_frozen,
    "node given up": node_given_up,
    "driver kill -9": driver_killed,
    "driver's JVM kill -9": machine_killed,
    "cut off": cut_off,
    "target killed": target_killed,
    "target set back": target_set_back,
}
OF_A_FILE = tuple(name for name in KINDS if name not in ("cut off", "target killed", "target set back"))
"""Those that a DuckDB file knows."""
