"""How loads become jobs: how large a task is, and how many there are. Sizes are bytes of change files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

from consumer.codec import protocol_of
from consumer.model.load import FileSlice, LoadTask

Group: TypeAlias = Sequence[FileSlice]
"""Slices that are decoded together."""

PACKED_BYTES = 64 << 20
"""A table with more change bytes than this is loaded by several tasks, if its target allows."""
SHARE_BYTES = 8 << 20
"""Change bytes that are worth a packed task of their own."""
LARGEST_SHARE_BYTES, LARGEST_SHARE_TABLES = 256 << 20, 2000
"""The most bytes and tables of a packed task: nothing of it is recorded or reported before its end."""
DECODE_BYTES = 40 << 20
"""The bytes of slices that are decoded together, as one of a large file."""
GROUPS_OF_A_TASK = 4
"""A task's start takes as long as decoding 5 MB, so it decodes up to this many groups, one after the other."""
BUCKET_BYTES = 128 << 20
"""Change bytes whose folded rows one bucket holds; it takes about a third of that in memory."""
BATCH_BYTES = 48 << 20
"""The bytes of rows in memory that are folded and written together, if they are of several buckets."""
MOST_PARTS = 100_000
"""The most parts of buckets: the driver holds their names."""


def weight_of(task: LoadTask) -> int:
    """Returns the bytes by which the memory of the rows is measured."""
    return task.bytes * protocol_of(task.dialect).density


def is_small(weight: int) -> bool:
    return weight <= PACKED_BYTES


def is_large(task: LoadTask) -> bool:
    """Returns whether a job of several tasks loads it."""
    return not is_small(weight_of(task)) and bool(task.target.key) and not task.target.in_one_call


def shared_out(groups: Sequence[Group], cores: int) -> list[Sequence[Group]]:
    """Returns the groups of each task that decodes: fewer and fewer, so that the last tasks end at about the same
    time."""
    shares: list[Sequence[Group]] = []
    begin = 0
    while begin < len(groups):
        count = min(GROUPS_OF_A_TASK, -(-(len(groups) - begin) // (2 * cores)))
        shares.append(groups[begin : begin + count])
        begin += count
    return shares


def buckets_of(weight: int, at_a_time: int) -> int:
    """Returns the number of buckets: a multiple of those that are written at a time, so that none waits for the last
    one."""
    return -(-weight // (BUCKET_BYTES * at_a_time)) * at_a_time


def batches_of(sizes: Mapping[int, int], at_a_time: int) -> list[list[int]]:
    """Returns neighbouring buckets that are written together, by the sizes that the folds left. They are as few batches
    as bound a writer's memory, and a multiple of those that are written at a time."""
    total = sum(sizes.values())
    count = -(-total // (BATCH_BYTES * at_a_time)) * at_a_time
    batches: dict[int, list[int]] = {}
    begin = 0
    for bucket in sorted(sizes):
        middle = begin + sizes[bucket] // 2
        batches.setdefault(middle * count // total, []).append(bucket)
        begin += sizes[bucket]
    return list(batches.values())


def shares_of(tasks: Sequence[LoadTask], most: int) -> list[list[LoadTask]]:
    """Distributes tables over Spark tasks, the largest first onto the lightest, so that the tasks end at about the same
    time."""
    total = sum(weight_of(task) for task in tasks)
    wanted = min(most, -(-total // SHARE_BYTES))
    needed = max(-(-total // LARGEST_SHARE_BYTES), -(-len(tasks) // LARGEST_SHARE_TABLES))
    count = max(1, min(len(tasks), max(wanted, needed)))
    shares: list[list[LoadTask]] = [[] for _ in range(count)]
    weights = [0] * count
    for task in sorted(tasks, key=weight_of, reverse=True):
        lightest = weights.index(min(weights))
        shares[lightest].append(task)
        weights[lightest] += weight_of(task) + 1
    return shares


def groups_of(task: LoadTask) -> list[list[FileSlice]]:
    """Returns consecutive slices in groups of about DECODE_BYTES."""
    groups: list[list[FileSlice]] = [[]]
    size, most = 0, DECODE_BYTES // protocol_of(task.dialect).density
    for piece in task.slices:
        if groups[-1] and size + piece.length > most:
            groups.append([])
            size = 0
        groups[-1].append(piece)
        size += piece.length
    return groups
