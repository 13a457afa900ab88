"""TiCDC: which bytes it writes, in which order, and what a restart does."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from random import Random

from consumer.layout.paths import DataPath, IndexPath, render
from consumer.layout.schema_file import checksum
from consumer.model.actions import Action
from consumer.model.columns import Column
from consumer.model.files import Folder
from consumer.model.times import tso_to_time
from tests.simulate.bucket import Bucket
from tests.simulate.original import DATABASE, Original
from tests.simulate.rows import canal_json, csv, keys_of
from tests.simulate.style import Style, date_of, touches
from tests.support.upstream import NAMES, Change, Statement
from tests.support.written_files import column_members, render_checkpoint, render_index_file, render_schema_file


@dataclass
class Changefeed:
    """`sent`: by table, up to where its rows were written by this incarnation; `began` is where that began. `written`:
    what the data files hold. `read_up_to`: how far the target has the rows of a table, for sure."""

    original: Original
    bucket: Bucket
    style: Style
    read_up_to: Callable[[str], int]
    checkpoint: int = 0
    """In the beginning the one that it begins with, 0 for the beginning of upstream."""
    began: int = 0
    executed: int = 0
    sent: dict[str, int] = field(default_factory=dict)
    written: dict[str, list[Change]] = field(default_factory=dict)
    numbers: dict[Folder, int] = field(default_factory=dict)
    index_fails: float = 0.0
    """How often an index file is not written."""
    schemas: dict[tuple[str, int], list[int]] = field(default_factory=dict)
    """The versions of a table's schema files, by checksum."""
    dispatchers: int = 0
    rewrites: int = 0
    _incarnations: int = 0
    _waiting: list[Change] = field(default_factory=list)
    _taken: int = 0

    def __post_init__(self) -> None:
        self.dispatchers = self.style.dispatchers
        if self.checkpoint:
            self.began, self.executed = self.checkpoint, len(self.original.statements)
            self.sent = dict.fromkeys(NAMES, self.checkpoint)
            self.bucket.put("metadata", render_checkpoint(self.checkpoint))
            return
        self._schema(Statement(1, "", Action.CREATE_SCHEMA, f"CREATE DATABASE `{DATABASE}`"))

    # How far it is

    @property
    def next_statement(self) -> Statement | None:
        statements = self.original.statements
        return statements[self.executed] if self.executed < len(statements) else None

    def resolved(self) -> int:
        """What could be published: every row up to there is written, and every statement."""
        rows = min((change.ts for change in self._unsent()), default=self.original.now + 1) - 1
        statement = self.next_statement
        if not self.style.commit_ts:  # a target at the middle of a millisecond would show a part of it
            rows = max((ts for ts, _ in self.original.states if ts <= rows), default=0)
        if statement is None:
            return rows
        # The old architecture pins the checkpoint at a statement that is not written yet.
        return min(rows, statement.ts if self.style.classic else statement.ts - 1)

    def _unsent(self) -> list[Change]:
        new = self.original.changes[self._taken :]
        self._taken = len(self.original.changes)
        self._waiting += new
        self._waiting = [change for change in self._waiting if change.ts > self.sent.get(change.table, 0)]
        return self._waiting

    # What it does

    def flush(self, random: Random, tables: Collection[str] = NAMES, whole: bool = True) -> list[str]:
        """Write rows of some tables, up to the next statement that touches them; the paths."""
        paths: list[str] = []
        for table in random.sample(sorted(tables), len(tables)):
            end = min([self.original.now, *(s.ts for s in self._ahead() if touches(s, table))])
            due = [change for change in self._unsent() if change.table == table and change.ts <= end]
            if due and not whole:
                end = random.choice(due).ts
                due = [change for change in due if change.ts <= end]
            paths += self._write_rows(random, table, due)
            self.sent[table] = max(self.sent.get(table, 0), end)
        return paths

    def execute(self, random: Random) -> Statement | None:
        """Write the next statement, once all rows before it are written."""
        statement = self.next_statement
        if statement is None:
            return None
        # The old architecture waits for all tables.
        self.flush(random, [name for name in NAMES if self.style.classic or touches(statement, name)])
        if self.style.classic and random.random() < 0.3 and self.resolved() >= statement.ts:
            self.publish(statement.ts)
            if random.random() < 0.5:
                return None  # it is pinned there for now
        while (other := self.next_statement) is not None and other.ts == statement.ts:
            self._schema(other)
            self.executed += 1
        return statement

    def publish(self, end: int | None = None) -> int:
        """Write `metadata`."""
        self.checkpoint = self.resolved() if end is None else min(end, self.resolved())
        self.bucket.put("metadata", render_checkpoint(self.checkpoint))
        return self.checkpoint

    def catch_up(self, random: Random) -> list[str]:
        """Write all that there is; the paths of the rows."""
        paths = self.flush(random)
        while self.next_statement is not None:
            self.execute(random)
            paths += self.flush(random)
        self.publish()
        return paths

    def restart(self, random: Random, checkpoint: int, torn: bool = False) -> None:
        """Everything goes on from `checkpoint`. `torn`: the incarnation before died between index and data."""
        if torn:
            self._tear(random)
        self._incarnations += 1
        if self.style.dispatchers > 1:
            self.dispatchers = random.randint(1, self.style.dispatchers)
        self.began = checkpoint
        self.numbers = {}
        self.sent = {table: min(sent, checkpoint) for table, sent in self.sent.items()}
        self._waiting, self._taken = [], 0
        repeated = [s for s in self.original.statements[: self.executed] if s.ts > checkpoint]
        self.executed -= len(repeated)

    def clean_up(self, days: int) -> list[str]:
        """Delete the date folders from `days` before the checkpoint."""
        limit = tso_to_time(self.checkpoint - (days * 86_400_000 << 18)).strftime("%Y-%m-%d")
        gone = [path for path in self.bucket.objects | self.written if (date := date_of(path)) and date < limit]
        for path in gone:
            self.bucket.delete(path)
            self.written.pop(path, None)
        return gone

    def lose_an_index(self, random: Random) -> str | None:
        """Of which the changefeed knows nothing before it begins again."""
        path = random.choice([None, *sorted(path for path in self.bucket.objects if path.endswith(".index"))])
        if path is not None:
            self.bucket.delete(path)
        return path

    # How it writes

    def _ahead(self) -> list[Statement]:
        return self.original.statements[self.executed :]

    def _write_rows(self, random: Random, table: str, changes: list[Change]) -> list[str]:
        paths = []
        while changes:
            version = self._table_version(table, changes[0])
            group = [c for c in changes if self._table_version(table, c) == version and c.columns == changes[0].columns]
            changes = [c for c in changes if c not in group]
            folder_version = self._folder_version(table, version, group[0].columns)
            if folder_version is None:
                continue  # taken for rows that were sent before
            for place, rows in self._places(table, folder_version, group):
                while rows:
                    count = random.randint(1, len(rows))
                    keyed = bool(keys_of(rows[0].columns, rows[0].uniques))
                    whole = not (self.style.commit_ts and keyed) or self.style.timeless
                    while whole and count < len(rows) and rows[count].ts == rows[count - 1].ts:
                        count += 1
                    paths.append(self._write_file(random, place, rows[:count]))
                    rows = rows[count:]
        return paths

    def _places(self, table: str, version: int, changes: list[Change]) -> list[tuple[Folder, list[Change]]]:
        found: dict[Folder, list[Change]] = {}
        date = tso_to_time(self.original.now).strftime("%Y-%m-%d") if self.style.dates else ""
        for change in changes:
            image = change.new or change.old
            assert image is not None
            number = image[0] % self.dispatchers if self.dispatchers else 0
            dispatcher = f"{self._incarnations + 1}{number:018d}" if self.dispatchers else ""
            found.setdefault(Folder(f"{DATABASE}/{table}", version, change.partition, date, dispatcher), []).append(
                change
            )
        return list(found.items())

    def _table_version(self, table: str, change: Change) -> int:
        statements = [s.ts for s in self.original.statements if s.table == table and s.ts <= change.ts]
        filtered = [ts for ts, name in self.original.filtered if name == table and ts <= change.ts]
        return max([*statements, *filtered])

    def _folder_version(self, table: str, version: int, columns: tuple[Column, ...]) -> int | None:
        wanted = max(version, self.began)
        own = checksum(DATABASE, table, [column_members(column) for column in columns])
        known = self.schemas.get((table, own), [])
        if wanted in known or (self.style.timeless and version in known):
            return wanted
        if known and not self.style.timeless:  # there, nothing else would tell a row's time
            return max(known) if self.style.classic or max(known) <= wanted else None
        self._schema(Statement(wanted, table, Action.NONE, "", columns))
        return wanted

    def _write_file(self, random: Random, folder: Folder, changes: list[Change]) -> str:
        number = self._next_number(folder)
        place = DataPath(folder, number, self._extension)
        path, index = render(place), render(IndexPath(folder))
        self.rewrites += path in self.bucket.objects
        self.written[path] = list(changes)
        content = csv(changes, self.style.csv) if self.style.csv else self._lines(changes)
        if self.style.classic:
            if random.random() >= self.index_fails:
                self.bucket.put(index, render_index_file(place))
            self.bucket.put(path, content)
        else:
            self.bucket.put(path, content)
            self.bucket.put(index, render_index_file(place))
        return path

    def _lines(self, changes: list[Change]) -> bytes:
        return canal_json(changes, self.style.commit_ts, self.style.raw)

    def _next_number(self, folder: Folder) -> int:
        if folder not in self.numbers:
            self.numbers[folder] = self._indexed(folder)
        number = self.numbers[folder] + 1
        while (path := self._path(folder, number)) in self.written and not self._overwrites(folder, path):
            number += 1
        self.numbers[folder] = number
        return number

    def _overwrites(self, folder: Folder, path: str) -> bool:
        """Whether a file that is there is written again. Not where rows that are due would be lost with it, for good or
        until they are sent again: nobody could know."""
        if not self.style.classic and self.style.skips:
            return False
        due = [change.ts for change in self.written[path] if change.ts <= max(self.began, self.checkpoint)]
        return max(due, default=0) <= self.read_up_to(folder.root.partition("/")[2])

    def _indexed(self, folder: Folder) -> int:
        """The number of the last file, by the index file; a file that it names and that is not there is written."""
        found = self.bucket.objects.get(render(IndexPath(folder)))
        if found is None:
            return 0
        number = int(found.content.decode().strip().rpartition(".")[0][-20:])
        return number if self._path(folder, number) in self.bucket.objects else number - 1

    def _path(self, folder: Folder, number: int) -> str:
        return render(DataPath(folder, number, self._extension))

    @property
    def _extension(self) -> str:
        return "json" if self.style.csv is None else "csv"

    def _tear(self, random: Random) -> None:
        """The index file names a file that was never written, or the last file is not in it: of a folder that no
        clean-up took, as that one died before."""
        folders = sorted(f for f, number in self.numbers.items() if self._path(f, number) in self.bucket.objects)
        if folders:
            folder = random.choice(folders)
            number = self.numbers[folder] + (1 if self.style.classic else -1)
            if number:
                place = DataPath(folder, number, self._extension)
                self.bucket.put(render(IndexPath(folder)), render_index_file(place))
            else:
                self.bucket.delete(render(IndexPath(folder)))

    def _schema(self, statement: Statement) -> None:
        path, content = render_schema_file(
            DATABASE, statement.table, statement.ts, statement.columns, statement.query, statement.action
        )
        self.bucket.put(render(path), content)
        known = self.schemas.setdefault((statement.table, path.checksum or 0), [])
        if statement.ts not in known:
            known.append(statement.ts)
