"""A storage of one table in files of any form, a target, and the folder that its bad rows go to."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from consumer import app
from consumer.codec.csv.options import CsvFormat
from consumer.config.load import load
from consumer.config.settings import Settings
from consumer.errors import ConsumerError
from consumer.model.actions import Action
from consumer.model.bad_rows import BadRow
from consumer.model.columns import Column
from consumer.model.names import TableName
from consumer.results import RunResult
from consumer.sink import sink_for
from consumer.target import TargetOptions
from tests.support import csv_rows
from tests.support.build import ID
from tests.support.canal_json import row_line
from tests.support.feed import Feed
from tests.support.inline_loader import InlineLoader
from tests.support.observers import Recorder

COLUMNS = (ID, Column("v", "INT"), Column("s", "VARCHAR", length=8))
KEYLESS = (replace(ID, is_pk=False), *COLUMNS[1:])
TIMED = CsvFormat(include_commit_ts=True, output_old_value=True)
FORMS: dict[str, CsvFormat | None] = {
    "canal-json": None,
    "csv": TIMED,
    "csv-header": replace(TIMED, output_field_header=True),
    "csv-no-quote": replace(TIMED, quote=""),
}
TABLE = TableName("d", "t")
Row = tuple[int, str, str | None, str]
"""Commit-ts, id, v, s."""


@dataclass
class Storage:
    """The table d.t, whose CREATE is at commit-ts 2."""

    folder: Path
    form: str = "canal-json"
    columns: tuple[Column, ...] = COLUMNS
    seen: Recorder = field(default_factory=Recorder)

    def __post_init__(self) -> None:
        self.csv = FORMS[self.form]
        self.feed = Feed(self.folder / "storage")
        key = " PRIMARY KEY" if self.columns[0].is_pk else ""
        query = f"CREATE TABLE `t` (`id` INT{key} NOT NULL, `v` INT, `s` VARCHAR(8))"
        self.feed.database("d", 1)
        self.feed.statement("d.t", 2, Action.CREATE_TABLE, query, self.columns)
        self.letters = self.folder / "letters"

    def line(self, row: Row, kind: str = "INSERT", table: str = "t", old: Row | None = None) -> bytes:
        ts, *values = row
        if self.csv is None:
            names = [column.name for column in self.columns]
            before = None if old is None else [dict(zip(names, old[1:], strict=True))]
            data = dict(zip(names, values, strict=True))
            return row_line(kind, data, commit_ts=ts, table=table, old=before)
        return csv_rows.record(kind[0], values, self.columns, self.csv, ts, owner=f"d.{table}")

    def file(self, *lines: bytes, version: int = 2, table: str = "d.t", number: int = 0) -> str:
        """Its path in the storage."""
        extension = "json" if self.csv is None else "csv"
        head = []
        if self.csv is not None and self.csv.output_field_header:
            head.append(csv_rows.header([column.name for column in self.columns], self.csv))
        content = b"".join(line + b"\r\n" for line in (*head, *lines))
        path = self.feed.file(table, version, content, number, extension=extension)
        return str(path.relative_to(self.feed.folder))

    @property
    def above(self) -> int:
        """How many lines stand above the rows of a file."""
        return int(self.csv is not None and self.csv.output_field_header)

    def settings(self, target: str, **flags: object) -> Settings:
        given: dict[str, object] = {"upstream_uri": f"file://{self.feed.folder}?protocol=canal-json", "tz": "UTC"}
        if self.csv is not None:
            given["upstream_uri"] = f"file://{self.feed.folder}?protocol=csv"
            given |= {"csv_include_commit_ts": self.csv.include_commit_ts, "csv_null": self.csv.null}
            given |= {"csv_quote": self.csv.quote or "none", "csv_output_old_value": self.csv.output_old_value}
            given |= {"csv_output_field_header": self.csv.output_field_header}
        given |= {"on_bad_row": "quarantine", "dead_letters": f"file://{self.letters}", "downstream_uri": target}
        return load(given | flags, {}).settings

    def once(self, target: str, checkpoint: int, loader: InlineLoader | None = None, **flags: object) -> RunResult:
        self.feed.checkpoint(checkpoint)
        self.seen = Recorder()
        return app.once(self.settings(target, **flags), self.seen, loader or InlineLoader())

    def stopped(self) -> ConsumerError | None:
        return self.seen.stopped.get(TABLE)

    def written(self) -> list[dict[str, Any]]:
        """All letters that there are, in the order of their places."""
        found = [json.loads(path.read_text(encoding="utf-8")) for path in self.letters.glob("*/*/*.json")]
        return sorted(found, key=lambda letter: (letter["file"] or "", letter["line"] or 0, letter["id"]))


def recorded(target: str) -> Mapping[TableName, Mapping[str, BadRow]]:
    """What the target's progress says of bad rows of tables that are there."""
    sink = sink_for(target, TargetOptions("default"))
    try:
        return sink.progress().quarantined_rows
    finally:
        sink.close()
