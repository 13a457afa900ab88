"""A small upstream: random transactions and statements over tables, their true states, and what TiCDC writes of them.

Independent of the consumer's planner and fold: states are kept as plain dicts, files are written line by line.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from consumer.layout.paths import DataPath, render
from consumer.model.actions import Action
from consumer.model.columns import Column
from consumer.model.files import Folder
from tests.support.build import ID, VALUE
from tests.support.written_files import render_checkpoint, render_schema_file

DATABASE = "d"
NAMES = ("a", "b", "c")
PARTITIONS = 2
BEGINNINGS = (Action.CREATE_TABLE, Action.RENAME_TABLE, Action.TRUNCATE_TABLE)
Row = dict[str, str | None]
"""Column -> value, the key left out."""
State = dict[str, dict[int, Row]]
CREATE = "CREATE TABLE `{}` (`id` INT PRIMARY KEY,`v` INT)"


@dataclass
class Table:
    """`partitions` are the physical ids of a table that is partitioned by its key. `life` is which table it is, from
    its CREATE to its DROP, whatever its name. `uniques` are the columns of its unique keys beside a primary one. Rows
    of one that is `numbered` have numbers that nobody sees, and no ids but among their values."""

    columns: tuple[Column, ...] = (ID, VALUE)
    partitions: tuple[int, ...] = ()
    rows: dict[int, Row] = field(default_factory=dict)
    life: int = 0
    uniques: tuple[tuple[str, ...], ...] = ()
    numbered: bool = False

    def partition(self, key: int) -> str:
        return str(self.partitions[key % PARTITIONS]) if self.partitions else ""


@dataclass
class Change:
    """One row change of table `table` at `ts`: INSERT, UPDATE or DELETE; `old` and `new` are (id, row) or None. `life`
    and `uniques` are those of the table."""

    ts: int
    table: str
    kind: str
    old: tuple[int, Row] | None
    new: tuple[int, Row] | None
    partition: str
    columns: tuple[Column, ...]
    life: int = 0
    uniques: tuple[tuple[str, ...], ...] = ()


@dataclass
class Statement:
    """`table` is "" for a statement of the database."""

    ts: int
    table: str
    action: Action
    query: str
    columns: tuple[Column, ...] = ()


@dataclass
class Upstream:
    """Grows by `step`; `states` holds the true state after each commit-ts."""

    random: random.Random
    steps: tuple[int, ...] = (1, 3, 1 << 18, 5 << 18)
    """How far time goes on, as a TSO, between two events."""
    now: int = 1 << 18
    tables: dict[str, Table] = field(default_factory=dict)
    changes: list[Change] = field(default_factory=list)
    statements: list[Statement] = field(default_factory=list)
    states: list[tuple[int, State]] = field(default_factory=list)
    database: str = DATABASE
    _ids: int = 100
    _lives: int = 0

    def step(self) -> None:
        self._go_on()
        if not self.tables or self.random.random() < 0.15:
            self._statement()
        else:
            self._transaction()
        self._keep_state()

    def at(self, checkpoint: int) -> State:
        return next((state for ts, state in reversed(self.states) if ts <= checkpoint), {})

    def forget(self) -> None:
        """The rows that were written, and the states before the last one."""
        self.changes, self.states = [], self.states[-1:]

    def _go_on(self) -> None:
        self.now += self.random.choice(self.steps)

    def _keep_state(self) -> None:
        rows = {name: {key: dict(row) for key, row in table.rows.items()} for name, table in self.tables.items()}
        self.states.append((self.now, rows))

    # Statements

    def _statement(self) -> None:
        if not self.tables:
            self._create()
            return
        name = self.random.choice(sorted(self.tables))
        change = self.random.choice((self._truncate, self._drop, self._rename, self._add_column, self._drop_column))
        if self.random.random() < 0.25:
            self._create()
        elif self.random.random() < 0.08:
            self._make_database_anew()
        else:
            change(name)

    def _create(self) -> None:
        free = self._free()
        if free:
            name = self.random.choice(free)
            table = self._begun(name, Table())
            suffix = ""
            if self.random.random() < 0.4:
                table.partitions = self._partition_ids()
                suffix = f" PARTITION BY HASH (`id`) PARTITIONS {PARTITIONS}"
            self._add(name, Action.CREATE_TABLE, CREATE.format(name) + suffix)

    def _begun(self, name: str, table: Table) -> Table:
        self._lives += 1
        self.tables[name], table.life = table, self._lives
        return table

    def _truncate(self, name: str) -> None:
        table = self.tables[name]
        table.rows = {}
        table.partitions = self._partition_ids() if table.partitions else ()
        self._add(name, Action.TRUNCATE_TABLE, f"TRUNCATE TABLE `{name}`")

    def _drop(self, name: str) -> None:
        self._add(name, Action.DROP_TABLE, f"DROP TABLE `{self.database}`.`{name}`")
        del self.tables[name]

    def _rename(self, name: str) -> None:
        free = self._free()
        if free:
            new = self.random.choice(free)
            self.tables[new] = self.tables.pop(name)
            self._add(new, Action.RENAME_TABLE, f"RENAME TABLE `{self.database}`.`{name}` TO `{self.database}`.`{new}`")

    def _add_column(self, name: str) -> None:
        table = self.tables[name]
        free = [column for column in ("w", "x") if column not in {c.name for c in table.columns}]
        if not free:
            return
        column, required = free[0], self.random.random() < 0.5
        added = Column(column, "INT", nullable=not required, default="7" if required else None)
        table.columns += (added,)
        for row in table.rows.values():
            row[column] = added.default
        definition = f"`{column}` INT" + (" NOT NULL DEFAULT 7" if required else "")
        self._add(name, Action.ADD_COLUMN, f"ALTER TABLE `{name}` ADD COLUMN {definition}")

    def _drop_column(self, name: str) -> None:
        table = self.tables[name]
        if len(table.columns) > 2:
            gone = self.random.choice(table.columns[2:])
            table.columns = tuple(column for column in table.columns if column is not gone)
            for row in table.rows.values():
                del row[gone.name]
            self._add(name, Action.DROP_COLUMN, f"ALTER TABLE `{name}` DROP COLUMN `{gone.name}`")

    def _make_database_anew(self) -> None:
        self.tables = {}
        self.statements.append(Statement(self.now, "", Action.DROP_SCHEMA, f"DROP DATABASE `{self.database}`"))
        self._keep_state()
        self._go_on()
        self.statements.append(Statement(self.now, "", Action.CREATE_SCHEMA, f"CREATE DATABASE `{self.database}`"))

    def _free(self) -> list[str]:
        return [name for name in NAMES if name not in self.tables]

    def _partition_ids(self) -> tuple[int, ...]:
        self._ids += PARTITIONS
        return tuple(range(self._ids - PARTITIONS, self._ids))

    def _add(self, name: str, action: Action, query: str) -> None:
        self.statements.append(Statement(self.now, name, action, query, self.tables[name].columns))

    # Rows

    def _transaction(self) -> None:
        """Net mutations of one transaction on each of some tables: at most one a key, keys may change and swap."""
        for name in self.random.sample(sorted(self.tables), self.random.randint(1, len(self.tables))):
            rows = self.tables[name].rows
            touched = self.random.sample(range(8), self.random.randint(1, 4))
            if self.random.random() < 0.3 and sum(key in rows for key in touched) > 1:
                self._rotate(name, [key for key in touched if key in rows])
                continue
            for key in touched:
                new = self._row(name)
                if key not in rows:
                    self._change(name, "INSERT", None, (key, new))
                    rows[key] = new
                elif self.random.random() < 0.4:
                    self._change(name, "DELETE", (key, rows.pop(key)), None)
                else:
                    self._change(name, "UPDATE", (key, rows[key]), (key, new))
                    rows[key] = new

    def _row(self, name: str) -> Row:
        row: Row = {}
        for column in self.tables[name].columns[1:]:
            is_null = column.nullable and self.random.random() < 0.2
            row[column.name] = None if is_null else str(self.random.randrange(100))
        return row

    def _rotate(self, name: str, keys: list[int]) -> None:
        """Rows exchange their keys: as UPDATEs, or split as TiCDC does: DELETEs, then UPDATEs, then INSERTs."""
        table = self.tables[name]
        moves = [(key, target, table.rows[key]) for key, target in zip(keys, keys[1:] + keys[:1], strict=True)]
        split_all = self.random.random() < 0.5
        split = [m for m in moves if split_all or table.partition(m[0]) != table.partition(m[1])]
        for key, _, row in split:
            self._change(name, "DELETE", (key, row), None)
        for key, target, row in moves:
            if (key, target, row) not in split:
                self._change(name, "UPDATE", (key, row), (target, row))
        for _, target, row in split:
            self._change(name, "INSERT", None, (target, row))
        table.rows.update({target: row for _, target, row in moves})

    def _change(self, name: str, kind: str, old: tuple[int, Row] | None, new: tuple[int, Row] | None) -> None:
        table, image = self.tables[name], new or old
        assert image is not None
        copies = [None if side is None else (side[0], dict(side[1])) for side in (old, new)]
        own = (table.partition(image[0]), table.columns, table.life, table.uniques)
        self.changes.append(Change(self.now, name, kind, copies[0], copies[1], *own))


class Storage:
    """Writes what TiCDC would: files in commit order, sent again after restarts, in folders that fit the columns.

    `old_folders`: also in folders from before the table's rows began again, and in a file with rows from before, which
    is more than TiCDC does. `begun` is when the database was created.
    """

    extension = "json"

    def __init__(
        self, folder: Path, upstream: Upstream, commit_ts: bool = True, old_folders: bool = True, begun: int = 1
    ) -> None:
        self.folder, self.upstream, self._commit_ts, self._old_folders = folder, upstream, commit_ts, old_folders
        self._sent: dict[str, int] = {}
        self._numbers: dict[Folder, int] = {}
        self._statements = 0
        created = f"CREATE DATABASE `{upstream.database}`"
        self._schema(Statement(begun, "", Action.CREATE_SCHEMA, created))

    def write_up_to(self, ts: int, checkpoint: int) -> None:
        """Everything up to `ts` is written, and then `metadata`."""
        upstream = self.upstream
        while self._statements < len(upstream.statements) and upstream.statements[self._statements].ts <= ts:
            self._schema(upstream.statements[self._statements])
            self._statements += 1
        for table in NAMES:
            changes = [c for c in upstream.changes if c.table == table and self._sent.get(table, 0) < c.ts <= ts]
            for partition, since in sorted({(change.partition, self._since(change)) for change in changes}):
                together = [c for c in changes if (c.partition, self._since(c)) == (partition, since)]
                self._send(table, together)
            self._sent[table] = ts
        (self.folder / "metadata").write_bytes(render_checkpoint(checkpoint))

    def restart(self, checkpoint: int) -> None:
        """The changefeed begins again at `checkpoint`: rows above it are written once more."""
        self._sent = {table: min(sent, checkpoint) for table, sent in self._sent.items()}

    def _send(self, table: str, changes: list[Change]) -> None:
        for group in _cut(changes, self.upstream.random, whole_transactions=not self._commit_ts):
            place = Folder(f"{self.upstream.database}/{table}", self._version(table, group[0]), group[0].partition)
            number = self._numbers[place] = self._numbers.get(place, 0) + 1
            self._write(render(DataPath(place, number, self.extension)), self._lines(group))

    def _version(self, table: str, change: Change) -> int:
        """Mostly the version of the rows' own time, now and then an older or a newer one with the same columns."""
        written = [
            statement.ts
            for statement in self._history(table)
            if statement.action != Action.DROP_TABLE
            and statement.columns == change.columns
            and statement.ts >= self._since(change)
        ]
        own = [version for version in written if version <= change.ts]
        return own[-1] if own and self.upstream.random.random() < 0.7 else self.upstream.random.choice(written)

    def _since(self, change: Change) -> int:
        """The oldest folder for a row: that of the statement with which its table's rows began, unless any will do."""
        begun = [s.ts for s in self._history(change.table) if s.action in BEGINNINGS and s.ts <= change.ts]
        return 0 if self._old_folders else max(begun)

    def _history(self, table: str) -> list[Statement]:
        return [s for s in self.upstream.statements[: self._statements] if s.table == table]

    def _lines(self, changes: list[Change]) -> bytes:
        return b"".join(map(self._line, changes))

    def _line(self, change: Change) -> bytes:
        def image(side: tuple[int, Row] | None) -> list[Row] | None:
            return None if side is None else [{"id": str(side[0]), **side[1]}]

        names = [column.name for column in change.columns]
        message = {
            "id": 0, "database": self.upstream.database, "table": change.table, "pkNames": ["id"], "isDdl": False,
            "type": change.kind, "es": change.ts >> 18, "ts": 0, "sql": "", "sqlType": dict.fromkeys(names, 4),
            "mysqlType": dict.fromkeys(names, "int"), "old": image(change.old) if change.kind == "UPDATE" else None,
            "data": image(change.new or change.old),
        }  # fmt: skip
        if self._commit_ts:
            message["_tidb"] = {"commitTs": change.ts}
        return json.dumps(message).encode() + b"\r\n"

    def _schema(self, statement: Statement) -> None:
        path, content = render_schema_file(
            self.upstream.database, statement.table, statement.ts, statement.columns, statement.query, statement.action
        )
        self._write(render(path), content)

    def _write(self, path: str, content: bytes) -> None:
        (self.folder / path).parent.mkdir(parents=True, exist_ok=True)
        (self.folder / path).write_bytes(content)


def _cut(changes: list[Change], rnd: random.Random, whole_transactions: bool) -> Iterator[list[Change]]:
    """The rows of one file after the other: all of one version's columns. Without commit-ts the place in the files is
    the only order within a transaction, so it stays in one file."""
    while changes:
        same = next((at for at, change in enumerate(changes) if change.columns != changes[0].columns), len(changes))
        count = rnd.randint(1, same)
        while whole_transactions and count < same and changes[count].ts == changes[count - 1].ts:
            count += 1
        yield changes[:count]
        changes = changes[count:]


def last_moment_without_rename(upstream: Upstream, checkpoint: int) -> int:
    """What a target shows at `checkpoint`: a rename at the checkpoint itself waits, as the files of its version may not
    all be there yet."""
    renamed = any(s.ts == checkpoint and s.action == Action.RENAME_TABLE for s in upstream.statements)
    return checkpoint - 1 if renamed else checkpoint
