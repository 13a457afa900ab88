"""Forms of random histories, in any cut and order of files: the same as the history, read plainly."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from consumer.changes.table_modes import fold, in_mode
from consumer.codec.change_table import change_schema
from consumer.model.load import Dialect, LoadTarget, LoadTask, ModeLoad, TableLoad
from consumer.model.steps import Window
from consumer.model.table_modes import ModeKind, TableMode
from consumer.model.times import tso_to_time
from tests.support.build import ID, VALUE
from tests.support.canal_json import TABLE
from tests.support.examples import examples

EXAMPLES = examples(300)
MS = 1 << 18
VERSIONS = (2, 3 * MS, 6 * MS)
_Row = tuple[int, bool, str, str | None, bool]
"""ts, put, id, v, of an UPDATE."""
_Kept = dict[str, str | None]


@dataclass
class History:
    """What each transaction wrote, and what is to be kept of it."""

    lines: list[_Row] = field(default_factory=list)
    events: set[tuple[str, str | None, str, int]] = field(default_factory=set)
    alive: _Kept = field(default_factory=dict)
    ended: dict[str, tuple[str | None, int]] = field(default_factory=dict)

    def write(self, ts: int, before: _Kept, after: _Kept, ops: dict[str, str]) -> None:
        """`ops` says how TiCDC writes the change of a key."""
        for key, op in ops.items():
            old, new = before.get(key), after.get(key)
            if op == "U":
                self.lines.append((ts, True, key, new, True))
                self.events.add((key, new, "U", ts))
            elif op == "pair":  # CSV with old values
                self.lines += [(ts, False, key, old, True), (ts, True, key, new, True)]
                self.events.add((key, new, "U", ts))
            else:
                if key in before:
                    self.lines.append((ts, False, key, old, op == "moved"))
                    self.events.add((key, old, "D", ts))
                if key in after:
                    self.lines.append((ts, True, key, new, False))
                    self.events.add((key, new, "I", ts))
            if key in after:
                self.alive[key] = new
                self.ended.pop(key, None)
            else:
                self.alive.pop(key, None)
                self.ended[key] = old, ts


@st.composite
def histories(draw: st.DrawFn) -> History:
    history = History()
    keys, values = st.sampled_from("abcd"), st.none() | st.sampled_from("xyz")
    for number in range(draw(st.integers(1, 8))):
        ts = (number + 1) * MS + draw(st.integers(0, 3))
        before, after, ops = dict(history.alive), dict(history.alive), {}
        for key in draw(st.sets(keys, min_size=1)):
            gone = key in before and draw(st.booleans())
            if gone:
                del after[key]
                ops[key] = draw(st.sampled_from(["D", "moved"]))
            else:
                after[key] = draw(values)
                ops[key] = draw(st.sampled_from(["U", "pair", "split"])) if key in before else "I"
        history.write(ts, before, after, ops)
    return history


@st.composite
def cuts(draw: st.DrawFn) -> tuple[History, list[list[_Row]]]:
    """A history's lines in parts, some of them sent again, in any order."""
    history = draw(histories())
    again = draw(st.lists(st.sampled_from(history.lines), max_size=10))
    lines = draw(st.permutations([*history.lines, *again]))
    ends = sorted(draw(st.lists(st.integers(0, len(lines)), max_size=4)))
    parts = [lines[begin:end] for begin, end in zip([0, *ends], [*ends, len(lines)], strict=True)]
    return history, parts


def task_of(kind: ModeKind) -> LoadTask:
    form = TableMode(kind)
    columns = (ID, VALUE, *form.added)
    names = tuple(column.name for column in columns)
    source = LoadTarget(TableLoad(TABLE, mode=form), (ID, VALUE), ("id", "v"), (0,), events=True)
    target = LoadTarget(TableLoad(TABLE), columns, names, tuple(n for n, column in enumerate(columns) if column.is_pk))
    mode_load = ModeLoad(source, tuple(range(len(columns))), VERSIONS)
    return LoadTask(0, target, Window(0, 100 * MS), (), Dialect(), mode_load=mode_load)


def rows_of(parts: Sequence[Sequence[_Row]], kind: ModeKind) -> list[tuple[str | None, ...]]:
    task = task_of(kind)
    schema = change_schema(task.source)
    folded = []
    for part in parts:
        columns = [[row[n] for row in part] for n in range(5)]
        zeros = [0] * len(part)
        arrays = [columns[0], columns[1], zeros, zeros, columns[2], columns[3], columns[4]]
        table = pa.Table.from_arrays([pa.array(a, f.type) for a, f in zip(arrays, schema, strict=True)], schema=schema)
        folded.append(fold(table, task, final=False))
    found = in_mode(fold(pa.concat_tables(folded), task, final=True), task)
    assert all(found.column("put").to_pylist())
    assert found.schema == change_schema(task.target)
    rows = [tuple(row[f"c{n}"] for n in range(len(task.target.columns))) for row in found.to_pylist()]
    return sorted(rows, key=repr)


@EXAMPLES
@given(cuts())
def test_append_keeps_each_change_once(found: tuple[History, list[list[_Row]]]) -> None:
    history, parts = found
    wanted = [
        (key, value, op, str(ts), str(TABLE), str(max(version for version in VERSIONS if version < ts)))
        for key, value, op, ts in history.events
    ]
    assert rows_of(parts, ModeKind.APPEND) == sorted(wanted, key=repr)


@EXAMPLES
@given(cuts())
def test_soft_delete_keeps_the_last_row_of_each_key(found: tuple[History, list[list[_Row]]]) -> None:
    history, parts = found
    wanted: list[tuple[str | None, ...]] = [(key, value, None) for key, value in history.alive.items()]
    wanted += [
        (key, value, tso_to_time(ts).strftime("%Y-%m-%d %H:%M:%S.%f")) for key, (value, ts) in history.ended.items()
    ]
    assert rows_of(parts, ModeKind.SOFT_DELETE) == sorted(wanted, key=repr)
