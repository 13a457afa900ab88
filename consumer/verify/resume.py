"""`verify --resume`: which tables an earlier call found equal, in a file that is durable line by line.

The first line says of what the file tells: the storage, the target, the consumer, and which turn of the consumers it
was. Once a consumer has taken the target since, all is compared anew: it may have written, also below the watermark.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from datetime import UTC, datetime
from typing import IO, Any

from consumer.errors import BadConfig
from consumer.model.check import Counted, TableCheck
from consumer.model.names import TableName
from consumer.verify.mend import writing

_FORMAT = 1
_BEGINS = b'{"verified"'
_LEFT_OUT = ("shown", "quarantined", "later")
"""Of what was counted: there is none of it where nothing differs, or it is for `retry`."""


@dataclass
class Resumed:
    """`found` are tables that were equal, as far as they were compared."""

    file: IO[bytes]
    name: str
    found: dict[TableName, TableCheck] = field(default_factory=dict)

    def known(self, table: TableName, watermark: int) -> TableCheck | None:
        """What was found of the table at this very watermark."""
        check = self.found.get(table)
        return check if check is not None and check.watermark == watermark else None

    def record(self, check: TableCheck) -> None:
        """Keep what was found, where nothing differs. Raises BadConfig."""
        if check.error is not None or check.counted.differences or check.earlier:
            return
        counted = {f.name: getattr(check.counted, f.name) for f in fields(Counted) if f.name not in _LEFT_OUT}
        self._write(
            {
                "table": list(check.table),
                "watermark": check.watermark,
                "counted": counted,
                "notes": list(check.notes),
                "at": datetime.now(UTC).isoformat(timespec="seconds"),
            }
        )

    def _write(self, line: Mapping[str, Any]) -> None:
        with writing(self.name):
            self.file.write(json.dumps(line).encode() + b"\n")
            self.file.flush()
            os.fsync(self.file.fileno())

    def begin(self, header: Mapping[str, Any]) -> None:
        """Forget what is there."""
        with writing(self.name):
            self.file.seek(0)
            self.file.truncate()
        self._write(header)


@contextmanager
def resumed(name: str, upstream: str, target: str, consumer: str, turn: str) -> Iterator[Resumed]:
    """The file `name`, made where it is not there. `turn` is the target's. Raises BadConfig for a file that is
    none, or tells of something else."""
    header = {"verified": _FORMAT, "upstream": upstream, "target": target, "name": consumer}
    with writing(name):
        file = open(name, "a+b")  # noqa: SIM115 - what is raised while it is open is not all of this file
    with file:
        with writing(name):
            file.seek(0)
            lines = file.read().split(b"\n")
        said = _read(lines[0]) if len(lines) > 1 else {}
        begun = lines == [b""] or (len(lines) == 1 and lines[0].startswith(_BEGINS))
        if not begun and {key: said.get(key) for key in header} != header:
            raise BadConfig(
                f"{name} does not tell of this consumer, its storage and its target",
                hint="name another file in --resume",
            )
        found = Resumed(file, name)
        if begun or said.get("turn") != turn:
            found.begin({**header, "turn": turn})
        else:
            with writing(name):
                file.truncate(sum(len(line) + 1 for line in lines[:-1]))  # a line that was cut short
            checks = (_check(_read(line)) for line in lines[1:-1])
            found.found = {check.table: check for check in checks if check is not None}
        yield found


def _read(line: bytes) -> Mapping[str, Any]:
    try:
        read = json.loads(line)
    except ValueError:
        return {}
    return read if isinstance(read, dict) else {}


def _check(line: Mapping[str, Any]) -> TableCheck | None:
    try:
        database, table = line["table"]
        counted = Counted(**line["counted"])
        return TableCheck(
            TableName(database, table), line["watermark"], counted, tuple(line["notes"]), earlier=line["at"]
        )
    except (KeyError, TypeError, ValueError):
        return None
