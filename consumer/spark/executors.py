"""The executors of a cluster. They come some seconds after Spark's start, and the number of a job's tasks depends on
their cores. If none comes, jobs would wait without end, and only Spark's own log would show why."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from consumer.errors import NoExecutors
from consumer.spark.internals import executors_of

if TYPE_CHECKING:
    from pyspark import SparkContext

PATIENCE = 180.0
"""Seconds without any executor after which a job is given up. Some clusters must first get an image, or a machine."""
_LOOKS_EVERY = 1.0
_FIRST_SECONDS, _STEADY_SECONDS, _STEADY_PART = 20.0, 0.5, 0.25
"""How long to wait for the first executors, and how long no more must have come until all count as there: at least so
many seconds, and this part of the time that the last one took, as a slow cluster's executors come further apart."""


def wait_for_executors(context: SparkContext) -> None:
    """Waits until the cluster has given the executors that it gives at once. If executors come with the jobs, or if
    none comes for a while, the jobs begin without them."""
    if context.getConf().get("spark.dynamicAllocation.enabled") == "true":
        return
    begin, there, took = time.monotonic(), 0, 0.0
    while (passed := time.monotonic() - begin) < _FIRST_SECONDS:
        if (now := executors_of(context)) != there:
            there, took = now, passed
        if there and passed - took >= max(_STEADY_SECONDS, took * _STEADY_PART):
            return
        time.sleep(0.05)


@contextmanager
def with_executors(context: SparkContext) -> Iterator[None]:
    """A context for the jobs of this thread. Raises NoExecutors, whatever the jobs' result, once there was no executor
    for too long."""
    tag, ended, given_up = f"storage-consumer-{threading.get_ident()}", threading.Event(), threading.Event()
    watch = threading.Thread(target=_watch, args=(context, tag, ended, given_up), name=tag, daemon=True)
    context.addJobTag(tag)
    watch.start()
    try:
        yield
    finally:
        ended.set()
        with suppress(Exception):  # of a JVM that is gone
            context.removeJobTag(tag)
        if given_up.is_set():
            raise NoExecutors(
                f"Spark runs no tasks: {context.master} gave no executor for {PATIENCE:.0f} seconds",
                hint="check that it has workers with free cores and memory (spark.executor.memory), then try again",
            )


def _watch(context: SparkContext, tag: str, ended: threading.Event, given_up: threading.Event) -> None:
    since = time.monotonic()
    with suppress(Exception):  # of a JVM that is gone: its jobs end by themselves
        while not ended.wait(_LOOKS_EVERY):
            if executors_of(context):
                since = time.monotonic()
            elif time.monotonic() - since >= PATIENCE:
                given_up.set()
                context.cancelJobsWithTag(tag)
                return
