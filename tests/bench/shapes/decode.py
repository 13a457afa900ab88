"""One core, from bytes to Arrow."""

from __future__ import annotations

from tests.bench import generate
from tests.bench.decode import decode_alone, parse_alone
from tests.bench.rows import inserts
from tests.bench.shapes.base import Shape


class DecodeJson(Shape):
    """One core, from the files to change tables: no fold, no target. The limit is Arrow's parser on the same bytes."""

    name, title = "G", "decode alone, canal-JSON"

    @property
    def events(self) -> int:
        return int(200_000 * self.scale)

    def build(self) -> int:
        return generate.write_storage(self.storage, [("t", inserts(self.events))], self.encode)

    def before_round(self) -> None: ...

    def before_limit(self) -> None: ...

    def round(self) -> None:
        decode_alone(self.storage)

    def limit(self) -> None:
        parse_alone(self.storage)


class DecodeCsv(DecodeJson):
    name, title = "H", "decode alone, CSV"
    encode = staticmethod(generate.csv_line)
