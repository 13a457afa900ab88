"""How a changefeed writes, as its configuration and version have it."""

from __future__ import annotations

from dataclasses import dataclass

from consumer.codec.csv.options import CsvFormat
from tests.support.upstream import Statement


@dataclass(frozen=True)
class Style:
    """`classic`: the old architecture, which writes the index before the data and reuses folders of later statements;
    else `skips`: whether it goes on behind files that are there (v8.5.6 and later). `dispatchers`: how many write a
    table, 0 where names do not tell them."""

    classic: bool = True
    skips: bool = True
    csv: CsvFormat | None = None
    commit_ts: bool = True
    raw: bool = False
    dates: bool = False
    dispatchers: int = 0

    @property
    def timeless(self) -> bool:
        return self.csv is not None and not self.csv.include_commit_ts

    @property
    def tells_old_values(self) -> bool:
        return self.csv is None or self.csv.output_old_value


def touches(statement: Statement, table: str) -> bool:
    """A statement of the database touches all of its tables, a RENAME both names."""
    return statement.table in ("", table) or f"`{table}`" in statement.query


def date_of(path: str) -> str:
    levels = [level for level in path.split("/") if len(level) == 10 and level[4:5] == "-" and level[7:8] == "-"]
    return levels[0] if levels else ""
