"""Parts of a running load: Spark's accumulators bring them to the driver as each task ends. This is executor code, too:
it imports nothing of the driver."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

from pyspark.accumulators import AccumulatorParam

from consumer.model.load import LoadPart
from consumer.ports import Moved

if TYPE_CHECKING:
    from pyspark import Accumulator, SparkContext

_Reported = tuple[tuple[int, LoadPart], ...]
"""Parts, each with the number of its load."""


class _ToDriver(AccumulatorParam[_Reported]):  # type: ignore[misc]  # pyspark is not followed
    """On an executor it gathers what a task reports. On the driver it passes that on and keeps nothing."""

    def __init__(self, tell: Callable[[int, LoadPart], None] | None = None) -> None:
        self._tell = tell

    def __reduce__(self) -> tuple[Any, ...]:
        return _ToDriver, ()

    def zero(self, value: _Reported) -> _Reported:
        return ()

    def addInPlace(self, value1: _Reported, value2: _Reported) -> _Reported:  # noqa: N802
        if self._tell is None:
            return value1 + value2
        for number, part in value2:
            self._tell(number, part)
        return ()


class PartsOfLoads:
    """One accumulator for each session, for all loads. Late reports of a load find no listener and have no effect."""

    def __init__(self, context: SparkContext) -> None:
        self._listeners: dict[int, Moved] = {}
        self._numbers = itertools.count()
        self._reported: Accumulator[_Reported] = context.accumulator((), _ToDriver(self._tell))

    @contextmanager
    def of_load(self, moved: Moved) -> Iterator[Moved]:
        """Gives the function that the tasks of one load call, which can be pickled; `moved` is called with the parts
        within the context."""
        number = next(self._numbers)
        self._listeners[number] = moved
        try:
            yield partial(_add, self._reported, number)
        finally:
            del self._listeners[number]

    def _tell(self, number: int, part: LoadPart) -> None:
        listener = self._listeners.get(number)
        if listener is not None:
            listener(part)


def _add(reported: Accumulator[_Reported], number: int, part: LoadPart) -> None:
    """Adds a part, on an executor."""
    reported.add(((number, part),))
