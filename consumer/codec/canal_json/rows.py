"""Reads lines of canal-JSON as columns, with Arrow's JSON reader."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj

from consumer.codec.change_table import Flags, Ints
from consumer.model.load import LoadTarget
from consumer.model.names import same_name
from consumer.model.times import LOGICAL_BITS

_INSERT, _UPDATE, _DELETE = range(3)
_KINDS = pa.array(["INSERT", "UPDATE", "DELETE"])
MAX_ES = 1 << (63 - LOGICAL_BITS)
_LINE_FEED, _OPENING_BRACE = b"\n{"
_AFTER_OBJECT = re.compile(rb"\}(?=[\sn{])(?:\s*null|[ \t\r]*\{)")


class NotRows(ValueError):
    """Some line of a block is not a row. It does not name the line."""


@dataclass(frozen=True, slots=True)
class CanalRows:
    """The rows of one block. `ts` is ``es << 18`` where `exact` is false.

    `data` has a text column for each target column, then for each column that must be absent; null where the row has
    null or no such column. `types`, in the same order, are ``mysqlType``'s: null where the row has no such column, and
    for columns whose types are not read: those are never null, and have no labels. `old` has a column for each key
    column, null where ``old`` lacks it, with the values of the rows `old_rows` only: the rising numbers of rows whose
    ``old`` is an object.
    """

    update: Flags
    delete: Flags
    ts: Ints
    exact: Flags
    data: list[pa.LargeStringArray]
    types: list[pa.LargeStringArray]
    old: list[pa.LargeStringArray]
    old_rows: Ints

    @property
    def count(self) -> int:
        return len(self.ts)


class RowParser:
    """Reads the members that a target needs, and skips all others."""

    def __init__(self, target: LoadTarget) -> None:
        self.table = target.table
        data = [(name, pa.large_string()) for name in (*(column.name for column in target.columns), *target.barred)]
        self._typed = [n for n, column in enumerate(target.columns) if column.nullable or column.elements]
        self._typed += range(len(target.columns), len(data))
        members = [
            ("database", pa.string()),
            ("table", pa.string()),
            ("isDdl", pa.bool_()),
            ("type", pa.string()),
            ("es", pa.int64()),
            ("_tidb", pa.struct([("commitTs", pa.int64())])),
            ("mysqlType", pa.struct([data[position] for position in self._typed])),
            ("data", pa.list_(pa.struct(data))),
        ]
        if target.key:
            members.append(("old", pa.list_(pa.struct([data[position] for position in target.key]))))
        self._options = pj.ParseOptions(explicit_schema=pa.schema(members), unexpected_field_behavior="ignore")

    def parse(self, lines: bytes) -> CanalRows:
        """Returns one row for each line that is not blank. Raises ValueError if any line is not a row."""
        lines, count = _checked_lines(lines)
        if not count:
            return _no_rows()
        options = pj.ReadOptions(use_threads=False, block_size=len(lines) + 1)
        try:
            table = pj.read_json(pa.BufferReader(lines), read_options=options, parse_options=self._options)
        except pa.ArrowException as error:
            raise NotRows(str(error)) from error
        if table.num_rows != count:
            raise NotRows("a line with two values")
        self._check_source(table)
        return _rows(table, self._typed)

    def _check_source(self, table: pa.Table) -> None:
        """Raises NotRows unless all rows are changes of the target's table. Names that differ only in case are the same
        upstream."""
        if pc.any(table.column("isDdl")).as_py():
            raise NotRows("isDdl")
        for member, name in (("database", self.table.database), ("table", self.table.table)):
            names = _column(table, member).unique().to_pylist()
            if any(found_name is None or same_name(found_name) != same_name(name) for found_name in names):
                raise NotRows(member)


def _checked_lines(lines: bytes) -> tuple[bytes, int]:
    """Returns `lines` without blank ones, and how many there are. Every one begins with ``{``, and none has a bare
    ``null`` or a second object after the first.

    Arrow's reader takes values as they come, lines or not, and a ``null`` that is not inside an object crashes it. As
    no value begins inside of a line, a table with as many rows as lines has one in each.
    """
    content = np.frombuffer(lines, np.uint8)
    ends = np.flatnonzero(content == _LINE_FEED)
    count = len(ends)
    if not (lines.startswith(b"{") and np.all(content[ends[:-1] + 1] == _OPENING_BRACE)):
        stripped = [line for line in map(bytes.strip, lines.split(b"\n")) if line]
        if not all(line.startswith(b"{") for line in stripped):
            raise NotRows("a line that is not a JSON object")
        lines, count = b"\n".join([*stripped, b""]), len(stripped)
    checked = 0
    for match in _AFTER_OBJECT.finditer(lines):
        if match.start() >= checked:
            # it may be inside a text: then the line is one value, and this does not raise
            begin, checked = lines.rfind(b"\n", 0, match.start()) + 1, lines.find(b"\n", match.start())
            orjson.loads(lines[begin:checked])
    return lines, count


def _no_rows() -> CanalRows:
    flags, ints = np.empty(0, np.bool_), np.empty(0, np.int64)
    return CanalRows(flags, flags, ints, flags, [], [], [], ints)


def _rows(table: pa.Table, typed: Sequence[int]) -> CanalRows:
    kind: Ints = pc.index_in(_column(table, "type"), _KINDS).fill_null(-1).to_numpy()
    if kind.min() < _INSERT:
        raise NotRows("type")
    commit_ts = pc.struct_field(_column(table, "_tidb"), [0])
    ts, exact = _times(commit_ts, _column(table, "es"))
    rows = _column(table, "data")
    data = rows.flatten()
    if rows.null_count or data.null_count or not np.all(np.diff(rows.offsets.to_numpy()) == 1):
        raise NotRows("data")
    old, old_rows = _old(table) if "old" in table.column_names else ([], np.empty(0, np.int64))
    return CanalRows(
        kind == _UPDATE,
        kind == _DELETE,
        ts,
        exact,
        _texts(data),
        _types(table, typed, data.type.num_fields),
        old,
        old_rows,
    )


def _types(table: pa.Table, typed: Sequence[int], count: int) -> list[pa.LargeStringArray]:
    types = [pa.nulls(table.num_rows, pa.large_string())] * count
    for position, values in zip(typed, _texts(_column(table, "mysqlType")), strict=True):
        types[position] = values
    return types


def _times(commit_ts: pa.Int64Array, es: pa.Int64Array) -> tuple[Ints, Flags]:
    """Returns the ts of each row, and whether it is a commit-ts."""
    exact: Flags = commit_ts.is_valid().to_numpy(zero_copy_only=False)
    ts: Ints = commit_ts.fill_null(0).to_numpy()
    if not np.all(exact):
        milliseconds: Ints = es.fill_null(-1).to_numpy()
        if np.any(~exact & ((milliseconds < 0) | (milliseconds >= MAX_ES))):
            raise NotRows("es")
        ts = np.where(exact, ts, milliseconds << LOGICAL_BITS)
    if ts.min() < 0:
        raise NotRows("commitTs")
    return ts, exact


def _old(table: pa.Table) -> tuple[list[pa.LargeStringArray], Ints]:
    lists = _column(table, "old")
    lengths = np.diff(lists.offsets.to_numpy()) * lists.is_valid().to_numpy(zero_copy_only=False)
    if lengths.max() > 1:
        raise NotRows("old")
    return _texts(lists.flatten()), np.flatnonzero(lengths)


def _texts(rows: pa.StructArray) -> list[pa.LargeStringArray]:
    texts = rows.flatten()
    for text in texts:
        text.validate(full=True)  # the reader accepts bytes that are not UTF-8
    return list(texts)


def _column(table: pa.Table, name: str) -> pa.Array:
    return table.column(name).combine_chunks()
