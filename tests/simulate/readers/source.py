"""The data source, as Spark calls it: the state of a table at a moment, and its changes of a time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from random import Random
from typing import Any

from consumer.source.data_source import TicdcSource
from tests.simulate.config import options, uri
from tests.simulate.machine import Failure
from tests.simulate.original import DATABASE
from tests.simulate.readers.asking import asked
from tests.simulate.readers.truth import Told, Truth, Values
from tests.simulate.world import World

SIZES = ("1B", "300B", "300B", "32MiB", "32MiB")
"""About how much of the files a task reads."""


def check_state(world: World, truth: Truth, random: Random) -> None:
    """Raises Failure unless the table has upstream's rows of a moment."""
    truth = _as_of_a_moment(truth, random)
    what = f"{truth.name} at {truth.end}"
    found = asked(world, "the state", what, lambda: _rows(world, truth, mode="state"))
    if found is None:
        return
    rows = Counter(values_of(row, truth) for row in found)
    if rows != truth.rows:
        lost, more = (list((one - other).elements()) for one, other in ((truth.rows, rows), (rows, truth.rows)))
        raise Failure(f"the state of {what} differs: missing {lost}, too many {more}")


def check_changes(world: World, truth: Truth, random: Random) -> None:
    """Raises Failure unless each change of a time comes once."""
    truth = _as_of_a_moment(truth, random)
    first, before = random.choice([0, *truth.moments()]), random.random() < 0.6
    first = first if first < truth.end else 0
    given = {"partition_bytes": random.choice(SIZES)}
    given |= ({"from_ts": str(first)} if first else {}) | ({"before": "true"} if before else {})
    what = f"{truth.name} behind {first} and up to {truth.end}"
    found = asked(world, "changes", what, lambda: _rows(world, truth, **given))
    if found is not None:
        try:
            truth.check([told_of(row, truth) for row in found], first, before)
        except Failure as failure:
            raise Failure(f"changes of {what} differ: {failure}") from None


def _as_of_a_moment(truth: Truth, random: Random) -> Truth:
    """As often as not its end."""
    return replace(truth, end=random.choice(truth.moments())) if random.random() < 0.5 else truth


def _rows(world: World, truth: Truth, **more: str) -> list[dict[str, Any]]:
    if truth.end != world.changefeed.checkpoint:
        more["to_ts"] = str(truth.end)
    source = source_of(world, truth.name, **more)
    reader = source.reader(source.schema())
    return [row for part in reader.partitions() for batch in reader.read(part) for row in batch.to_pylist()]


def source_of(world: World, table: str, **more: str) -> TicdcSource:
    """As Spark makes it. Options are written with ``_`` for ``-``."""
    setup = world.history.setup
    return TicdcSource({"path": uri(setup), "tz": "UTC", "table": f"{DATABASE}.{table}", **options(setup), **more})


def told_of(row: Mapping[str, Any], truth: Truth) -> Told:
    before = row.get("_before")
    found = None if before is None else values_of(before, truth)
    return Told(row["_op"], row["_commit_ts"], values_of(row, truth), found)


def values_of(row: Mapping[str, Any], truth: Truth) -> Values:
    """A column that went without a statement is there as long as nobody hears of it."""
    return tuple(None if (value := row.get(name)) is None else str(value) for name in truth.columns)
