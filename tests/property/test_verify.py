"""Random histories applied to a file: `verify` says equal. Then one row of it is changed, taken away or put in,
anywhere, and `verify` names exactly that row, and makes it right."""

from __future__ import annotations

import random
import tempfile
from pathlib import Path

import duckdb
from hypothesis import given
from hypothesis import strategies as st

from consumer import app
from consumer.config.load import load
from consumer.config.settings import Settings
from consumer.model.check import Repairing, VerifyResult
from tests.support.examples import examples
from tests.support.inline_loader import InlineLoader
from tests.support.observers import Recorder
from tests.support.scripts import run_on_file
from tests.support.upstream import DATABASE, Storage, Upstream

Found = set[tuple[str, str, str, tuple[str, ...]]]
"""Kind, table, key, and columns that differ."""


def verified(given: Settings, buckets: int, repairing: Repairing = Repairing()) -> VerifyResult:  # noqa: B008
    return app.verify(given, Recorder(), show=100, loader=InlineLoader(buckets), repairing=repairing)


def found(result: VerifyResult) -> Found:
    return {
        (row.kind, check.table.table, str(dict(row.key)["id"]), tuple(name for name, _, _ in row.values))
        for check in result.tables
        for row in check.counted.shown
    }


def rows_of(file: Path) -> dict[str, list[str]]:
    """By table, with all columns."""
    with duckdb.connect(str(file), read_only=True) as connection:
        tables = connection.execute(
            "SELECT table_name FROM duckdb_tables() WHERE schema_name = ?", [DATABASE]
        ).fetchall()
        return {
            name: sorted(map(repr, connection.execute(f'SELECT * FROM {DATABASE}."{name}"').fetchall()))
            for (name,) in tables
        }


def one_change(rnd: random.Random, file: Path, known: dict[str, set[str]]) -> Found:
    """A change by hand. `known` are the columns, by table, of which every value was compared."""
    with duckdb.connect(str(file)) as connection:
        tables = [
            name for name in known if connection.execute(f'SELECT count(*) FROM {DATABASE}."{name}"').fetchone()[0]
        ]
        if not tables:
            return set()
        table = rnd.choice(sorted(tables))
        name, kind = f'{DATABASE}."{table}"', rnd.choice(("missing", "extra", "twice", "differs"))
        (key,) = rnd.choice(connection.execute(f"SELECT id FROM {name} ORDER BY id").fetchall())
        columns = sorted(known[table])
        if kind == "missing":
            connection.execute(f"DELETE FROM {name} WHERE id = {key}")
        elif kind == "extra":
            connection.execute(f"INSERT INTO {name} (id) VALUES (987654)")
            return {("extra", table, "987654", ())}
        elif kind == "twice":
            connection.execute(f"INSERT INTO {name} SELECT * FROM {name} WHERE id = {key}")
            return {("extra", table, str(key), ())}
        elif columns:
            column = rnd.choice(columns)
            connection.execute(f'UPDATE {name} SET "{column}" = coalesce("{column}" + 1, 1) WHERE id = {key}')
            return {("differs", table, str(key), (column,))}
        else:
            return set()
        return {(kind, table, str(key), ())}


@examples(12)
@given(seed=st.integers(0, 2**32), buckets=st.sampled_from([1, 3]), old_folders=st.booleans(), by_file=st.booleans())
def test_one_changed_row_is_named_and_made_right(seed: int, buckets: int, old_folders: bool, by_file: bool) -> None:
    rnd = random.Random(seed)
    upstream = Upstream(rnd)
    with tempfile.TemporaryDirectory() as work:
        folder, file = Path(work) / "storage", Path(work) / "replica.duckdb"
        folder.mkdir()
        storage = Storage(folder, upstream, old_folders=old_folders)
        flags: dict[str, object] = {
            "upstream_uri": f"file://{folder}?protocol=canal-json",
            "downstream_uri": f"duckdb:///{file}",
        }
        given = load(flags, {}).settings
        for _ in range(rnd.randint(1, 3)):
            for _ in range(rnd.randint(5, 30)):
                upstream.step()
            storage.write_up_to(upstream.now, upstream.now)
            app.once(given, Recorder(), InlineLoader())
        result = verified(given, buckets)
        assert found(result) == set()
        assert [check.error for check in result.tables if check.error] == []
        compared = [check for check in result.tables if not check.counted.unsure and not check.counted.unknown_rows]
        known = {
            check.table.table: {
                column.name
                for column in upstream.tables[check.table.table].columns
                if column.name != "id" and column.name not in check.counted.unknown
            }
            for check in compared
            if check.table.table in upstream.tables
        }
        right = rows_of(file)
        expected = one_change(rnd, file, known)
        assert found(verified(given, buckets)) == expected
        before = rows_of(file)
        if by_file:
            script = Path(work) / "right.sql"
            assert found(verified(given, buckets, Repairing(sql=str(script)))) == expected
            assert rows_of(file) == before
            run_on_file(script, file)
        else:
            assert found(verified(given, buckets, Repairing(write=True))) == set()
        assert found(verified(given, buckets)) == set()
        assert rows_of(file) == right
