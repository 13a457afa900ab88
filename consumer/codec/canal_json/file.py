"""canal-JSON, one row change a line -> rows."""

from __future__ import annotations

import re

import numpy as np

from consumer.codec.batches import Ints
from consumer.codec.canal_json.alike import AlikeLines
from consumer.codec.canal_json.changes import ChangeBuilder
from consumer.codec.canal_json.errors import RowLines
from consumer.codec.canal_json.lines import JsonEnds
from consumer.codec.canal_json.rows import RowParser
from consumer.codec.errors import Place
from consumer.codec.lines import Block
from consumer.codec.rows import BlockRows, LineAt, Time
from consumer.model.load import Dialect, FileSlice, LoadTarget
from consumer.model.times import ms_to_tso

_COMMIT_TS, _ES = re.compile(rb'"_tidb": ?\{"commitTs": ?([0-9]{1,19})[,}]'), re.compile(rb'"es": ?([0-9]{1,13}),')


class JsonFile:
    """A `codec.rows.RowFile` of canal-JSON."""

    header = 0

    def __init__(self, piece: FileSlice, target: LoadTarget, dialect: Dialect) -> None:
        self.place = Place.of(piece, target)
        self.ends = JsonEnds(dialect.terminator)
        self._parser = RowParser(target)
        self._alike = AlikeLines(target, self._parser)
        self._builder = ChangeBuilder(target, self.place, dialect.clock)

    def rows(self, block: Block, line_at: LineAt, blame: bool = True) -> BlockRows | None:
        lines = RowLines(block, line_at, self.place)
        try:
            rows = self._alike.parse(block.text)
        except ValueError as error:
            fault = lines.fault(self._parser) if blame else self.place.corrupt("", line_at(block.offset))
            raise fault from error
        if not rows.count:
            return None

        def counts(sizes: Ints) -> Ints:
            newlines = np.frombuffer(block.text, np.uint8) == ord("\n")
            found: Ints = np.add.reduceat(newlines, np.cumsum(sizes) - sizes, dtype=np.int64)
            if rows.count != found.sum():
                raise ValueError("blank lines")
            return found

        builder = self._builder
        return BlockRows(
            rows.ts,
            rows.exact,
            counts,
            lambda inside, origin: builder.changes(rows, inside, origin, lines),
            lambda: (rows.update, rows.delete),
            lambda which, needed: builder.images(rows, which, needed, lines),
            lambda which: builder.old_images(rows, which, lines),
        )

    def time(self, line: bytes) -> Time | None:
        exact, coarse = _COMMIT_TS.findall(line), _ES.search(line)
        if exact:
            return Time(int(exact[-1]), True)
        return None if coarse is None else Time(ms_to_tso(int(coarse[1])), False)
