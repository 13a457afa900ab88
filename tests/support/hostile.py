"""A storage whose names and values mean something to whatever they pass through."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import Any, ClassVar

from hypothesis import strategies as st

from consumer.layout.paths import DataPath, render
from consumer.layout.schema_file import root_of
from consumer.model.actions import Action
from consumer.model.columns import Column
from consumer.model.files import Folder
from tests.support.written_files import render_checkpoint, render_schema_file

_SPECIAL = "'\"`\\/*;%#-?@$()[]{}:,.=<>|&~!\n\r\t\x01\x1b\x7f \u202e\u2028éß漢"
_LONGEST = 64
_NAMES = 10

Row = tuple[str | int | None, ...]


@dataclass(frozen=True)
class Names:
    """No two are the same to a target that ignores case; none ends in a blank, which servers refuse."""

    database: str
    table: str
    renamed: str
    dropped: str
    keyless: str
    key: str
    value: str
    number: str
    index: str
    added: str


def texts(most: int = 40) -> st.SearchStrategy[str]:
    """What a text column can hold."""
    special = st.sampled_from(_SPECIAL + "N0\x00\x08\x1a\U0001f600")
    return st.text(st.one_of(special, st.characters(codec="utf-8")), max_size=most)


def names() -> st.SearchStrategy[Names]:
    """Names that a TiDB takes, and that lie in a folder of their own."""
    any_letter = st.characters(codec="utf-8", max_codepoint=0xFFFF, exclude_characters="\0")
    one = st.text(st.one_of(st.sampled_from(_SPECIAL + "aB1_"), any_letter), min_size=1, max_size=_LONGEST)
    different = st.lists(one.filter(_is_name), min_size=_NAMES, max_size=_NAMES, unique_by=str.casefold)
    return different.map(lambda found: Names(*found))


def _is_name(text: str) -> bool:
    """A path has no empty names, and `.` and `..` are others; the length of a file's name is counted in bytes."""
    parts = text.split("/")
    return text == text.rstrip() and all(p and p.strip(".") and len(p.encode()) < 200 for p in parts)


class Hostile:
    """Upstream's history in `parts`: each writes more of it, and `state` is then what every table holds, as its columns
    and its rows."""

    to_the_trash: ClassVar[Any] = {"rules": [{"kinds": ["drop-table", "truncate-table"], "action": "rename"}]}
    kept = 2
    """How many tables the history moves to the trash."""

    def __init__(self, folder: Path, named: Names, values: Sequence[str]) -> None:
        assert len({name.casefold() for name in astuple(named)}) == _NAMES
        self._folder, self._n = folder, named
        self._values = [value[:50] for value in values]
        self._now = 1
        self._numbers: dict[Folder, int] = {}
        self._key = Column(named.key, "VARCHAR", length=64, nullable=False, is_pk=True)
        self._columns: tuple[Column, ...] = (self._key, Column(named.value, "TEXT"), Column(named.number, "INT"))
        self.state: dict[tuple[str, str], tuple[tuple[str, ...], list[Row]]] = {}
        self.parts: tuple[Callable[[], None], ...] = (self._begin, self._change, self._move)

    @property
    def uri(self) -> str:
        return f"file://{self._folder}?protocol=canal-json"

    @property
    def table(self) -> tuple[str, str]:
        """One that has its first name until the last part."""
        return self._n.database, self._n.table

    def _begin(self) -> None:
        n = self._n
        self._statement("", Action.CREATE_SCHEMA, f"CREATE DATABASE {_q(n.database)}", ())
        comment = _literal(self._values[0].replace("\0", ""))
        value = f"{_q(n.value)} TEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin,{_q(n.number)} INT"
        for table in (n.table, n.dropped):
            at = self._statement(
                table, Action.CREATE_TABLE,
                f"CREATE TABLE {_q(table)} ({_q(n.key)} VARCHAR(64) COLLATE utf8mb4_bin NOT NULL COMMENT {comment},"
                f"{value},PRIMARY KEY ({_q(n.key)}),"
                f"UNIQUE KEY {_q(n.index)} ({_q(n.number)}))",
                self._columns,
            )  # fmt: skip
            self._rows(table, at, [self._row(i) for i in range(6)])
        self._no_key = (Column(n.value, "TEXT"), Column(n.number, "INT"))
        self._no_key_at = self._statement(
            n.keyless, Action.CREATE_TABLE, f"CREATE TABLE {_q(n.keyless)} ({value})", self._no_key
        )
        self._rows(n.keyless, self._no_key_at, [self._row(i)[1:] for i in (0, 0, 1)], self._no_key)
        self._end()

    def _change(self) -> None:
        n = self._n
        default = self._values[1].replace("\0", "")
        self._columns = (*self._columns, Column(n.added, "VARCHAR", length=64, default=default))
        at = self._statement(
            n.table, Action.ADD_COLUMN,
            f"ALTER TABLE {_q(n.table)} ADD COLUMN {_q(n.added)} VARCHAR(64) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin"
            f" DEFAULT {_literal(default)}",
            self._columns,
        )  # fmt: skip
        named, rows = self.state[n.database, n.table]
        self.state[n.database, n.table] = (*named, n.added), [(*row, default) for row in rows]
        self._rows(n.table, at, [(*self._row(i), self._values[2]) for i in (1, 7)])
        self._rows(n.table, at, [self.state[n.database, n.table][1][0]], deleted=True)
        self._rows(n.keyless, self._no_key_at, [self._row(0)[1:]], self._no_key, deleted=True)
        self._end()

    def _move(self) -> None:
        n = self._n
        at = self._statement(n.table, Action.TRUNCATE_TABLE, f"TRUNCATE TABLE {_q(n.table)}", self._columns)
        self.state[n.database, n.table] = (self.state[n.database, n.table][0], [])
        self._rows(n.table, at, [(*self._row(i), None) for i in range(8, 10)])
        self._statement(n.dropped, Action.DROP_TABLE, f"DROP TABLE {_q(n.database)}.{_q(n.dropped)}", self._columns[:3])
        del self.state[n.database, n.dropped]
        at = self._statement(
            n.renamed, Action.RENAME_TABLE,
            f"RENAME TABLE {_q(n.database)}.{_q(n.table)} TO {_q(n.database)}.{_q(n.renamed)}",
            self._columns,
        )  # fmt: skip
        self.state[n.database, n.renamed] = self.state.pop((n.database, n.table))
        self._rows(n.renamed, at, [(*self._row(3), self._values[3])])
        self._end()

    def _row(self, number: int) -> Row:
        value = self._values[number % len(self._values)]
        return f"{value}{number}", value, number

    def _statement(self, table: str, action: Action, query: str, columns: tuple[Column, ...]) -> int:
        self._now += 1
        path, content = render_schema_file(self._n.database, table, self._now, columns, query, action)
        self._write(render(path), content)
        if action is Action.CREATE_TABLE:
            self.state[self._n.database, table] = tuple(column.name for column in columns), []
        return self._now

    def _rows(
        self, table: str, version: int, rows: Sequence[Row], columns: Sequence[Column] = (), deleted: bool = False
    ) -> None:
        """A file of new rows, or of ones that go; a row with a key takes the place of the one that has it."""
        columns = columns or self._columns
        held = self.state[self._n.database, table][1]
        lines = []
        for row in rows:
            self._now += 1
            lines.append(self._line(table, row, columns, deleted))
            held[:] = _without(held, row, columns[0].is_pk, deleted)
            held += [] if deleted else [row]
        folder = Folder(root_of(self._n.database, table), version)
        self._numbers[folder] = self._numbers.get(folder, 0) + 1
        self._write(render(DataPath(folder, self._numbers[folder])), b"".join(lines))

    def _line(self, table: str, row: Row, columns: Sequence[Column], deleted: bool) -> bytes:
        types = {column.name: (4, "int") if column.type == "INT" else (12, column.type.lower()) for column in columns}
        message: dict[str, Any] = {
            "id": 0, "database": self._n.database, "table": table, "isDdl": False,
            "pkNames": [column.name for column in columns if column.is_pk] or None,
            "type": "DELETE" if deleted else "INSERT", "es": 0, "ts": 0, "sql": "",
            "sqlType": {name: number for name, (number, _) in types.items()},
            "mysqlType": {name: text for name, (_, text) in types.items()},
            "old": None, "_tidb": {"commitTs": self._now},
            "data": [{name: None if value is None else str(value) for name, value in zip(types, row, strict=True)}],
        }  # fmt: skip
        return json.dumps(message, ensure_ascii=False).encode() + b"\r\n"

    def _end(self) -> None:
        self._now += 1
        self._write("metadata", render_checkpoint(self._now))

    def _write(self, path: str, content: bytes) -> None:
        place = self._folder / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(content)


def _without(rows: list[Row], row: Row, keyed: bool, once: bool) -> list[Row]:
    if keyed:
        return [other for other in rows if other[0] != row[0]]
    return [other for i, other in enumerate(rows) if not once or i != rows.index(row)]


def _q(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def _literal(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "''") + "'"
