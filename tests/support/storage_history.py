"""Storages as they grow over days: files come, are written again, are cleaned up; restarts change how they are named.

Only names, sizes and stamps matter here, with the commit-ts of the rows that a file would hold.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from consumer.layout.paths import DataPath, IndexPath, render
from consumer.model.actions import Action
from consumer.model.files import Folder, StoredFile
from consumer.model.times import ms_to_tso
from consumer.storage.spans import Spans
from tests.support.build import ID, VALUE
from tests.support.written_files import render_schema_file

WIDTHS = (20, 20, 20, 6, 7)
DATE_FORMATS = {"day": "%Y-%m-%d", "month": "%Y-%m", "year": "%Y", "none": ""}
BEGINNING = datetime(2025, 12, 20, tzinfo=UTC)


@dataclass
class Written:
    """A data file: its rows are from `first` to `last`."""

    place: Folder
    number: int
    first: int
    last: int


@dataclass
class Table:
    """`versions` in the order of their making; `partitions` and `dispatchers` are what its files are divided by now."""

    root: str
    versions: list[int]
    partitions: list[str] = field(default_factory=lambda: [""])
    dispatchers: list[str] = field(default_factory=lambda: [""])


class StorageHistory:
    """`stored` by path; `schemas` are the contents of schema files. Time goes on with every call of `grow`."""

    def __init__(self, rnd: random.Random) -> None:
        self.random = rnd
        self.now = BEGINNING
        self.date = rnd.choice(("day", "day", "day", "month", "year", "none"))
        self.by_id = rnd.random() < 0.2
        self.width = rnd.choice(WIDTHS)
        self.zones = [timedelta(hours=rnd.randint(-12, 14)) for _ in range(2)]
        self.tables: list[Table] = []
        self.stored: dict[str, StoredFile] = {}
        self.contents: dict[str, bytes] = {}
        self.written: dict[str, Written] = {}
        self._numbers: dict[Folder, int] = {}
        self._sent = self.tso
        self._stamps = 0

    @property
    def tso(self) -> int:
        return ms_to_tso(int(self.now.timestamp() * 1000))

    def scan(self, spans: Spans) -> list[StoredFile]:
        return [file for path, file in self.stored.items() if spans.covering(path) is None]

    def read(self, file: StoredFile, offset: int, length: int) -> bytes:
        return self.contents.get(file.path, b"")[offset : offset + length]

    def read_if_there(self, path: str, length: int) -> bytes | None:
        return self.contents.get(path)

    def grow(self) -> None:
        """Some hours or days of an upstream's life."""
        for _ in range(self.random.randint(1, 6)):
            self.now += timedelta(minutes=self.random.choice((1, 5, 300, 1500, 3000)))
            happens = self.random.choice((self._restart, self._version, self._create, self._rewrite, self._clean_up))
            if self.random.random() < 0.4:
                happens()
            for table in self.random.sample(self.tables, self.random.randint(0, len(self.tables))):
                self._flush(table)
            self._sent = self.tso

    def _create(self) -> None:
        number = len(self.tables) + 1
        name = self.random.choice(("t{}", "a-b{}", "x/y{}", "2026-01-{}", "CDC00000{}.json", "meta{}")).format(number)
        table = Table(str(100 + number) if self.by_id else f"{self.random.choice(('d', 'd-2', 'd.3'))}/{name}", [])
        if not self.by_id and self.random.random() < 0.3:
            table.partitions = [str(number * 7), str(202_600 + number)]
        self.tables.append(table)
        self._schema(table, Action.CREATE_TABLE, "CREATE TABLE `t` (`id` INT PRIMARY KEY,`v` INT)")

    def _version(self) -> None:
        if self.tables:
            self._schema(self.random.choice(self.tables), Action.ADD_INDEX, "ALTER TABLE `t` ADD INDEX `i` (`v`)")

    def _schema(self, table: Table, action: Action, query: str) -> None:
        version = self.tso if self.random.random() < 0.9 else self.random.randint(1, 1 << 62)
        database, _, name = table.root.partition("/")
        path, content = render_schema_file(database, name or f"n{database}", version, (ID, VALUE), query, action)
        place = f"{table.root}/meta/{render(path).rpartition('/')[2]}"
        table.versions.append(version)
        self.contents[place] = content
        self._store(place, len(content))

    def _restart(self) -> None:
        """Other numbers' width, other dispatchers, rows sent again: what has changed in the changefeed shows now."""
        self.width = self.random.choice(WIDTHS)
        self._sent -= ms_to_tso(self.random.choice((0, 60_000, 3_600_000)))
        for table in self.tables:
            across = not self.by_id and self.random.random() < 0.3
            count = self.random.randint(1, 2) if across else 0
            table.dispatchers = [str(self.random.randrange(10**36, 10**40)) for _ in range(count)] or [""]

    def _flush(self, table: Table) -> None:
        """Mostly into the newest version; after a restart TiCDC may go back to another. Each node has its zone."""
        version = table.versions[-1] if self.random.random() < 0.8 else self.random.choice(table.versions)
        for _ in range(self.random.randint(1, 4)):
            date = self.random.choice(self._dates())
            partition, dispatcher = self.random.choice(table.partitions), self.random.choice(table.dispatchers)
            place = Folder(table.root, version, partition, date, dispatcher)
            number = self._numbers[place] = self._numbers.get(place, 0) + 1
            path = render(DataPath(place, number), self.width)
            self.written[path] = Written(place, number, self.random.randint(self._sent, self.tso), self.tso)
            self._store(path, self.random.randint(1, 9))
            self._store(render(IndexPath(place)), 30)

    def _rewrite(self) -> None:
        """The last file of a folder that is still written to, after a crash."""
        dates = self._dates()
        last = [
            path
            for path, file in self.written.items()
            if file.number == self._numbers[file.place] and file.place.date in dates
        ]
        if last:
            path = self.random.choice(last)
            self.written[path].last = self.tso
            self._store(path, self.random.randint(1, 9))

    def _dates(self) -> list[str]:
        return [(self.now + zone).strftime(DATE_FORMATS[self.date]) for zone in self.zones]

    def _clean_up(self) -> None:
        if self.date == "day":
            limit = (self.now - timedelta(days=self.random.randint(3, 9))).strftime("%Y-%m-%d")
            gone = [path for path, file in self.written.items() if file.place.date < limit]
            if self.random.random() < 0.3:  # the next one takes the rest
                gone = self.random.sample(gone, len(gone) // 2)
            for path in gone:
                del self.written[path], self.stored[path]

    def _store(self, path: str, size: int) -> None:
        self._stamps += 1
        self.stored[path] = StoredFile(path, size, str(self._stamps))
