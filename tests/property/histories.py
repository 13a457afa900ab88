"""Random upstream histories, and the change rows that TiCDC makes of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from random import Random
from typing import NamedTuple

from hypothesis import strategies as st

from consumer.model.times import LOGICAL_BITS
from tests.support.replay import Change

KEYS = (("", "ab"), ("a", "b"), ("ab", ""), ("a\0", "b"), ("12345678", "9"), ("12345678", "90"))


class Row(NamedTuple):
    key: tuple[str, str]
    value: int


class Mutation(NamedTuple):
    """What one transaction did to one row: None before an insert, None after a delete."""

    before: Row | None
    after: Row | None


class Transaction(NamedTuple):
    ts: int
    mutations: list[Mutation]
    state: dict[tuple[str, str], Row]
    """Every row by key when it had committed."""


class Event(NamedTuple):
    """One change as TiCDC writes it. `tombstone`: the old key of an UPDATE that was not split."""

    ts: int
    put: bool
    row: Row
    tombstone: bool = False


STATEMENTS = st.tuples(
    st.sampled_from(["write", "write", "delete", "replace", "move", "move", "rotate"]),
    st.integers(0, len(KEYS) - 1),
    st.integers(0, len(KEYS) - 1),
)
TRANSACTIONS = st.lists(st.tuples(st.booleans(), st.lists(STATEMENTS, min_size=1, max_size=4)), min_size=1, max_size=8)
"""(whether a new millisecond has begun, statements)"""
SEEDS = st.integers(0, 2**32)
"""For the choices that make no difference: shuffles and cuts."""


def transactions(drawn: Iterable[tuple[bool, Sequence[tuple[str, int, int]]]]) -> list[Transaction]:
    """Runs the drawn statements. Rows have an identity beside their key, as in a table whose key is not clustered."""
    rows: dict[int, Row] = {}
    numbers = iter(range(1, 1_000_000))
    ts = 1000 << LOGICAL_BITS
    history = []
    for new_millisecond, statements in drawn:
        ts = ((ts >> LOGICAL_BITS) + 1) << LOGICAL_BITS if new_millisecond else ts + 1
        before = dict(rows)
        for kind, first, second in statements:
            _run(rows, numbers, kind, first, second)
        changed = [row for row in {**before, **rows} if before.get(row) != rows.get(row)]
        mutations = [Mutation(before.get(row), rows.get(row)) for row in changed]
        history.append(Transaction(ts, mutations, {row.key: row for row in rows.values()}))
    return history


def _run(rows: dict[int, Row], numbers: Iterator[int], kind: str, first: int, second: int) -> None:
    at = {row.key: number for number, row in rows.items()}
    here, there = at.get(KEYS[first]), at.get(KEYS[second])
    if kind in ("delete", "replace") and here is not None:
        del rows[here]
    if kind == "replace" or (kind == "write" and here is None):
        rows[next(numbers)] = Row(KEYS[first], next(numbers))
    elif kind == "write" and here is not None:
        rows[here] = Row(KEYS[first], next(numbers))
    elif kind == "move" and here is not None and first != second:
        rows[here] = Row(KEYS[second], rows[here].value)
        if there is not None:
            rows[there] = Row(KEYS[first], rows[there].value)
    elif kind == "rotate":
        turned = {number: KEYS[(KEYS.index(row.key) + 1) % len(KEYS)] for number, row in rows.items()}
        rows.update({number: Row(key, rows[number].value) for number, key in turned.items()})


def net_changes(history: Iterable[Transaction]) -> Iterator[Change]:
    """One change a key and transaction, as TiDB has them, deletes first."""
    for transaction in history:
        puts = {row.key: row for _, row in transaction.mutations if row}
        gone = {row.key: row for row, _ in transaction.mutations if row and row.key not in puts}
        yield from (Change(False, key, row) for key, row in gone.items())
        yield from (Change(True, key, row) for key, row in puts.items())


def events(transaction: Transaction, partitions: int, unsplit: bool) -> list[Event]:
    """Sorted as TiCDC does: deletes, updates, inserts. A row that changes its partition is always split."""
    deletes, updates, inserts = [], [], []
    for before, after in transaction.mutations:
        stays = before and after and partition_of(before, partitions) == partition_of(after, partitions)
        if before and after and stays and before.key == after.key:
            updates.append(Event(transaction.ts, True, after))
        elif before and after and stays and unsplit:
            updates += [Event(transaction.ts, True, after), Event(transaction.ts, False, before, tombstone=True)]
        else:
            deletes += [Event(transaction.ts, False, before)] if before else []
            inserts += [Event(transaction.ts, True, after)] if after else []
    return deletes + updates + inserts


def partition_of(row: Row, partitions: int) -> int:
    return row.value % partitions


def restarted(written: Sequence[Sequence[object]], restarts: Sequence[tuple[int, int]]) -> list[list[tuple[int, int]]]:
    """What each incarnation of a changefeed writes of one series: (transaction, place in it) in order.

    `written` holds the series' rows of each transaction. At each restart ``(checkpoint, extra)`` every transaction
    before `checkpoint` was written, and `extra` rows more; the next incarnation begins at `checkpoint`.
    """
    incarnations = []
    begin = 0
    for checkpoint, extra in [*restarts, (len(written), 0)]:
        places = [(number, place) for number in range(begin, len(written)) for place in range(len(written[number]))]
        complete = sum(number < checkpoint for number, _ in places)
        incarnations.append(places[: complete + extra])
        begin = checkpoint
    return incarnations


def cut(items: Sequence[object], random: Random, pieces: int) -> list[list[object]]:
    """`items` in at most `pieces` consecutive pieces, some of them empty."""
    ends = sorted(random.randint(0, len(items)) for _ in range(pieces - 1))
    return [list(items[begin:end]) for begin, end in zip([0, *ends], [*ends, len(items)], strict=True)]
