"""What TiCDC writes of a small upstream as CSV."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from pathlib import Path

from consumer.model.load import CsvFormat
from tests.support.csv_rows import header, record
from tests.support.upstream import Change, Row, Storage, Upstream

ORDER = "DELETE", "UPDATE", "INSERT"


class CsvStorage(Storage):
    """Updates of keys are split, and within a transaction DELETEs come first and INSERTs last.

    Without commit-ts every row lies in the folder of its own time, as nothing else would tell its time.
    """

    extension = "csv"

    def __init__(self, folder: Path, upstream: Upstream, csv: CsvFormat) -> None:
        self._csv = csv
        super().__init__(folder, upstream, csv.include_commit_ts, old_folders=csv.include_commit_ts)

    def _lines(self, changes: list[Change]) -> bytes:
        lines = [header([column.name for column in changes[0].columns], self._csv)] * self._csv.output_field_header
        for _, transaction in groupby(changes, key=lambda change: change.ts):
            pieces = [piece for change in transaction for piece in _split(change)]
            for change in sorted(pieces, key=lambda piece: ORDER.index(piece.kind)):
                lines += self._records(change)
        return b"".join(line + b"\r\n" for line in lines)

    def _records(self, change: Change) -> Iterator[bytes]:
        if change.kind == "UPDATE" and self._csv.output_old_value:
            yield self._record("D", change, change.old, is_update=True)
            yield self._record("I", change, change.new, is_update=True)
        else:
            yield self._record(change.kind[0], change, change.new or change.old, is_update=False)

    def _record(self, operation: str, change: Change, side: tuple[int, Row] | None, is_update: bool) -> bytes:
        assert side is not None
        row = {"id": str(side[0]), **side[1]}
        values = [row[column.name] for column in change.columns]
        return record(operation, values, change.columns, self._csv, change.ts, is_update, f"d.{change.table}")

    def _version(self, table: str, change: Change) -> int:
        if self._csv.include_commit_ts:
            return super()._version(table, change)
        return max(statement.ts for statement in self._history(table) if statement.ts <= change.ts)


def _split(change: Change) -> list[Change]:
    if change.kind != "UPDATE" or (change.old and change.new and change.old[0] == change.new[0]):
        return [change]
    place = (change.partition, change.columns)
    return [
        Change(change.ts, change.table, "DELETE", change.old, None, *place),
        Change(change.ts, change.table, "INSERT", None, change.new, *place),
    ]
