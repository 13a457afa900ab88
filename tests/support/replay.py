"""What the folds mean, the slow and obvious way: every change applied by itself, in the upstream's order."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping
from typing import NamedTuple

Rows = dict[Hashable, Hashable]


class Change(NamedTuple):
    """One net mutation of a transaction. `key` and `row` are the values of the key's and of all columns."""

    put: bool
    key: Hashable
    row: Hashable


def replay_keyed(
    changes: Iterable[Change], state: Mapping[Hashable, Hashable] | None = None
) -> dict[Hashable, Hashable]:
    """The rows by key after `changes`, begun from `state`."""
    rows = dict(state or {})
    for change in changes:
        if change.put:
            rows[change.key] = change.row
        else:
            rows.pop(change.key, None)
    return rows


def replay_keyless(changes: Iterable[Change], state: Mapping[Hashable, int] | None = None) -> Counter[Hashable]:
    """How often each row is there after `changes`, begun from `state`. Rows that are not there are left out."""
    copies = Counter(state or {})
    for change in changes:
        copies[change.row] += 1 if change.put else -1
    return Counter({row: count for row, count in copies.items() if count})
