"""The executors of a cluster. They come some seconds after Spark's start, and how many tasks a job has goes by their
cores. Where none comes, jobs would wait without end, and only Spark's own log would say why."""

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
"""How long the first executors are waited for, and for how long no more have come when all are there: at least so many
seconds, and this part of the time that the last one took, as a slow cluster's come further apart."""


def wait_for_executors(context: SparkContext) -> None:
    """Until the cluster has given those that it gives at once. Where executors come with the jobs, and where none
    comes for a while, the jobs begin without."""
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
    """Around the jobs of this thread. Raises NoExecutors, whatever came of them, once there was no executor for too
    long."""
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
