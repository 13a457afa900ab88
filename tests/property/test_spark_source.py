"""What a data source reads of random histories: the states that upstream had, and each of its changes once."""

from __future__ import annotations

import random
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from consumer.errors import TableMissing
from consumer.model.actions import Action
from consumer.model.columns import Column
from tests.support.examples import examples
from tests.support.spark_source import planned, read
from tests.support.upstream import DATABASE, Change, Row, State, Storage, Upstream, last_moment_without_rename

Event = tuple[int, str, int, tuple[tuple[str, int | None], ...]]
"""commit-ts, what it was, id, and the values."""


def storage_of(rnd: random.Random, folder: Path) -> Upstream:
    """Written in steps, with restarts that send rows again."""
    upstream = Upstream(rnd)
    storage = Storage(folder, upstream, old_folders=False)
    last = 1
    for _ in range(rnd.randint(1, 4)):
        for _ in range(rnd.randint(3, 15)):
            upstream.step()
        if rnd.random() < 0.5:
            storage.restart(rnd.randint(last, upstream.now))
        last = upstream.now
        storage.write_up_to(upstream.now, upstream.now)
    return upstream


def life(upstream: Upstream, table: str, end: int) -> Iterator[tuple[str, int, int]]:
    """The names of the table that is called so at `end`, each with the time from and to which it had that one."""
    for statement in reversed([s for s in upstream.statements if s.ts <= end]):
        if statement.table != table or statement.action not in (Action.CREATE_TABLE, Action.RENAME_TABLE):
            continue
        yield table, statement.ts, end
        if statement.action is Action.CREATE_TABLE:
            return
        table, end = statement.query.split("`")[3], statement.ts


def added(upstream: Upstream, names: list[tuple[str, int, int]], column: str) -> int:
    """When the column that the table has at the end came."""
    own = [s for s in upstream.statements if any(s.table == n and a <= s.ts <= b for n, a, b in names)]
    with_it = [s.ts for s in own if s.action is Action.ADD_COLUMN and f"ADD COLUMN `{column}`" in s.query]
    return max(with_it, default=0)


def events(upstream: Upstream, table: str, columns: tuple[Column, ...], end: int) -> Counter[Event]:
    names = list(life(upstream, table, end))
    since = {column.name: added(upstream, names, column.name) for column in columns}

    def values(row: Row, ts: int) -> tuple[tuple[str, int | None], ...]:
        found = {c.name: row[c.name] if ts > since[c.name] else c.default for c in columns if c.name != "id"}
        return tuple(sorted((name, None if text is None else int(text)) for name, text in found.items()))

    def own(change: Change) -> bool:
        return any(change.table == name and after < change.ts <= until for name, after, until in names)

    found: Counter[Event] = Counter()
    changes = [change for change in upstream.changes if own(change)]
    gone = {(c.ts, c.old[0]) for c in changes if c.kind == "DELETE" and c.old}
    updated = {(c.ts, c.new[0]) for c in changes if c.kind == "UPDATE" and c.new}
    for change in changes:
        old, new, ts = change.old, change.new, change.ts
        if old and new and old[0] != new[0] and (ts, old[0]) not in gone | updated:
            found[(ts, "D", old[0], values(old[1], ts))] = 1
        if new and not (change.kind == "INSERT" and (ts, new[0]) in updated):
            found[(ts, change.kind[0], new[0], values(new[1], ts))] = 1
        if not new and old:
            found[(ts, "D", old[0], values(old[1], ts))] = 1
    return found


def as_events(rows: list[dict[str, Any]]) -> Counter[Event]:
    return Counter(
        (row.pop("_commit_ts"), row.pop("_op"), row.pop("id"), tuple(sorted((n, row[n]) for n in row if n[0] != "_")))
        for row in map(dict, rows)
    )


def as_state(rows: list[dict[str, Any]]) -> dict[int, Row]:
    return {row.pop("id"): {n: None if v is None else str(v) for n, v in row.items()} for row in rows}


@examples(40)
@given(seed=st.integers(0, 2**32))
def test_states_are_upstreams_and_each_change_comes_once(seed: int) -> None:
    rnd = random.Random(seed)
    with tempfile.TemporaryDirectory() as work:
        upstream = storage_of(rnd, Path(work))
        uri, end = f"file://{work}?protocol=canal-json", upstream.now
        moments = [end, rnd.choice([ts for ts, _ in upstream.states])]
        for moment in moments:
            seen = last_moment_without_rename(upstream, moment) if moment == end else moment
            truth: State = upstream.at(seen)
            asked = {"to_ts": str(moment)} if moment != end else {}
            for name in truth:
                found = read(uri, table=f"{DATABASE}.{name}", mode="state", **asked)
                assert as_state(found.to_pylist()) == truth[name]
                check_changes(rnd, upstream, uri, name, seen, asked)


def check_changes(
    rnd: random.Random, upstream: Upstream, uri: str, name: str, moment: int, asked: dict[str, str]
) -> None:
    table, size = f"{DATABASE}.{name}", rnd.choice(["1KB", "200B", "64MiB"])
    statements = [s for s in upstream.statements if s.table == name and s.ts <= moment]
    want = events(upstream, name, statements[-1].columns, moment)
    rows = read(uri, table=table, partition_bytes=size, **asked).to_pylist()
    assert as_events(rows) == want
    first = rnd.randint(1, moment)
    since = next(life(upstream, name, moment))[1]
    if since < first < moment:
        later = read(uri, table=table, from_ts=str(first), **asked).to_pylist()
        assert as_events(later) == Counter({e: n for e, n in want.items() if e[0] > first})


def test_what_is_not_there_is_said() -> None:
    with tempfile.TemporaryDirectory() as work:
        storage_of(random.Random(1), Path(work))
        for name in ("nobody", "d.nobody"):
            with pytest.raises(TableMissing):
                planned(f"file://{work}?protocol=canal-json", table=name)
