"""Keeps parsed schema files from one command to the next in the user's cache folder.

Each is identified by its path, size and stamp in the listing; one that has changed is read again. A cache file is for
one storage and one parser. A damaged one counts as missing, and one that was not written for a month is removed.
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
    """Returns what `cache_schemas` wrote for this storage; nothing if that is lost, damaged, or of another parser."""
    with suppress(OSError, RuntimeError, ValueError, TypeError, LookupError):
        cache_file = _place(identity)
        if is_ours(cache_file):
            checksum, _, body = cache_file.read_bytes().partition(b"\n")
            if int(checksum) == zlib.crc32(body):
                return _read(body)
    return {}


def cache_schemas(identity: str, parsed: Mapping[StoredFile, SchemaFile]) -> None:
    """Keeps `parsed` for the next command. A file without a stamp is left out, because a change of it would not be
    noticed."""
    with suppress(OSError, RuntimeError, orjson.JSONEncodeError):
        body = _written((file, schema) for file, schema in parsed.items() if file.stamp)
        cache_file = _place(identity)
        cache_file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        # The name is new: in containers a process that died halfway can have had the process id of this one.
        handle, new = mkstemp(dir=cache_file.parent, prefix=f"{cache_file.stem}.")
        try:
            with open(handle, "wb") as out:
                out.write(b"%d\n%b" % (zlib.crc32(body), body))
            os.replace(new, cache_file)
        except OSError:
            os.unlink(new)
            raise
        _forget(cache_file.parent)


def _forget(folder: Path) -> None:
    """Removes files that were not written for a month: of other storages, earlier parsers and writers that died."""
    for entry in os.scandir(folder):
        with suppress(FileNotFoundError):
            if time.time() - entry.stat().st_mtime > _KEPT_SECONDS:
                os.unlink(entry.path)


def _written(parsed: Iterable[tuple[StoredFile, SchemaFile]]) -> bytes:
    """Serialises the schemas. Equal column lists, which are most of the content, are written once."""
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
    """Returns a hash of the code that parses, and that writes and reads here."""
    modules = (str(module.__file__) for module in (columns, files, schema_file))
    return hashlib.sha256(b"".join(Path(path).read_bytes() for path in (*modules, __file__))).hexdigest()[:8]
