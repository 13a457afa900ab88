"""Values that are applied as they are, although the files do not prove them: counted for a note."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from consumer.codec.change_table import META
from consumer.model.columns import Family
from consumer.model.load import FileStat, LoadTarget

_LOST = "\ufffd"
"""What TiCDC writes for bytes of a text that are not UTF-8."""
_LOST_BYTES = re.compile(_LOST.encode())


def with_unproven(
    stats: Sequence[FileStat], changes: pa.Table, target: LoadTarget, doubled: Sequence[tuple[str, str]]
) -> list[FileStat]:
    """`stats` with what cannot be proven in the `changes` that come of them, counted in the last one. `doubled` are
    those moments that the changefeed's clock shows twice, as UTC."""
    if not stats or not changes.num_rows:
        return list(stats)
    columns = [(column.family, changes.column(META + n)) for n, column in enumerate(target.columns)]
    lost = sum(_with_lost_bytes(values) for family, values in columns if family is Family.TEXT)
    times = [values for family, values in columns if family is Family.TIMESTAMP] if doubled else []
    twice = sum(_in_doubled(values, doubled) for values in times)
    return [*stats[:-1], replace(stats[-1], lost_texts=lost, doubled_times=twice)]


def _in_doubled(values: pa.ChunkedArray, doubled: Sequence[tuple[str, str]]) -> int:
    """How many of `values` lie in one of the stretches. A load's are mostly of a few days without one."""
    least, most = pc.min_max(values).as_py().values()
    near = [(first, end) for first, end in doubled if least is not None and first <= most and end > least]
    return sum(_count(pc.and_(pc.greater_equal(values, first), pc.less(values, end))) for first, end in near)


def _with_lost_bytes(texts: pa.ChunkedArray) -> int:
    """How many of `texts` hold U+FFFD. To look for it in all their bytes at once is six times faster than in each."""
    return sum(_count(pc.match_substring(chunk, _LOST)) for chunk in texts.chunks if _has_lost_bytes(chunk))


def _has_lost_bytes(texts: pa.LargeStringArray) -> bool:
    _, offsets, content = texts.buffers()
    if content is None:
        return False
    first, last = np.frombuffer(offsets, np.int64)[[texts.offset, texts.offset + len(texts)]].tolist()
    return _LOST_BYTES.search(content, first, last) is not None


def _count(flags: pa.ChunkedArray) -> int:
    return pc.sum(flags).as_py() or 0
