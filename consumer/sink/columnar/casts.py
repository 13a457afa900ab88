"""The values of existing rows when their column changes, and their values in a new column. They are SQL expressions,
and functions that these call."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, tzinfo
from itertools import count
from typing import TYPE_CHECKING

from consumer.ddl.declared import Definition, backfill_text
from consumer.model.columns import Column, Family
from consumer.model.types.conversions import Conversion, Way
from consumer.model.types.values import NoValue
from consumer.sink.columnar.table import TEXT, duckdb_type, quote_text, text_expression, widened

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa

_TIMES = frozenset({Family.DATETIME, Family.TIMESTAMP})
_BYTES = "BLOB"


@dataclass(frozen=True, slots=True)
class NewValue:
    """A value of the new column: its DuckDB type, and the expression with the functions that it calls. `null` says that
    it is NULL for all rows."""

    type: str
    sql: str
    functions: Mapping[str, Conversion] = field(default_factory=dict)
    null: bool = False


def converted_value(old: Column, new: Column, type_now: str, expression: str, function: str) -> NewValue:
    """Returns `expression`, the value of column `old` (of DuckDB type `type_now`), as a value of `new`. `function` is
    an unused name."""
    conversion, same = Conversion(old, new), old.family is new.family
    # A column that became text for a value that its own type cannot hold stays text.
    kind = TEXT if same and widened(old, type_now) else duckdb_type(new)
    if _are_numbers(old, new) or conversion.way is Way.KEPT:
        value = text_expression(old, expression) if kind == TEXT != type_now else expression
        return NewValue(kind, value if kind == type_now else f"CAST({value} AS {kind})")
    called = f"{function}({expression if type_now in (TEXT, _BYTES) else text_expression(old, expression)})"
    return NewValue(kind, called if kind in (TEXT, _BYTES) else f"CAST({called} AS {kind})", {function: conversion})


def _are_numbers(old: Column, new: Column) -> bool:
    """Returns whether the values are the numbers of labels that are not known."""
    return old.labelled and new.family is old.family and not (old.elements or new.elements)


def backfill_value(column: Column, definition: Definition, version: int, zone: tzinfo) -> NewValue:
    """Returns what existing rows get in the new `column`: its default, or, as in MySQL, the zero of its type.

    CURRENT_TIMESTAMP is the time of `version` in `zone`. Raises NotExact.
    """
    text = backfill_text(column, definition, version, zone)
    kind = duckdb_type(column)
    if text is None:
        return NewValue(kind, f"CAST(NULL AS {kind})", null=True)
    if column.family is Family.BINARY:
        return NewValue(kind, f"CAST({quote_text(_blob(text))} AS BLOB)")
    if column.family in _TIMES or column.family is Family.DATE:
        kind = kind if _is_time(text) else TEXT
    return NewValue(kind, f"CAST({quote_text(text)} AS {kind})")


def _is_time(text: str) -> bool:
    try:
        return datetime.fromisoformat(text) is not None
    except ValueError:
        return False


def _blob(text: str) -> str:
    """Returns a BLOB literal, in which every byte is written by two hexadecimal digits."""
    return "".join(f"\\x{byte:02X}" for byte in text.encode())


_numbers = count()


class Converting:
    """A conversion as an SQL function over values as DuckDB holds them: labels of ENUM and SET, not numbers. A value
    that cannot be converted becomes NULL. `refusal` then says why; the result is of no use. It is "" otherwise."""

    def __init__(self, name: str, conversion: Conversion) -> None:
        self._name, self._conversion = name, conversion
        # A connection never releases the name of a function whose transaction was rolled back.
        self._own = f"{name}_{next(_numbers)}"
        self.refusal = ""

    def register(self, connection: duckdb.DuckDBPyConnection) -> None:
        old, new = (_BYTES if c.family is Family.BINARY else TEXT for c in (self._conversion.old, self._conversion.new))
        # DuckDB evaluates the annotations of a function: a lambda has none.
        connection.create_function(
            self._own, lambda values: self._made(values), [old], new, type="arrow", null_handling="special"
        )
        connection.execute(f"CREATE TEMP MACRO {self._name}(value) AS {self._own}(value)")

    def unregister(self, connection: duckdb.DuckDBPyConnection) -> None:
        connection.execute(f"DROP MACRO temp.{self._name}")
        connection.remove_function(self._own)

    def _made(self, values: pa.ChunkedArray) -> pa.Array:
        import pyarrow as pa  # an idle round does not need it

        from consumer.codec.conversions import convert_values
        from consumer.codec.labels import label_texts
        from consumer.sink.columnar.comparer import labels_to_numbers

        old, new = self._conversion.old, self._conversion.new
        made, lost = convert_values(self._conversion, labels_to_numbers(old, values).combine_chunks())
        if lost:
            self.refusal = f"column {new.name}: {lost}"
        return label_texts(new, pa.chunked_array([made])).combine_chunks() if new.labelled and new.elements else made


@contextmanager
def functions_registered(connection: duckdb.DuckDBPyConnection, functions: Mapping[str, Conversion]) -> Iterator[None]:
    """Registers these functions on the connection while the context lasts. Raises NoValue at the end if one could not
    convert a value."""
    made = [Converting(name, conversion) for name, conversion in functions.items()]
    for convert in made:
        convert.register(connection)
    yield
    for convert in made:
        convert.unregister(connection)
    if refusal := next((convert.refusal for convert in made if convert.refusal), ""):
        raise NoValue(refusal)
