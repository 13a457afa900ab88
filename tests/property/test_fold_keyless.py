"""The net count of a table with no key is the upstream's, or it is refused."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import groupby, pairwise
from random import Random

import pyarrow as pa
from hypothesis import assume, given
from hypothesis import strategies as st

from consumer.changes.keyless import FileChanges, fold_keyless
from consumer.errors import CannotBeExact
from consumer.model.names import TableName
from tests.property.histories import SEEDS, cut, restarted
from tests.support.examples import examples
from tests.support.replay import Change, replay_keyless

EXAMPLES = examples(100)
RESTARTS = st.lists(st.tuples(st.integers(0, 6), st.integers(0, 3)), max_size=2)
IMAGES: tuple[str | None, ...] = ("a", "b", "", None)
TRANSACTIONS = st.lists(
    st.lists(st.tuples(st.sampled_from(["insert", "insert", "delete"]), st.integers(0, 3)), min_size=1, max_size=4),
    min_size=1,
    max_size=6,
)
Line = tuple[int, Change]
"""commit-ts and change."""


def history(drawn: Sequence[Sequence[tuple[str, int]]], distinct: bool = False) -> list[list[Line]]:
    """The changes of each transaction, deletes first. Only rows that are there are deleted."""
    there: list[str | None] = []
    made = []
    for ts, statements in enumerate(drawn, 10):
        deletes, inserts = [], []
        for kind, choice in statements:
            if kind == "insert":
                inserts.append(f"{ts}.{len(inserts)}" if distinct else IMAGES[choice])
            elif there:
                deletes.append(there.pop(choice % len(there)))
        there += inserts
        lines = [(ts, Change(False, None, row)) for row in deletes] + [(ts, Change(True, None, row)) for row in inserts]
        made.append(lines or [(ts, Change(True, None, f"row {ts}"))])
    return made


def upstream(transactions: Sequence[Sequence[Line]], after: int = 0, last: int = 1000) -> Counter[object]:
    return replay_keyless(change for lines in transactions for ts, change in lines if after < ts <= last)


def file_changes(series: int, ordinal: int, lines: Sequence[Line]) -> FileChanges:
    table = pa.table(
        {
            "ts": pa.array([ts for ts, _ in lines], pa.int64()),
            "put": pa.array([change.put for _, change in lines], pa.bool_()),
            "series": pa.array([0] * len(lines), pa.int32()),
            "rank": pa.array([0] * len(lines), pa.int64()),
            "c0": pa.array([change.row for _, change in lines], pa.string()),
        }
    )
    return series, ordinal, table


def counted(files: Sequence[FileChanges], parts: Sequence[int] = ()) -> dict[object, int]:
    folded = fold_keyless(files, TableName("d", "t"), parts)
    return dict(zip(folded.column("c0").to_pylist(), folded.column("n").to_pylist(), strict=True))


def in_window(file: FileChanges, after: int, last: int) -> FileChanges:
    series, ordinal, table = file
    inside = [after < ts <= last for ts in table.column("ts").to_pylist()]
    return series, ordinal, table.filter(pa.array(inside, pa.bool_()))


def in_files(series: int, incarnations: Sequence[Sequence[Sequence[Line]]]) -> list[FileChanges]:
    """Each incarnation is a list of files; numbers go on after a restart."""
    files = [lines for incarnation in incarnations for lines in incarnation]
    return [file_changes(series, ordinal, lines) for ordinal, lines in enumerate(files, 1)]


def cut_into_equal_halves(files: Sequence[Sequence[Line]]) -> bool:
    """Whether the rows of one transaction up to a file boundary and the next file's rows of it are the same."""
    so_far: Counter[Line] = Counter()
    for lines in files:
        groups = [Counter(group) for _, group in groupby(lines, key=lambda line: line[0])]
        if groups and so_far == groups[0]:
            return True
        if groups:
            goes_on = len(groups) == 1 and {ts for ts, _ in so_far} == {ts for ts, _ in groups[0]}
            so_far = so_far + groups[0] if goes_on else groups[-1]
    return False


def cut_in_doubt(files: Sequence[FileChanges]) -> bool:
    """Whether one series alone is refused."""
    try:
        counted([(0, ordinal, table) for _, ordinal, table in files]) if files else None
    except CannotBeExact:
        return True
    return False


def clipped(restarts: Sequence[tuple[int, int]], transactions: Sequence[object]) -> list[tuple[int, int]]:
    return [(min(checkpoint, len(transactions)), extra) for checkpoint, extra in restarts]


@EXAMPLES
@given(TRANSACTIONS, st.integers(1, 2), RESTARTS, SEEDS)
def test_the_count_is_the_upstreams_or_refused(
    drawn: list[list[tuple[str, int]]], count: int, restarts: list[tuple[int, int]], seed: int
) -> None:
    """Boundaries anywhere, rounds anywhere. Left out is what no reader can tell: a transaction of equal halves that
    is cut between them looks like one written again."""
    random, transactions = Random(seed), history(drawn)
    files: list[FileChanges] = []
    for number in range(count):
        owned = [[line for line in lines if partition_of(line, count) == number] for lines in transactions]
        incarnations = [
            cut([owned[transaction][place] for transaction, place in places], random, random.randint(1, 4))
            for places in restarted(owned, clipped(restarts, transactions))
        ]
        assume(not any(cut_into_equal_halves(incarnation) for incarnation in incarnations))
        files += in_files(number, incarnations)
    middle, end = random.randint(9, 9 + len(transactions)), 9 + len(transactions)
    for after, last in ((0, middle), (middle, end)):
        try:
            net = counted([in_window(file, after, last) for file in files])
        except CannotBeExact:
            continue
        assert net == upstream(transactions, after, last)


def partition_of(line: Line, partitions: int) -> int:
    return len(str(line[1].row)) % partitions


@EXAMPLES
@given(TRANSACTIONS, RESTARTS, SEEDS)
def test_files_that_hold_whole_transactions_are_never_refused(
    drawn: list[list[tuple[str, int]]], restarts: list[tuple[int, int]], seed: int
) -> None:
    random, transactions = Random(seed), history(drawn)
    whole = [[lines] for lines in transactions]
    incarnations = [
        [
            [line for number, _ in places for line in transactions[number]]
            for places in cut(incarnation, random, random.randint(1, 4))
        ]
        for incarnation in restarted(whole, clipped(restarts, transactions))
    ]
    files = in_files(0, incarnations)
    random.shuffle(files)
    assert counted(files) == upstream(transactions)


@EXAMPLES
@given(TRANSACTIONS, st.lists(st.tuples(st.integers(0, 6), st.integers(0, 12)), max_size=2), SEEDS)
def test_distinct_rows_are_never_refused(
    drawn: list[list[tuple[str, int]]], restarts: list[tuple[int, int]], seed: int
) -> None:
    """Wherever files end and the changefeed breaks off, if a restart goes back beyond the transaction in hand."""
    random, transactions = Random(seed), history(drawn, distinct=True)
    incarnations = [
        [transactions[number][place] for number, place in places]
        for places in restarted(transactions, clipped(restarts, transactions))
    ]
    assume(all(before[-1][0] != after[0][0] for before, after in pairwise(filter(None, incarnations))))
    files = in_files(0, [cut(lines, random, random.randint(1, 4)) for lines in incarnations])
    assert counted(files) == upstream(transactions)


@EXAMPLES
@given(TRANSACTIONS, st.integers(1, 2), RESTARTS, SEEDS)
def test_under_never_split_each_restart_is_a_series_of_its_own(
    drawn: list[list[tuple[str, int]]], partitions: int, restarts: list[tuple[int, int]], seed: int
) -> None:
    """Of each partition, with other restarts; boundaries and rounds anywhere. Refused only for one series alone."""
    random, transactions = Random(seed), history(drawn)
    files: list[FileChanges] = []
    parts: list[int] = []
    for partition in range(partitions):
        owned = [[line for line in lines if partition_of(line, partitions) == partition] for lines in transactions]
        for places in restarted(owned, clipped(restarts, transactions)):
            pieces = cut([owned[transaction][place] for transaction, place in places], random, random.randint(1, 4))
            assume(not cut_into_equal_halves(pieces))
            files += [file_changes(len(parts), ordinal, lines) for ordinal, lines in enumerate(pieces, 1)]
            parts.append(partition)
        random.shuffle(restarts)
    middle, end = random.randint(9, 9 + len(transactions)), 9 + len(transactions)
    for after, last in ((0, middle), (middle, end)):
        seen = [in_window(file, after, last) for file in files]
        if not any(cut_in_doubt([file for file in seen if file[0] == number]) for number in range(len(parts))):
            assert counted(seen, parts) == upstream(transactions, after, last)
