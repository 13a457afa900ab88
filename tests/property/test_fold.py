"""The fold of any rendering of a history is the history's end."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from consumer.changes.keyed import fold_keyed
from consumer.errors import CannotBeExact
from consumer.model.times import LOGICAL_BITS
from tests.property.histories import (
    SEEDS,
    TRANSACTIONS,
    Event,
    Row,
    Transaction,
    cut,
    events,
    net_changes,
    partition_of,
    restarted,
    transactions,
)
from tests.support.examples import examples
from tests.support.replay import Change, replay_keyed

EXAMPLES = examples(100)
RESTARTS = st.lists(st.tuples(st.integers(0, 8), st.integers(0, 5)), max_size=2)
KEY = (0, 1)
SCHEMA = pa.schema(
    {"ts": pa.int64(), "put": pa.bool_(), "series": pa.int32(), "rank": pa.int64()}
    | dict.fromkeys(("c0", "c1", "c2"), pa.string())
)
ChangeRow = tuple[int, bool, int, int, str, str, str | None]


def change_table(rows: Sequence[ChangeRow]) -> pa.Table:
    columns = list(zip(*rows, strict=True)) or [()] * len(SCHEMA)
    return pa.table([pa.array(column, field.type) for column, field in zip(columns, SCHEMA, strict=True)], SCHEMA)


def change_row(event: Event, series: int, rank: int, ts: int) -> ChangeRow:
    """A delete carries only its key, as with delete-only-output-handle-key-columns."""
    return (ts, event.put, series, rank, *event.row.key, str(event.row.value) if event.put else None)


def written(history: Sequence[Transaction], partitions: int, unsplit: bool) -> list[list[list[Event]]]:
    """The events of each partition and transaction."""
    series: list[list[list[Event]]] = [[] for _ in range(partitions)]
    for transaction in history:
        made = events(transaction, partitions, unsplit)
        for number, rows in enumerate(series):
            rows.append([event for event in made if partition_of(event.row, partitions) == number])
    return series


def rendered(
    history: Sequence[Transaction],
    partitions: int,
    unsplit: bool,
    restarts: Sequence[tuple[int, int]],
    coarse: bool,
) -> list[ChangeRow]:
    rows: list[ChangeRow] = []
    restarts = [(min(checkpoint, len(history)), extra) for checkpoint, extra in restarts]
    for number, series in enumerate(written(history, partitions, unsplit), 1):
        places = [place for incarnation in restarted(series, restarts) for place in incarnation]
        for rank, (transaction, place) in enumerate(places, 1):
            event = series[transaction][place]
            if coarse:
                ts = event.ts >> LOGICAL_BITS << LOGICAL_BITS
                rows.append(change_row(event, number, -rank if event.tombstone else rank, ts))
            else:
                rows.append(change_row(event, 0, 0, event.ts))
    return rows


def folded_in_parts(rows: Sequence[ChangeRow], random: Random) -> pa.Table:
    """Folds of folds: batches are folded, some of the folds are folded together, and all of them at last."""
    shuffled = random.sample(rows, len(rows)) if random.random() < 0.5 else rows
    parts = [fold_keyed(change_table(part), KEY, final=False) for part in cut(shuffled, random, 4)]
    random.shuffle(parts)
    parts = [fold_keyed(pa.concat_tables(parts[:2]), KEY, final=False), *parts[2:]]
    return fold_keyed(pa.concat_tables(parts), KEY, final=True)


def changes_of(folded: pa.Table) -> list[Change]:
    rows = folded.to_pylist()
    keys = [(row["c0"], row["c1"]) for row in rows]
    assert len(set(keys)) == len(keys)
    return [
        Change(row["put"], key, Row(key, int(row["c2"])) if row["put"] else None)
        for key, row in zip(keys, rows, strict=True)
    ]


@EXAMPLES
@given(TRANSACTIONS, st.integers(1, 3), st.booleans(), RESTARTS, SEEDS)
def test_the_fold_is_the_upstream_state(
    drawn: Any, partitions: int, unsplit: bool, restarts: list[tuple[int, int]], seed: int
) -> None:
    random, history = Random(seed), transactions(drawn)
    rows = rendered(history, partitions, unsplit, restarts, coarse=False)
    assert replay_keyed(net_changes(history)) == history[-1].state
    assert replay_keyed(changes_of(folded_in_parts(rows, random))) == history[-1].state


@EXAMPLES
@given(TRANSACTIONS, st.integers(1, 3), st.booleans(), RESTARTS, SEEDS)
def test_rounds_applied_in_random_order_pass_through_upstream_states(
    drawn: Any, partitions: int, unsplit: bool, restarts: list[tuple[int, int]], seed: int
) -> None:
    random, history = Random(seed), transactions(drawn)
    rows = rendered(history, partitions, unsplit, restarts, coarse=False)
    target: dict[Any, Any] = {}
    applied = 0
    while applied < history[-1].ts:
        left = [transaction for transaction in history if transaction.ts > applied]
        abandoned, reached = sorted(random.choices(left, k=2))
        window = folded_in_parts([row for row in rows if applied < row[0] <= abandoned.ts], random)
        target = replay_keyed(some(changes_of(window), random), target)
        window = folded_in_parts([row for row in rows if applied < row[0] <= reached.ts], random)
        changes = changes_of(window)
        target = replay_keyed(random.sample(changes, len(changes)), target)
        assert target == reached.state
        applied = reached.ts


@EXAMPLES
@given(TRANSACTIONS, st.integers(1, 3), st.booleans(), RESTARTS, SEEDS)
def test_rounds_without_commit_ts_end_in_the_upstream_state(
    drawn: Any, partitions: int, unsplit: bool, restarts: list[tuple[int, int]], seed: int
) -> None:
    """The boundary millisecond is applied again. A key that an UPDATE gave away behind a put of that millisecond is
    refused."""
    random, history = Random(seed), transactions(drawn)
    rows = rendered(history, partitions, unsplit, restarts, coarse=True)
    target: dict[Any, Any] = {}
    stops = sorted({*random.choices(range(len(history)), k=2), len(history) - 1})
    begin = 0
    for stop in stops:
        end = history[stop].ts >> LOGICAL_BITS << LOGICAL_BITS
        window = [row for row in rows if begin <= row[0] <= end]
        if any(is_given_away(window, row[4:6]) for row in window):
            with pytest.raises(CannotBeExact, match="gave that key away within one millisecond"):
                folded_in_parts(window, random)
            return
        changes = changes_of(folded_in_parts(window, random))
        target = replay_keyed(random.sample(changes, len(changes)), target)
        begin = end
    assert target == history[-1].state


def some(changes: Sequence[Change], random: Random) -> list[Change]:
    return random.sample(changes, random.randint(0, len(changes)))


def is_given_away(rows: Iterable[ChangeRow], key: tuple[str, ...]) -> bool:
    return any(
        best[1] and any(-other[3] > best[3] for other in of_series)
        for best, of_series in best_of_series(rows, key).values()
    )


ANY_ROWS = st.lists(
    st.tuples(st.integers(1, 3), st.booleans(), st.integers(0, 2), st.integers(-3, 3), st.sampled_from("ab")).filter(
        lambda row: row[3] >= 0 or not row[1]
    ),
    max_size=12,
)


@EXAMPLES
@given(ANY_ROWS, SEEDS)
def test_folds_of_folds_are_the_fold(drawn: list[tuple[int, bool, int, int, str]], seed: int) -> None:
    """For any rows, held against the rule in its own words."""
    random = Random(seed)
    rows = [(*row, "k", f"{row}") for row in drawn]
    if any(is_given_away(rows, row[4:6]) for row in rows):
        with pytest.raises(CannotBeExact):
            folded_in_parts(rows, random)
        return
    folded = folded_in_parts(rows, random).to_pylist() if rows else []
    assert {row["c0"]: row["c2"] for row in folded} == {key: winner(rows, key)[6] for key in {row[4] for row in rows}}


def winner(rows: Iterable[ChangeRow], key: str) -> ChangeRow:
    return max((best for best, _ in best_of_series(rows, (key, "k")).values()), key=lambda row: (row[1], row[2]))


def best_of_series(rows: Iterable[ChangeRow], key: tuple[str, ...]) -> dict[int, tuple[ChangeRow, list[ChangeRow]]]:
    """Of the key's newest rows, by series: the one that wins there, and all of them."""
    of_key = [row for row in rows if row[4:6] == key]
    newest = [row for row in of_key if row[0] == max(other[0] for other in of_key)]
    of_series = {number: [row for row in newest if row[2] == number] for number in {row[2] for row in newest}}
    return {number: (max(group, key=lambda row: (row[3], row[1])), group) for number, group in of_series.items()}
