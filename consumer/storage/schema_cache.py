"""Schema files as they were parsed, kept from one command to the next in the user's cache folder.

Each is found by its path, size and stamp in the listing; one that changed is read again. The cache file is for one
storage and one parser. A damaged one counts as absent, and one that was not written for a month is removed.
"""

from __future__ import annotations

import hashlib
import os
import time
import zlib
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import fields
from functools import cache
from operator import attrgetter
from pathlib import Path
from tempfile import mkstemp

import orjson

from consumer.layout import schema_file
from consumer.model import columns, files
from consumer.model.columns import Column
from consumer.model.files import SchemaFile, StoredFile
from consumer.model.process import cache_folder, is_ours

_KEPT_SECONDS = 30 * 24 * 3600


def cached_schemas(identity: str) -> dict[StoredFile, SchemaFile]:
    """What `cache_schemas` wrote for this storage; empty if that is lost, damaged, or of another parser."""
    with suppress(OSError, RuntimeError, ValueError, TypeError, LookupError):
        place = _place(identity)
        if is_ours(place):
            sum_, _, body = place.read_bytes().partition(b"\n")
            if int(sum_) == zlib.crc32(body):
                return _read(body)
    return {}


def cache_schemas(identity: str, parsed: Mapping[StoredFile, SchemaFile]) -> None:
    """Keep `parsed` for the next command. A file without a stamp is left out, because a change of it would not be
    seen."""
    with suppress(OSError, RuntimeError, orjson.JSONEncodeError):
        body = _written((file, schema) for file, schema in parsed.items() if file.stamp)
        place = _place(identity)
        place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        # A new name: in containers a process that died halfway had the number that this one has.
        handle, new = mkstemp(dir=place.parent, prefix=f"{place.stem}.")
        try:
            with open(handle, "wb") as out:
                out.write(b"%d\n%b" % (zlib.crc32(body), body))
            os.replace(new, place)
        except OSError:
            os.unlink(new)
            raise
        _forget(place.parent)


def _forget(folder: Path) -> None:
    """Remove files that were not written for long: of other storages, earlier parsers and writers that died."""
    for entry in os.scandir(folder):
        with suppress(FileNotFoundError):
            if time.time() - entry.stat().st_mtime > _KEPT_SECONDS:
                os.unlink(entry.path)


def _written(parsed: Iterable[tuple[StoredFile, SchemaFile]]) -> bytes:
    """Column lists that are the same are written once: they are most of it."""
    lists: dict[tuple[Column, ...], int] = {}
    rows = []
    for file, schema in parsed:
        *values, listed = _SCHEMA(schema)
        rows.append([file.path, file.size, file.stamp, *values, lists.setdefault(listed, len(lists))])
    return orjson.dumps({"columns": [[_COLUMN(column) for column in listed] for listed in lists], "files": rows})


def _read(body: bytes) -> dict[StoredFile, SchemaFile]:
    kept = orjson.loads(body)
    lists = [tuple(Column(*[*members, tuple(elements)]) for *members, elements in listed) for listed in kept["columns"]]
    return {
        StoredFile(path, size, stamp): SchemaFile(*[*values, lists[listed]])
        for path, size, stamp, *values, listed in kept["files"]
    }


_COLUMN = attrgetter(*(member.name for member in fields(Column)))
_SCHEMA = attrgetter(*(member.name for member in fields(SchemaFile) if member.init))


def _place(identity: str) -> Path:
    return cache_folder("schemas") / f"{hashlib.sha256(identity.encode()).hexdigest()[:24]}-{_parser()}.json"


@cache
def _parser() -> str:
    """The code that parses, and that writes and reads here, as one word."""
    modules = (str(module.__file__) for module in (columns, files, schema_file))
    return hashlib.sha256(b"".join(Path(place).read_bytes() for place in (*modules, __file__))).hexdigest()[:8]
