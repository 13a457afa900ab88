"""Tables with no key: computes the window's net count of every distinct row.

TiCDC writes at least once, and equal rows are several rows. So a row that is written again must not count as a second,
equal row. The order of a series shows the difference: within a run (a stretch in which commit-ts does not fall) every
row of the upstream is written once, and a restart begins a new run.

Two series that hold the same row can be two things: two spans of a split table, each with a row of its own; or two
incarnations of one writer, which was restarted or moved and sends rows again under a new id. The files do not show
which. An operator who knows that the changefeed never splits the table can declare it (never-split).

Date folders of one writer whose order is not known are series, too, but they are never two spans: each begins a new
run. It is only unknown whether a transaction continues from one into another, so the rule of file boundaries holds
there.

Under never-split series follow one another. A series holds every row from its first commit-ts to its last. Only its
last transaction can be incomplete: the series was broken off, and its successor sends that transaction whole. So two
series hold the same rows in the stretch that both have, except that the one that ends there can lack rows at its very
end.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from itertools import pairwise
from operator import itemgetter
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from consumer.changes.identity import first_of_equal, last_of, row_codes
from consumer.changes.keyed import COMMIT_TS
from consumer.codec.change_table import Ints
from consumer.errors import CannotBeExact, Code
from consumer.model.hints import FROM_A_NEW_PREFIX, WITH_A_COPY
from consumer.model.names import TableName, qualified

FileChanges = tuple[int, int, pa.Table]
"""Series, ordinal of a file in its series, and the file's change table with its rows in file order."""

_META = ("ts", "put", "series", "rank")
_KEYED = f"give the table a primary key; {WITH_A_COPY}"


def fold_keyless(
    files: Sequence[FileChanges],
    table: TableName,
    parts: Sequence[int] = (),
    commit_ts: str = COMMIT_TS,
    writers: Sequence[int] = (),
) -> pa.Table:
    """Returns the columns ``n int64, c0 .. cN``: one row for each distinct row image whose inserts minus deletes, n, is
    not 0.

    `files`, one or more, are all files of `table` and one window in any order; entries of the same series and ordinal
    are parts of one file, in the order given. Images are compared bytewise, and null equals null.

    A row that was written again counts once: for each (series, commit-ts, put or delete, image) the greatest count in
    any one run counts. A run ends where commit-ts falls. If a file begins with the commit-ts that the file before ends
    with, its rows of that commit-ts begin a new run if they equal all rows of it so far, and continue the run if they
    share none.

    `parts`, if given, declares that one series at a time writes a part of the table, as never-split does: it has the
    part of each series number. Then the greatest count in any one series of the part counts.

    `writers`, if given, has the writer of each series number: the series of one writer are its date folders.

    `commit_ts` is as in `fold_keyed`.

    Raises CannotBeExact (without the table's name) in four cases: rows at a file boundary share some rows but not all;
    two writers (parts) hold the same row at the same commit-ts; two series of one part wrote at the same time; rows
    have no commit-ts.
    """
    changes, codes, positions, copies = _counted(files, table, parts, commit_ts, writers)
    rows, count = changes.drop_columns(list(_META)), int(codes.max(initial=-1)) + 1
    put = changes.column("put").to_numpy()[positions]
    net = np.zeros(count, dtype=np.int64)
    np.add.at(net, codes[positions], np.where(put, copies, -copies))
    kept = np.flatnonzero(net)
    row_of_code = last_of(codes, np.arange(len(codes)), count)
    return rows.take(pa.array(row_of_code[kept])).add_column(0, "n", pa.array(net[kept]))


def every_change(
    files: Sequence[FileChanges],
    table: TableName,
    parts: Sequence[int] = (),
    commit_ts: str = COMMIT_TS,
    writers: Sequence[int] = (),
) -> pa.Table:
    """Returns each change of these files once, in file order. Parameters and errors are those of `fold_keyless`."""
    changes, _, positions, copies = _counted(files, table, parts, commit_ts, writers)
    return changes.take(pa.array(np.sort(np.repeat(positions, copies))))


def _counted(
    files: Sequence[FileChanges], table: TableName, parts: Sequence[int], commit_ts: str, writers: Sequence[int]
) -> tuple[pa.Table, Ints, Ints, Ints]:
    """Returns four things: all changes; a number for each that equal images share; the position of one row for each
    (commit-ts, put or delete, image); and how often that row was written, without the times that it was written
    again."""
    ordered = sorted(files, key=itemgetter(0, 1))
    changes = pa.concat_tables([table for _, _, table in ordered])
    _refuse_coarse(changes, commit_ts)
    if changes.num_rows == 0:
        none = np.zeros(0, np.int64)
        return changes, none, none, none
    rows = changes.drop_columns(list(_META))
    sizes = [table.num_rows for _, _, table in ordered]
    series = np.repeat([number for number, _, _ in ordered], sizes)
    ordinal = np.repeat([number for _, number, _ in ordered], sizes)
    ts: Ints = changes.column("ts").to_numpy()
    put: npt.NDArray[np.bool_] = changes.column("put").to_numpy()
    codes, _ = row_codes(rows.columns)
    image = codes * 2 + put

    run = _runs(series, ordinal, ts, image)
    writer = np.asarray(writers)[series] if writers else series
    _refuse_cut(writer, series, ordinal, run, ts, image)
    counted, copies = _most_in_a_run(writer, run, ts, image)
    if parts:
        owner = np.asarray(parts)[series[counted]]
        refuse_overlapping_series(owner, writer[counted], ts[counted], image[counted], copies)
        most = _greatest(owner, ts[counted], image[counted], copies)
        counted, copies = counted[most], copies[most]
    _refuse_shared(ts[counted], image[counted], table)
    return changes, codes, counted, copies


def _refuse_coarse(changes: pa.Table, commit_ts: str) -> None:
    if np.any(changes.column("rank").to_numpy()) or np.any(changes.column("series").to_numpy()):
        raise CannotBeExact(
            "the rows have no commit-ts, without which rows of a table with no key that were written again look the"
            " same as equal rows",
            hint=f"set {commit_ts}, {FROM_A_NEW_PREFIX}",
            code=Code.NO_KEY,
        )


def _runs(series: Ints, ordinal: Ints, ts: Ints, image: Ints) -> Ints:
    """Returns the number of each row's run. A run lies in one series."""
    same_series = series[1:] == series[:-1]
    new_run = np.concatenate([[True], ~same_series | (ts[1:] < ts[:-1])])
    new_ts = np.concatenate([[True], ts[1:] != ts[:-1]]) | new_run
    new_file = np.concatenate([[False], same_series & (ordinal[1:] != ordinal[:-1])])
    groups = np.flatnonzero(new_ts)
    ends = np.append(np.flatnonzero(new_ts | new_file), len(ts))
    begun = 0
    for boundary in np.flatnonzero(new_file & ~new_ts):
        begun = max(begun, int(groups[np.searchsorted(groups, boundary) - 1]))
        end = ends[np.searchsorted(ends, boundary, side="right")]
        if _written_again(image[begun:boundary], image[boundary:end], ts[boundary]):
            new_run[boundary] = True
            begun = int(boundary)
    return np.cumsum(new_run)


def _written_again(earlier: Ints, later: Ints, ts: int) -> bool:
    """Returns whether the rows after a file boundary repeat those before it. False means that they continue them.
    Raises CannotBeExact where they share only some."""
    if np.array_equal(np.sort(earlier), np.sort(later)):
        return True
    if np.intersect1d(earlier, later).size:
        raise CannotBeExact(
            f"the rows of commit-ts {ts} on the two sides of a file boundary are neither all the same nor all "
            "different, so rows written again look the same as equal rows",
            hint=_KEYED,
            code=Code.NO_KEY,
        )
    return False


def _refuse_cut(writer: Ints, series: Ints, ordinal: Ints, run: Ints, ts: Ints, image: Ints) -> None:
    """Raises CannotBeExact where a transaction may continue in another series of its writer, with rows that it had
    already."""
    if np.array_equal(writer, series):
        return
    first = first_of_equal(run, ts)
    files = first_of_equal(series, ordinal)
    begins, ends = np.isin(first, files), np.isin(np.append(first[1:], len(ts)), np.append(files, len(ts)))
    groups = [slice(*span) for span in pairwise((*first.tolist(), len(ts)))]
    ended = defaultdict(list)
    for number in np.flatnonzero(ends):
        ended[int(writer[first[number]]), int(ts[first[number]])].append(groups[number])
    for number in np.flatnonzero(begins):
        row = first[number]
        for earlier in ended[int(writer[row]), int(ts[row])]:
            if series[earlier.start] != series[row]:
                _written_again(image[earlier], image[groups[number]], ts[row])


def _most_in_a_run(series: Ints, run: Ints, ts: Ints, image: Ints) -> tuple[Ints, Ints]:
    """Returns one row of each (series, ts, image), and its greatest count in one run."""
    order = np.lexsort((image, ts, run))
    first = first_of_equal(run[order], ts[order], image[order])
    rows = order[first]
    copies = np.diff(np.append(first, len(order)))
    most = _greatest(series[rows], ts[rows], image[rows], copies)
    return rows[most], copies[most]


def _greatest(group: Ints, ts: Ints, image: Ints, copies: Ints) -> Ints:
    """Returns the position with the most copies for each (group, ts, image), ordered by these."""
    order = np.lexsort((-copies, image, ts, group))
    return order[first_of_equal(group[order], ts[order], image[order])]


def _refuse_shared(ts: Ints, image: Ints, table: TableName) -> None:
    order = np.lexsort((image, ts))
    ts, image = ts[order], image[order]
    shared = np.flatnonzero((ts[1:] == ts[:-1]) & (image[1:] == image[:-1]))
    if shared.size:
        raise CannotBeExact(
            f"two series of files hold the same row at commit-ts {ts[shared[0]]}, so a row written again looks the"
            " same as an equal row",
            hint=f"where the changefeed never splits this table, set never-split = ['{qualified(*table)}'] in"
            f" [consumer] and run again; else {_KEYED}",
            code=Code.NO_KEY,
        )


class _Series(NamedTuple):
    """The part that a series writes, its first and last commit-ts, and where its entries start and end."""

    part: int
    first: int
    last: int
    start: int
    end: int

    def stretch(self, ts: Ints, first: int, last: int) -> slice:
        """Returns where the entries with first <= commit-ts <= last are."""
        series_ts = ts[self.start : self.end]
        begin, end = np.searchsorted(series_ts, first), np.searchsorted(series_ts, last, side="right")
        return slice(self.start + int(begin), self.start + int(end))


def refuse_overlapping_series(part: Ints, series: Ints, ts: Ints, image: Ints, copies: Ints) -> None:
    """Raises CannotBeExact where two series of one part did not follow one another.

    There is one entry for each (series, ts, image), in that order, with the number of copies that the series has of it.
    """
    starts = first_of_equal(series)
    ends = np.append(starts[1:], len(series))
    spans = zip(part[starts], ts[starts], ts[ends - 1], starts, ends, strict=True)
    earlier: list[_Series] = []
    for current in sorted(_Series(*map(int, span)) for span in spans):
        earlier = [other for other in earlier if other.part == current.part and other.last >= current.first]
        for other in earlier:
            _compare(other, current, ts, image, copies)
        earlier.append(current)


def _compare(first_series: _Series, second_series: _Series, ts: Ints, image: Ints, copies: Ints) -> None:
    first, last = max(first_series.first, second_series.first), min(first_series.last, second_series.last)
    first_stretch, second_stretch = first_series.stretch(ts, first, last), second_series.stretch(ts, first, last)
    shared_ts, shared_image = (
        np.append(ts[first_stretch], ts[second_stretch]),
        np.append(image[first_stretch], image[second_stretch]),
    )
    order = np.lexsort((shared_image, shared_ts))
    rows = first_of_equal(shared_ts[order], shared_image[order])
    surplus = np.add.reduceat(np.append(copies[first_stretch], -copies[second_stretch])[order], rows)
    image_ts = shared_ts[order][rows]
    first_lacks, second_lacks = surplus < 0, surplus > 0
    broken_off = image_ts == last
    wrong = first_lacks & ~(broken_off & (first_series.last == last)) | second_lacks & ~(
        broken_off & (second_series.last == last)
    )
    if np.any(first_lacks & broken_off) and np.any(second_lacks & broken_off):
        wrong |= broken_off
    if np.any(wrong):
        raise CannotBeExact(
            f"two series of files wrote side by side: at commit-ts {image_ts[wrong][0]} one has rows "
            "that the other lacks, so never-split is not true of this table",
            hint=f"take it out of never-split and give it a primary key; {WITH_A_COPY}",
            code=Code.NO_KEY,
        )
