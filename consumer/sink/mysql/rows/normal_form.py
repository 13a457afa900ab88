"""Values as text in a normal form: two texts are equal exactly if a column of the target treats them as the same value.
Covers values that the writer would write, and values that the server returns."""

from __future__ import annotations

import json
import re
import struct
from collections.abc import Callable

import pyarrow as pa
import pyarrow.compute as pc

from consumer.codec.values import float32_exact
from consumer.model.columns import Family
from consumer.model.json_texts import json_form
from consumer.model.load import LoadTarget
from consumer.model.names import quote
from consumer.sink.mysql.server.connection import FlavorName
from consumer.sink.mysql.target import TargetColumn, mysql_target

_NUMBERED = (Family.BIT, Family.ENUM, Family.SET)
_TEXTS = frozenset({"char", "varchar", "tinytext", "text", "mediumtext", "longtext"})
_ROUNDED = re.compile(r"(float|double)\(\d+,\d+\)", re.IGNORECASE)
"""Such a column's value is the number of that many digits nearest to what the server stores. Its text shows that
number."""
_NUMBER = r"^[-+]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?$"
_TIMES = (Family.DATE, Family.DATETIME, Family.TIMESTAMP, Family.TIME)


def expected(target: LoadTarget, rows: pa.Table) -> pa.Table:
    """Returns the normal form of ``c0 .. cN``, as in change tables."""
    columns = [_expected(target, position, rows.column(f"c{position}")) for position in range(len(target.columns))]
    return _table(columns)


def held(target: LoadTarget, columns: list[pa.Array]) -> pa.Table:
    """Returns the normal form of the results of `expressions`."""
    return _table([_normal(target, position, values) for position, values in enumerate(columns)])


def changes_from_normal_form(target: LoadTarget, rows: pa.Table) -> pa.Table:
    """Returns the inverse of `expected`. All normal forms except those of vectors are values that the writer
    accepts."""
    columns = [rows.column(f"c{position}").combine_chunks() for position in range(len(target.columns))]
    families = (column.family for column in target.columns)
    vectors = (family is Family.VECTOR for family in families)
    return _table(
        [_each(texts, _numbers) if a_vector else texts for texts, a_vector in zip(columns, vectors, strict=True)]
    )


def expressions(target: LoadTarget) -> list[str]:
    """Returns what to select for each column: numbers as numbers, even if their text form is truncated or padded."""
    return [_expression(target, position, quote(name)) for position, name in enumerate(target.names)]


def _expression(target: LoadTarget, position: int, name: str) -> str:
    settings = mysql_target(target)
    return expression(target.columns[position].family, settings.columns[position], settings.server.flavor, name)


def expression(family: Family, column: TargetColumn, flavor: FlavorName, name: str) -> str:
    """Returns what to select for the column `name`, which has the type of `column`."""
    if family in _NUMBERED or column.data_type == "year":
        return f"CAST({name} AS UNSIGNED)"
    if column.data_type in ("float", "double") and not _ROUNDED.match(column.type):
        return f"{name} + 0e0"  # as text a FLOAT has six digits
    if column.data_type.endswith("int"):
        return f"{name} + 0"  # without the zeros of ZEROFILL
    if column.data_type == "vector":  # MySQL's text of one has six digits of each number
        return f"VEC_AS_TEXT({name})" if flavor == "tidb" else f"LOWER(HEX({name}))"
    return name


def _expected(target: LoadTarget, position: int, values: pa.ChunkedArray) -> pa.Array:
    data_type = mysql_target(target).columns[position].data_type
    return normal_form_of_written(target.columns[position].family, data_type, values.combine_chunks())


def normal_form_of_written(family: Family, data_type: str, values: pa.Array) -> pa.Array:
    """Returns the normal form of what a column of `data_type` holds once `values`, as in change tables, are written."""
    if family is Family.FLOAT:
        values = _of_numbers(values, lambda texts: float32_exact(pc.cast(texts, pa.string())))
    elif family is Family.YEAR and data_type in _TEXTS:
        values = pc.utf8_lpad(values, 4, "0")
    return normal_form_of_read(family, data_type, values)


def _normal(target: LoadTarget, position: int, values: pa.Array) -> pa.Array:
    return normal_form_of_read(
        target.columns[position].family, mysql_target(target).columns[position].data_type, values
    )


def normal_form_of_read(family: Family, data_type: str, values: pa.Array) -> pa.Array:
    """Returns the normal form of what a column of `data_type` holds."""
    if family is Family.BINARY:
        return pc.cast(values, pa.large_binary())
    text = pc.cast(values, pa.large_string())
    if family is Family.JSON:
        return _each(text, json_form)
    if family is Family.VECTOR:
        return _each(text, _vector)
    if data_type in _TEXTS:
        return text
    if family in _NUMBERED or family is Family.YEAR:
        return pc.replace_substring_regex(text, r"^0+(\d)", r"\1")
    if family in (Family.FLOAT, Family.DOUBLE):
        kind = pa.float32() if data_type == "float" else pa.float64()
        # -0 becomes 0, because servers treat them as equal.
        return _of_numbers(text, lambda of: pc.cast(pc.add(pc.cast(pc.cast(of, pa.string()), pa.float64()), 0.0), kind))
    if family in (Family.INTEGER, Family.DECIMAL):
        digits = pc.replace_substring_regex(text, r"^(-?)0+(\d)", r"\1\2")  # a DECIMAL shows the zeros of ZEROFILL
        return pc.replace_substring_regex(_without_zeros(digits), r"^-?0$", "0")
    if family in _TIMES:
        text = _without_zeros(text)
        return (
            pc.replace_substring_regex(text, r"^(\d{4}-\d\d-\d\d) 00:00:00$", r"\1") if family is Family.DATE else text
        )
    return text


def _of_numbers(texts: pa.Array, form: Callable[[pa.Array], pa.Array]) -> pa.Array:
    """Returns numbers as text. A value that is not a number, of a row that no load could write, stays as it is in the
    files."""
    try:
        return pc.cast(form(texts), pa.large_string())
    except pa.ArrowInvalid:
        numbers = pc.if_else(pc.match_substring_regex(texts, _NUMBER), texts, pa.scalar(None, texts.type))
        return pc.coalesce(pc.cast(form(numbers), pa.large_string()), pc.cast(texts, pa.large_string()))


def _without_zeros(text: pa.Array) -> pa.Array:
    """Removes trailing zeros after a decimal point."""
    return pc.replace_substring_regex(pc.replace_substring_regex(text, r"(\.\d*?)0+$", r"\1"), r"\.$", "")


def _each(text: pa.Array, form: object) -> pa.Array:
    """Applies `form` once for each distinct text, because Arrow has no kernel for it."""
    assert callable(form)
    coded = pc.dictionary_encode(text)
    forms = [None if value is None else form(value) for value in coded.dictionary.to_pylist()]
    return pa.array(forms, pa.large_string()).take(coded.indices)


def _vector(text: str) -> str:
    """Returns the bytes of its 32-bit numbers in hex. A server that returns such bytes returns no list."""
    try:
        numbers = json.loads(text)
        return struct.pack(f"<{len(numbers)}f", *numbers).hex()
    except (ValueError, TypeError, struct.error):
        return text


def _numbers(text: str) -> str:
    packed = bytes.fromhex(text)
    return json.dumps(struct.unpack(f"<{len(packed) // 4}f", packed))


def _table(columns: list[pa.Array]) -> pa.Table:
    return pa.table(columns, names=[f"c{position}" for position in range(len(columns))])
