"""Columns DOUBLE(M,D), which the server rounds by an arithmetic of its own.

What it stores can be some units in the last place off the double nearest to the decimal number, so a value is not found
by `=`. Up to 15 digits two of the column's numbers are never nearer to each other than 10**-D, and what is stored is
far nearer than that to the number meant, so it is found by a range. With more digits a double cannot tell them apart.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from consumer.errors import CannotBeExact
from consumer.model.names import TableName, quote
from consumer.sink.mysql.tables.describe import TargetTable

if TYPE_CHECKING:
    import pyarrow as pa

_TYPE = re.compile(r"double\((\d+),(\d+)\)")
_DIGITS = 15


def refuse_indistinct(name: TableName, table: TargetTable) -> None:
    """Raises CannotBeExact where a unique key has a column whose numbers a double cannot tell apart."""
    for column in (table.column(part) for unique in table.unique_keys for part in unique.columns):
        found = _TYPE.match(column.type) if column else None
        if column and found and int(found[1]) > _DIGITS:
            raise CannotBeExact(
                f"{quote(column.name)} of a unique key is {column.type.upper()}: the server rounds it, and a double "
                f"has {_DIGITS} digits, so two keys can become one",
                hint=f"give the target's column the type DOUBLE, or at most {_DIGITS} digits",
                table=str(name),
            )


def near(name: str, column_type: str, literal: pa.Array) -> pa.Array | None:
    """Conditions that the quoted column `name` holds the number of each literal; None for a column that is not rounded.
    A null is near to nothing."""
    found = _TYPE.match(column_type)
    if found is None:
        return None
    # Arrow comes with it, and a run with nothing to load must not wait for that.
    from consumer.sink.mysql.rows.values import sql

    reach = f"4e-{int(found[2]) + 1}"
    return sql(f"{name} BETWEEN ", literal, f" - {reach} AND ", literal, f" + {reach}")
