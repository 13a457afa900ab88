"""Whether series of one table followed one another, as never-split says, or wrote side by side.

A series holds every row from its first commit-ts to its last. Only the transaction that it ends with can be there in
part: the series was broken off, and its successor sends that transaction whole. So two series hold the same rows where
both have any, but that the one that ends there can lack rows at the very end.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from consumer.codec.change_table import Ints
from consumer.errors import CannotBeExact
from consumer.fold.identity import first_of_equal
from consumer.model.hints import WITH_A_COPY


class _Series(NamedTuple):
    """The part that it writes, its first and last commit-ts, and where its entries are."""

    part: int
    first: int
    last: int
    start: int
    end: int

    def stretch(self, ts: Ints, first: int, last: int) -> slice:
        """Where its entries with first <= commit-ts <= last are."""
        own = ts[self.start : self.end]
        begin, end = np.searchsorted(own, first), np.searchsorted(own, last, side="right")
        return slice(self.start + int(begin), self.start + int(end))


def refuse_side_by_side(part: Ints, series: Ints, ts: Ints, image: Ints, copies: Ints) -> None:
    """Raises CannotBeExact where two series of one part did not follow one another.

    There is one entry, in that order, for each (series, ts, image), with the copies that the series has of it.
    """
    starts = first_of_equal(series)
    ends = np.append(starts[1:], len(series))
    spans = zip(part[starts], ts[starts], ts[ends - 1], starts, ends, strict=True)
    earlier: list[_Series] = []
    for one in sorted(_Series(*map(int, span)) for span in spans):
        earlier = [other for other in earlier if other.part == one.part and other.last >= one.first]
        for other in earlier:
            _compare(other, one, ts, image, copies)
        earlier.append(one)


def _compare(one: _Series, other: _Series, ts: Ints, image: Ints, copies: Ints) -> None:
    first, last = max(one.first, other.first), min(one.last, other.last)
    mine, theirs = one.stretch(ts, first, last), other.stretch(ts, first, last)
    shared_ts, shared_image = np.append(ts[mine], ts[theirs]), np.append(image[mine], image[theirs])
    order = np.lexsort((shared_image, shared_ts))
    rows = first_of_equal(shared_ts[order], shared_image[order])
    more = np.add.reduceat(np.append(copies[mine], -copies[theirs])[order], rows)
    at = shared_ts[order][rows]
    one_lacks, other_lacks = more < 0, more > 0
    broken_off = at == last
    wrong = one_lacks & ~(broken_off & (one.last == last)) | other_lacks & ~(broken_off & (other.last == last))
    if np.any(one_lacks & broken_off) and np.any(other_lacks & broken_off):
        wrong |= broken_off
    if np.any(wrong):
        raise CannotBeExact(
            f"two series of files wrote side by side: at commit-ts {at[wrong][0]} one has rows "
            "that the other lacks, so never-split is not true of this table",
            hint=f"take it out of never-split and give it a primary key; {WITH_A_COPY}",
        )
