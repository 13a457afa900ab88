"""What TiCDC writes of an upstream: schema files, rows in folders that fit, both architectures, restarts."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path
from zlib import crc32

from consumer.layout.paths import DataPath, IndexPath, render
from consumer.model.files import Folder
from consumer.model.names import TableName
from consumer.model.times import tso_to_ms
from tests.support.random_ddl.events import Change, SchemaText, Statement
from tests.support.random_ddl.upstream import Upstream
from tests.support.written_files import render_checkpoint, render_index_file, render_schema_file

DATES = ("2026-11-21", "2026-11-22", "2026-11-23")
SQL_TYPES = {
    "INT": 4,
    "BIGINT": -5,
    "VARCHAR": 12,
    "TEXT": 2005,
    "DECIMAL": 3,
    "DATETIME": 93,
    "TIMESTAMP": 93,
    "ENUM": 4,
}


class Changefeed:
    """Writes to `folder`. `position` is the number of the next event."""

    def __init__(self, folder: Path, upstream: Upstream) -> None:
        self.folder, self.upstream, self.position = folder, upstream, 0
        self._random, self._manner = upstream.random, upstream.manner
        self._pending: defaultdict[TableName, list[Change]] = defaultdict(list)
        self._versions: defaultdict[TableName, dict[int, set[int]]] = defaultdict(dict)
        self._numbers: dict[Folder, int] = {}
        self._date, self._dated = "", self._random.random() < 0.5
        self._short_deletes, self._short_old = (self._random.random() < 0.2 for _ in range(2))
        self._begin(upstream.now - 1)

    def restart(self, checkpoint: int) -> None:
        """The changefeed begins again: everything above `checkpoint` is written once more."""
        events = self.upstream.events
        after = next((at for at, event in enumerate(events) if event.ts > checkpoint), len(events))
        self.position = min(self.position, after)
        self._begin(checkpoint)

    def _begin(self, checkpoint: int) -> None:
        self._started = checkpoint
        self._pending.clear()
        several = [str(self._random.randrange(10**36, 10**39)) for _ in range(2 * self._manner.dispatchers)]
        self._dispatchers = tuple(several) or ("",)

    def write(self, end: int, checkpoint: int, without_last: bool = False) -> None:
        """Events up to `end`, the rows above `checkpoint` maybe not all, and then `metadata`.

        `without_last`: of the statement at the checkpoint itself no file is there yet, or only some are.
        """
        events = self.upstream.events
        self._date = max(self._date, self._random.choice(DATES)) if self._dated else ""
        while self.position < len(events) and events[self.position].ts <= end:
            event = events[self.position]
            if isinstance(event, Change):
                self._pending[event.table].append(event)
                if self._random.random() < 0.1 and self._is_whole(event):
                    self._flush(event.table)
            elif not self._write_statement(event, without_last and event.ts == checkpoint):
                break
            self.position += 1
        for table, rows in list(self._pending.items()):
            if rows and (rows[0].ts <= checkpoint or self._random.random() < 0.7):
                self._flush(table)
        self.metadata(checkpoint)

    def metadata(self, checkpoint: int) -> None:
        (self.folder / "metadata").write_bytes(render_checkpoint(checkpoint))

    # Statements

    def _write_statement(self, statement: Statement, partly: bool) -> bool:
        """Rows that came before it are written before: of all tables, or in the new architecture of its own."""
        for table in list(self._pending):
            if not self._manner.new or table in statement.tables:
                self._flush(table)
        count = self._random.randrange(len(statement.files)) if partly else len(statement.files)
        for file in statement.files[:count]:
            self._schema(file, statement.ts)
        return not partly

    def _schema(self, file: SchemaText, version: int) -> None:
        name = file.name
        path, content = render_schema_file(name.database, name.table, version, file.columns, file.query, file.type)
        assert path.checksum is not None
        self._versions[name].setdefault(path.checksum, set()).add(version)
        self._write(render(path), content)

    def _version(self, change: Change) -> int | None:
        """The folder for rows of these columns, None where the new architecture takes them for a stale replay."""
        columns, name = change.shape.described, change.table
        path, _ = render_schema_file(name.database, name.table, 0, columns)
        assert path.checksum is not None
        known = self._versions[name].get(path.checksum, set())
        version = max(change.version, self._started)
        if version in known:
            return version
        if not known:
            self._schema(SchemaText(name, "", 0, columns), version)
            return version
        return None if self._manner.new and max(known) > version else max(known)

    # Rows

    def _is_whole(self, change: Change) -> bool:
        """Whether the transaction's next row is of another table: without commit-ts its rows stay in one file."""
        following = self.upstream.events[self.position + 1 : self.position + 2]
        return not any(isinstance(e, Change) and (e.ts, e.table) == (change.ts, change.table) for e in following)

    def _flush(self, table: TableName) -> None:
        changes = self._pending.pop(table, [])
        streams: defaultdict[tuple[str, str], list[Change]] = defaultdict(list)
        for change in changes:
            streams[change.partition, self._dispatcher(change)].append(change)
        for (partition, dispatcher), stream in streams.items():
            for _, same in groupby(stream, key=lambda change: (change.version, change.shape.described)):
                for group in self._cut(list(same)):
                    version = self._version(group[0])
                    if version is not None:
                        root = f"{table.database}/{table.table}"
                        self._file(Folder(root, version, partition, self._date, dispatcher), group)

    def _dispatcher(self, change: Change) -> str:
        """Tables whose key is not clustered are divided by row id, so a key can be in any part. Without commit-ts that
        stops a table whose key moves within a millisecond."""
        image = change.new or change.old or {}
        place = repr([image[column] for column in change.shape.key or ("id",)])
        anywhere = change.nonclustered and self._manner.commit_ts
        part = self._random.random() if anywhere else crc32(place.encode()) / 2**32
        return self._dispatchers[int(part * len(self._dispatchers)) % len(self._dispatchers)]

    def _cut(self, changes: Sequence[Change]) -> Iterator[Sequence[Change]]:
        """Files: of whole transactions, where their place alone tells rows apart."""
        whole = self._manner.keyless or not self._manner.commit_ts
        while changes:
            end = self._random.randint(1, len(changes))
            while whole and end < len(changes) and changes[end].ts == changes[end - 1].ts:
                end += 1
            yield changes[:end]
            changes = changes[end:]

    def _file(self, folder: Folder, changes: Sequence[Change]) -> None:
        number = self._numbers[folder] = self._numbers.get(folder, 0) + 1
        path = DataPath(folder, number)
        self._write(render(path), b"".join(map(self._line, changes)))
        self._write(render(IndexPath(folder)), render_index_file(path))

    def _line(self, change: Change) -> bytes:
        key, columns = change.shape.key, change.shape.columns
        data, old = change.new or change.old or {}, change.old if change.kind == "UPDATE" else None
        if self._short_deletes and change.kind == "DELETE" and key:
            data = {column: data[column] for column in key}
        if self._short_old and old is not None:
            old = {column: value for column, value in old.items() if data[column] != value}
        types = {column.name: column for column in columns if column.name in data}
        message = {
            "id": 0, "database": change.table.database, "table": change.table.table,
            "pkNames": [column.name for column in columns if column.is_pk], "isDdl": False, "type": change.kind,
            "es": tso_to_ms(change.ts), "ts": 0, "sql": "",
            "sqlType": {name: SQL_TYPES[column.type] for name, column in types.items()},
            "mysqlType": {name: column.type.lower() + " unsigned" * column.unsigned for name, column in types.items()},
            "old": None if old is None else [old], "data": [data],
        }  # fmt: skip
        if self._manner.commit_ts:
            message["_tidb"] = {"commitTs": change.ts}
        return json.dumps(message, ensure_ascii=False).encode() + b"\r\n"

    def _write(self, path: str, content: bytes) -> None:
        place = self.folder / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(content)
