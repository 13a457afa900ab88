"""Table rules that take more later: whatever was left out until then, the replica ends as the upstream is.

Where they take some of the tables that renames mix, a table can have begun under a name that was left out, and is not
to be had any more: such a table stops by name, and those that are not stopped are right.
"""

from __future__ import annotations

import itertools
import random
import tempfile
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from consumer import app
from consumer.config.load import load
from consumer.results import RunResult
from tests.support.examples import examples
from tests.support.inline_loader import InlineLoader
from tests.support.memory.sink import MemorySink
from tests.support.observers import Recorder
from tests.support.upstream import DATABASE, NAMES, State, Storage, Upstream, last_moment_without_rename

LABELS = itertools.count()


def run(folder: Path, label: str, names: list[str]) -> RunResult:
    flags = {
        "upstream_uri": f"file://{folder}?protocol=canal-json",
        "downstream_uri": f"memory://{label}",
        "tables": tuple(f"{DATABASE}.{name}" for name in names) or ("nothing.at_all",),
    }
    return app.once(load(flags, {}).settings, Recorder(), InlineLoader())


def state(label: str) -> State:
    found = MemorySink(label, "default")._store.tables
    return {name.table: {int(row["id"]): _rest(row) for row in table.rows} for name, table in found.items()}


def _rest(row: dict[str, str | None]) -> dict[str, str | None]:
    return {column: value for column, value in row.items() if column != "id"}


@examples(50)
@given(seed=st.integers(0, 2**32), one_by_one=st.booleans())
def test_tables_let_in_later_end_as_upstream_has_them(seed: int, one_by_one: bool) -> None:
    rnd = random.Random(seed)
    upstream, label = Upstream(rnd), f"widening{next(LABELS)}"
    with tempfile.TemporaryDirectory() as work:
        folder = Path(work)
        storage = Storage(folder, upstream, old_folders=False)
        order = rnd.sample(NAMES, len(NAMES))
        counts = rnd.choices(range(len(NAMES) if one_by_one else 1), k=rnd.randint(1, 4))
        for count in [*sorted(counts), len(NAMES)]:
            for _ in range(rnd.randint(2, 20)):
                upstream.step()
            storage.write_up_to(upstream.now, upstream.now)
            wanted = order[:count] + ["*"] * (count == len(NAMES))
            result = run(folder, label, wanted)
            truth = upstream.at(last_moment_without_rename(upstream, upstream.now))
            found = state(label)
            stopped = {name.table for name, table in result.tables.items() if table.error}
            for name in {*order[:count]} - stopped:
                assert found.get(name) == truth.get(name), (name, order[:count])
        assert one_by_one or not stopped
        assert stopped or found == truth
