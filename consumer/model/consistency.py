"""What a reader of the target sees while rows are written."""

from __future__ import annotations

from enum import StrEnum


class Consistency(StrEnum):
    """`row`: each row as soon as it is written. `table`: the rows of a load at once, so a table is never between two of
    its watermarks. `snapshot`: the rows of all tables up to one moment at once."""

    ROW = "row"
    TABLE = "table"
    SNAPSHOT = "snapshot"
