"""Table rules that change between rounds, at random: a table that they take is as it is upstream, or it is stopped by
name.

`RANDOM_RULES=2000 pytest tests/property/test_table_rules.py` plays as many histories, with new seeds each time.
"""

from __future__ import annotations

import itertools
import os
import tempfile
from pathlib import Path
from random import Random

from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from consumer import app
from consumer.config.load import load
from consumer.config.table_filter import TableFilter
from consumer.model.names import TableName
from consumer.results import RunResult
from tests.support.examples import examples
from tests.support.inline_loader import InlineLoader
from tests.support.memory.sink import MemorySink
from tests.support.observers import Recorder
from tests.support.upstream import DATABASE, NAMES, State, Storage, Upstream, last_moment_without_rename

HISTORIES = int(os.environ.get("RANDOM_RULES", "0"))
LABELS = itertools.count()
ALL = ("*.*",)
ONLY = ("*.*", "!*.*")
"""In front of rules that ask for tables which may not be there yet: they alone would be refused."""
RULES = (ALL, ONLY, ("*.*", "!d.a"), ("*.*", "!d.b", "!d.c"), (*ONLY, "d.a"), (*ONLY, "d.b", "d.c"))


def run(folder: Path, label: str, rules: tuple[str, ...], round_bytes: str = "1GiB") -> RunResult:
    flags: dict[str, object] = {
        "upstream_uri": f"file://{folder}?protocol=canal-json",
        "downstream_uri": f"memory://{label}",
        "tables": rules,
        "round_bytes": round_bytes,
    }
    return app.once(load(flags, {}).settings, Recorder(), InlineLoader())


def begin(storage: Storage, label: str) -> None:
    """With no table: a first run that finds some refuses rules that let none through."""
    storage.write_up_to(1, 1)
    assert run(storage.folder, label, ALL).exit_code == 0


def target_state(label: str) -> State:
    sink = MemorySink(label, "default")
    tables = [name for name in sink._store.tables if name.database == DATABASE]
    return {name.table: {int(row.pop("id")): row for row in map(dict, sink.rows(name))} for name in tables}


def differences(found: State, truth: State, result: RunResult, rules: tuple[str, ...]) -> list[str]:
    """Tables that the rules take and that are neither right nor stopped."""
    wanted = TableFilter(rules).matches
    held = {name.table for name, table in result.tables.items() if table.error}
    taken = {name for name in {*found, *truth} if wanted(TableName(DATABASE, name))}
    return [
        f"{name}: {truth.get(name)} upstream, {found.get(name)} here"
        for name in sorted(taken - held)
        if found.get(name) != truth.get(name)
    ]


@settings(
    max_examples=HISTORIES or 60, derandomize=not HISTORIES, database=None, deadline=None, phases=[Phase.generate]
)
@given(seed=st.integers(0, 2**32))
def test_whatever_the_rules_take_is_right_or_stopped(seed: int) -> None:
    rnd = Random(seed)
    upstream = Upstream(rnd)
    label = f"rules{next(LABELS)}"
    story: list[str] = []
    with tempfile.TemporaryDirectory() as work:
        storage = Storage(Path(work), upstream, old_folders=False)
        begin(storage, label)
        checkpoint = 1
        for rules in (*rnd.choices(RULES, k=rnd.randint(1, 4)), ALL):
            for _ in range(rnd.randint(1, 12)):
                upstream.step()
            moments = [ts for ts, _ in upstream.states if ts >= checkpoint]
            checkpoint = rnd.choice(moments) if rnd.random() < 0.5 else upstream.now
            storage.write_up_to(rnd.choice([checkpoint, upstream.now]), checkpoint)
            result = run(storage.folder, label, rules, rnd.choice(("1", "300", "1GiB")))
            errors = {str(name): table.error for name, table in result.tables.items() if table.error}
            story.append(f"{checkpoint} {rules}: {errors}")
            truth = upstream.at(last_moment_without_rename(upstream, checkpoint))
            told = [f"{s.ts} {s.table}: {s.query}" for s in upstream.statements]
            wrong = differences(target_state(label), truth, result, rules)
            assert not wrong, "\n".join([*wrong, *story, *told])
            if rnd.random() < 0.3:
                storage.restart(rnd.choice([ts for ts, _ in upstream.states if ts <= checkpoint]))


@examples(50)
@given(seed=st.integers(0, 2**32), one_by_one=st.booleans())
def test_tables_let_in_later_end_as_upstream_has_them(seed: int, one_by_one: bool) -> None:
    """Rules that take some of the tables that renames mix stop what began under a name that was left out."""
    rnd = Random(seed)
    upstream, label = Upstream(rnd), f"rules{next(LABELS)}"
    with tempfile.TemporaryDirectory() as work:
        folder = Path(work)
        storage = Storage(folder, upstream, old_folders=False)
        begin(storage, label)
        order = rnd.sample(NAMES, len(NAMES))
        counts = rnd.choices(range(len(NAMES) if one_by_one else 1), k=rnd.randint(1, 4))
        for count in [*sorted(counts), len(NAMES)]:
            for _ in range(rnd.randint(2, 20)):
                upstream.step()
            storage.write_up_to(upstream.now, upstream.now)
            wanted = [f"{DATABASE}.{name}" for name in (*order[:count], *["*"] * (count == len(NAMES)))]
            result = run(folder, label, (*ONLY, *wanted))
            truth = upstream.at(last_moment_without_rename(upstream, upstream.now))
            found = target_state(label)
            stopped = {name.table for name, table in result.tables.items() if table.error}
            for name in {*order[:count]} - stopped:
                assert found.get(name) == truth.get(name), (name, order[:count])
        assert one_by_one or not stopped
        assert stopped or found == truth
