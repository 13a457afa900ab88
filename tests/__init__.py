"""The tests. A target in memory, which ends with its process, is known to all of them."""

from consumer.sink import TARGETS

TARGETS["memory"] = "tests.support.memory.sink"
