"""The paths of the DuckDB file and of its copy for readers."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from datetime import tzinfo
from pathlib import Path
from urllib.parse import parse_qsl, unquote, urlsplit

from consumer.errors import BadConfig
from consumer.sink.common import changefeed_zone, check_consumer_name

OLDEST_STORAGE = "v1.2.0"
"""The oldest release of DuckDB that can read everything in such a file."""
_VERSION = re.compile(r"v\d+\.\d+\.\d+|latest")
_TAKEN = ("storage_consumer", "information_schema")
"""Schemas in the file. A file of the same name could not be distinguished from them."""


@dataclass(frozen=True, slots=True)
class DuckDbSettings:
    """A DuckDB file as target. `path` is absolute. `name` is the consumer name, under which the progress is kept.

    `time_zone` is the changefeed's time zone, an offset ``+08:00`` or a name. It applies to statements; rows are in
    UTC. `copy` is the file for readers, absolute, "" for none. `storage_version` is DuckDB's name of the storage format
    of a new file.
    """

    path: str
    name: str
    time_zone: str = "UTC"
    copy: str = ""
    storage_version: str = OLDEST_STORAGE

    def __post_init__(self) -> None:
        check_consumer_name(self.name)
        changefeed_zone(self.time_zone)

    @property
    def zone(self) -> tzinfo:
        """Returns the changefeed's time zone."""
        return changefeed_zone(self.time_zone)

    @property
    def staging(self) -> str:
        """Returns the folder next to the file for staged rows. Executors must reach it, too."""
        return f"{self.path}.staging"

    @classmethod
    def from_uri(cls, uri: str, *, name: str, time_zone: str = "UTC") -> DuckDbSettings:
        """Parses ``duckdb:///relative/file.duckdb`` or ``duckdb:////absolute/file.duckdb`` (SQLAlchemy's rule), with
        ``?copy=FILE``, a path as in the shell, and ``?storage-version=v1.4.0``. Raises BadConfig, also if a file's
        folder does not exist."""
        parts = urlsplit(uri)
        options = dict(parse_qsl(parts.query, keep_blank_values=True))
        if parts.scheme != "duckdb" or parts.netloc or parts.fragment or options.keys() - {"copy", "storage-version"}:
            raise BadConfig(
                f"{uri!r} is not of the form duckdb:///file.duckdb (in the current folder) or duckdb:////folder/file.duckdb,"
                " with ?copy=/folder/copy.duckdb or without, and with ?storage-version=v1.4.0 or without",
                hint="percent-encode '#', '?' and '%' in the path",
            )
        uri_path = unquote(parts.path)[1:]
        path = _file(uri_path, "target", "the progress is kept in it")
        if not path.parent.is_dir():
            raise BadConfig(
                f"the folder {path.parent} of the DuckDB file does not exist",
                hint=f"an absolute path takes four slashes: duckdb:////{uri_path}"
                if Path("/", uri_path).parent.is_dir()
                else f"make it first: mkdir -p {shlex.quote(str(path.parent))}",
            )
        version = options.get("storage-version", OLDEST_STORAGE)
        if not _VERSION.fullmatch(version):
            raise BadConfig(
                f"{version!r} is no storage version of DuckDB", hint=f"it is a release, as {OLDEST_STORAGE}, or latest"
            )
        if "copy" not in options:
            return cls(str(path), name, time_zone, storage_version=version)
        copy = _file(options["copy"], "copy", "readers open it").resolve()  # a link stays, and leads to the new copy
        file = path.resolve()
        if copy in (file, Path(f"{file}.wal")) or file == Path(f"{copy}.wal"):
            raise BadConfig(f"the copy for readers must be another file than {path}")
        if not copy.parent.is_dir():
            make = f"make it first: mkdir -p {shlex.quote(str(copy.parent))}"
            raise BadConfig(f"the folder {copy.parent} of the copy does not exist", hint=make)
        return cls(str(path), name, time_zone, str(copy), version)


def _file(text: str, what: str, why: str) -> Path:
    """Returns the absolute path of a DuckDB file. Raises BadConfig."""
    if not text or text.endswith("/") or text == ":memory:" or "?" in text:
        raise BadConfig(f"the DuckDB {what} must be a file, with no '?' in its path: {why}")
    path = Path(text).absolute()
    if path.stem.lower() in _TAKEN:
        raise BadConfig(
            f"a DuckDB file cannot be named {path.name}: DuckDB calls it {path.stem}, as it does a schema in it",
            hint="rename the file",
        )
    return path
