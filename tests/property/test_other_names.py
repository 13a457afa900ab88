"""Random statements and rows, followed by targets in which every table and database has another name than upstream: at
every checkpoint they hold what the same statements have made upstream, under the target's names."""

from __future__ import annotations

import itertools
import tempfile
from pathlib import Path
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from consumer import app
from consumer.config.load import load
from tests.servers import MariaDb, SqlServer
from tests.support.examples import examples
from tests.support.inline_loader import InlineLoader
from tests.support.memory.sink import MemorySink
from tests.support.observers import Recorder
from tests.support.random_ddl.machine import play
from tests.support.random_ddl.profile import HISTORIES, LONGEST, PROFILE
from tests.support.renamed import EXCHANGED, PREFIXED, ROUTES, OtherNames, own_name, renamed_file, renamed_server
from tests.support.upstream import DATABASE, Storage, Upstream, last_moment_without_rename

LABELS = itertools.count()


@settings(PROFILE, max_examples=HISTORIES or 6)
@given(seed=st.integers(0, 2**32), size=st.integers(1, LONGEST))
@pytest.mark.parametrize("names", [PREFIXED, EXCHANGED], ids=["prefixed", "exchanged"])
@pytest.mark.parametrize("kind", ["mariadb", "mysql"])
def test_a_server_follows_under_other_names(
    seed: int, size: int, kind: str, names: OtherNames, request: pytest.FixtureRequest
) -> None:
    server: SqlServer = request.getfixturevalue(kind)
    with tempfile.TemporaryDirectory() as work:
        play(seed, size, Path(work), server, lambda original: renamed_server(original, server, names), partitions=True)


@settings(PROFILE, max_examples=HISTORIES or 6)
@given(seed=st.integers(0, 2**32), size=st.integers(1, LONGEST))
@pytest.mark.parametrize("names", [PREFIXED, EXCHANGED], ids=["prefixed", "exchanged"])
def test_a_file_follows_under_other_names(seed: int, size: int, names: OtherNames, mariadb: MariaDb) -> None:
    with tempfile.TemporaryDirectory() as work:
        folder = Path(work)
        play(seed, size, folder / "storage", mariadb, lambda _: renamed_file(folder, names), partitions=False)


@examples(30)
@given(seed=st.integers(0, 2**32), round_bytes=st.sampled_from([1, 300, 1 << 30]))
def test_memory_follows_under_other_names(seed: int, round_bytes: int) -> None:
    random, label = Random(seed), f"other-names-{next(LABELS)}"
    upstream, sink = Upstream(random), MemorySink(label, "default")
    with tempfile.TemporaryDirectory() as work:
        flags = {"upstream_uri": f"file://{work}?protocol=canal-json", "downstream_uri": f"memory://{label}"}
        flags["routes"] = ROUTES
        storage = Storage(Path(work), upstream, old_folders=True)
        for _ in range(3):
            for _ in range(random.randint(3, 15)):
                upstream.step()
            storage.write_up_to(upstream.now, upstream.now)
            app.once(load({**flags, "round_bytes": str(round_bytes)}, {}).settings, Recorder(), InlineLoader())
            found = {
                own_name(str(name)): {int(row.pop("id")): row for row in map(dict, sink.rows(name))}
                for name in sink._store.tables
            }
            truth = upstream.at(last_moment_without_rename(upstream, upstream.now))
            assert found == {f"{DATABASE}.{name}": rows for name, rows in truth.items()}
