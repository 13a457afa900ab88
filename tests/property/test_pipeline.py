"""Damaged files in random storages. Whole ones are what tests/simulate plays."""

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
from tests.support.upstream import DATABASE, State, Storage, Upstream, last_moment_without_rename

LABELS = itertools.count()


def run(folder: Path, label: str, round_bytes: int) -> RunResult:
    flags: dict[str, object] = {
        "upstream_uri": f"file://{folder}?protocol=canal-json",
        "downstream_uri": f"memory://{label}",
        "round_bytes": str(round_bytes),
    }
    return app.once(load(flags, {}).settings, Recorder(), InlineLoader())


def errors(result: RunResult) -> list[str]:
    return [table.error for table in result.tables.values() if table.error]


def target_state(label: str) -> State:
    sink = MemorySink(label, "default")
    tables = [name for name in sink._store.tables if name.database == DATABASE]
    return {name.table: {int(row.pop("id")): row for row in map(dict, sink.rows(name))} for name in tables}


@examples(30)
@given(seed=st.integers(0, 2**32), round_bytes=st.sampled_from([1, 300, 1 << 30]))
def test_damaged_files_stop_their_own_tables_only_and_only_until_they_are_mended(seed: int, round_bytes: int) -> None:
    rnd = random.Random(seed)
    upstream = Upstream(rnd)
    label = f"pipeline{next(LABELS)}"
    with tempfile.TemporaryDirectory() as work:
        folder = Path(work)
        storage = Storage(folder, upstream, old_folders=False)
        whole: dict[Path, bytes] = {}
        for last in (False, False, False, True):
            for _ in range(rnd.randint(3, 15)):
                upstream.step()
            known = set(folder.rglob("CDC*"))
            storage.write_up_to(upstream.now, upstream.now)
            new = sorted(path for path in folder.rglob("CDC*") if path not in known)
            for path in rnd.sample(new, min(len(new), rnd.randint(0, 2))):
                whole[path] = path.read_bytes()
                path.write_bytes(whole[path][:-20])
            for path in [path for path in whole if last or rnd.random() < 0.3]:
                path.write_bytes(whole.pop(path))
            result = run(folder, label, round_bytes)
            truth = upstream.at(last_moment_without_rename(upstream, upstream.now))
            found = target_state(label)
            for name, table in result.tables.items():
                if table.state == "ok":
                    assert found[name.table] == truth[name.table]
                elif table.state == "dropped":
                    assert name.table not in found
            assert {str(name.table) for name, table in result.tables.items() if table.state == "ok"} >= {
                name for name in truth if not errors(result)
            }
        assert errors(result) == []
        assert found == truth
