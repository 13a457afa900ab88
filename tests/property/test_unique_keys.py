"""Swaps, moves and re-use of secondary unique keys: whatever the order and the number of connections, a window's puts
and deletes leave the upstream's final state."""

from __future__ import annotations

import random
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

from consumer.model.columns import Column
from consumer.sink.mysql.rows.writer import MySqlSession, MySqlWriter
from tests.integration.mysql.writing import EPOCH, changes, make_target, settings_of
from tests.servers import MariaDb

_COLUMNS = [
    Column("id", "INT", is_pk=True, nullable=False),
    Column("a", "INT"),
    Column("b", "VARCHAR"),
    Column("v", "INT"),
]
_DDL = "id INT PRIMARY KEY, a INT UNIQUE, b VARCHAR(9) UNIQUE, v INT"
_KEYS, _WINDOWS, _SESSIONS, _HISTORIES = 24, 3, 4, 40

State = dict[int, tuple[int | None, str | None, int]]
Change = tuple[bool, tuple[str | None, ...]]
"""Put or delete, and the row (of a delete, the key alone counts)."""


def test_any_history_ends_in_the_upstream_state(fresh_mariadb: MariaDb) -> None:
    target = make_target(fresh_mariadb, _COLUMNS, _DDL, unique=["a", "b"])
    with ExitStack() as stack:
        pool = stack.enter_context(ThreadPoolExecutor(_SESSIONS))
        writer = MySqlWriter(settings_of(fresh_mariadb), EPOCH)
        sessions = [stack.enter_context(writer.session()) for _ in range(_SESSIONS)]
        state: State = {}
        for seed in range(_HISTORIES):
            source = random.Random(seed)
            for _ in range(_WINDOWS):
                before, state = state, _history(source, state)
                parts = _parts(source, before, state)

                def write(session: MySqlSession, part: list[list[Change]]) -> None:
                    for batch in part:
                        puts, deletes = [[row for is_put, row in batch if is_put is wanted] for wanted in (True, False)]
                        session.write(target, changes(target, puts=puts, deletes=deletes))

                list(pool.map(write, sessions, parts))
                found = {row[0]: row[1:] for row in fresh_mariadb.execute("SELECT id, a, b, v FROM db.t")}
                assert found == state, f"history {seed}"


def _history(source: random.Random, state: State) -> State:
    """Some transactions, each leaving `a` and `b` unique."""
    rows = dict(state)
    for version in range(source.randrange(1, 40)):
        key = source.randrange(_KEYS)
        match source.choice(("put", "put", "delete", "swap", "move", "rotate")):
            case "put":
                _put(rows, key, source.choice((None, source.randrange(_KEYS))), source.randrange(_KEYS), version)
            case "delete":
                rows.pop(key, None)
            case "move" if key in rows:
                row = rows.pop(key)
                rows[source.randrange(_KEYS)] = row
            case "swap" if len(rows) > 1:
                one, other = source.sample(sorted(rows), 2)
                (a1, b1, v1), (a2, b2, v2) = rows[one], rows[other]
                rows[one], rows[other] = source.choice((((a2, b1, v1), (a1, b2, v2)), ((a2, b2, v1), (a1, b1, v2))))
            case "rotate":
                keys = sorted(rows)
                values = [rows[each] for each in keys]
                rows = dict(zip(keys, values[1:] + values[:1], strict=True))
    return rows


def _put(rows: State, key: int, a: int | None, b: int, version: int) -> None:
    """Insert or update, where upstream's unique keys allow it."""
    taken = [row for other, row in rows.items() if other != key]
    if all(row[0] is None or row[0] != a for row in taken) and all(row[1] != f"b{b}" for row in taken):
        rows[key] = (a, f"b{b}", version)


def _parts(source: random.Random, before: State, after: State) -> list[list[list[Change]]]:
    """The window's changes, one a key, dealt at random to the sessions, in batches, in any order."""
    changed = [key for key in before.keys() | after.keys() if before.get(key) != after.get(key)]
    parts: list[list[list[Change]]] = [[] for _ in range(_SESSIONS)]
    source.shuffle(changed)
    for key in changed:
        row = after.get(key)
        values = (None if value is None else str(value) for value in row or (None, None, None))
        part = source.choice(parts)
        if not part or source.random() < 0.3:
            part.append([])
        part[-1].append((row is not None, (str(key), *values)))
    return parts
