"""canal-JSON as a protocol."""

from __future__ import annotations

from typing import TYPE_CHECKING

from consumer.codec.canal_json.bounds import COMMIT_TS, read_bounds, read_first
from consumer.codec.canal_json.sniff import sniff_json
from consumer.codec.protocol import Agreed, RowProtocol
from consumer.model.load import Dialect, FileSlice, Layout, LoadTarget
from consumer.ports import RangeReader

if TYPE_CHECKING:
    from consumer.codec.rows import RowFile


def _has_lines(dialect: Dialect) -> bool:
    return dialect.terminator.endswith(b"\n")


def _opened(_: RangeReader, piece: FileSlice, target: LoadTarget, dialect: Dialect, _layout: Layout) -> RowFile:
    from consumer.codec.canal_json.file import JsonFile

    return JsonFile(piece, target, dialect)


CANAL_JSON = RowProtocol(
    name="canal-json",
    extension="json",
    density=1,
    commit_ts=COMMIT_TS,
    splittable=_has_lines,
    joinable=_has_lines,
    bounds=read_bounds,
    first_ts=read_first,
    opened=_opened,
    sniff=lambda content, whole, schema, declared: sniff_json(content, whole),
    agreed=lambda alike: Agreed(alike[0].dialect, alike[0].commit_ts),
)
