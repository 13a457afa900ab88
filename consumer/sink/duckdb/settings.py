"""Where the DuckDB file is, and what a writer must know about one of its tables."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import timedelta, timezone, tzinfo
from pathlib import Path
from urllib.parse import unquote, urlsplit
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from consumer.errors import BadConfig

_NAME_LIMIT = 64
_OFFSET = re.compile(r"([+-])(\d{2}):(\d{2})")


@dataclass(frozen=True, slots=True)
class DuckDbSettings:
    """A DuckDB file as target. `path` is absolute. `name` is the consumer name, under which the progress is kept.

    `time_zone` is the changefeed's: ``SYSTEM``, an offset ``+08:00``, or a zone name. TIMESTAMP values are kept in it.
    """

    path: str
    name: str
    time_zone: str = "SYSTEM"

    def __post_init__(self) -> None:
        if not 0 < len(self.name) <= _NAME_LIMIT:
            raise BadConfig(f"the consumer name {self.name!r} must have 1 to {_NAME_LIMIT} characters")
        _zone(self.time_zone)

    @property
    def zone(self) -> tzinfo | None:
        """The changefeed's time zone, None for this machine's."""
        return _zone(self.time_zone)

    @property
    def staging(self) -> str:
        """The folder beside the file for what is written but not yet published; executors must reach it too."""
        return f"{self.path}.staging"

    @classmethod
    def from_uri(cls, uri: str, *, name: str, time_zone: str = "SYSTEM") -> DuckDbSettings:
        """Read ``duckdb:///relative/file.duckdb`` or ``duckdb:////absolute/file.duckdb``: SQLAlchemy's rule. Raises
        BadConfig, also where the file's folder does not exist."""
        parts = urlsplit(uri)
        if parts.scheme != "duckdb" or parts.netloc or parts.query or parts.fragment:
            raise BadConfig(
                f"{uri!r} is not of the form duckdb:///file.duckdb (in the current folder) or duckdb:////folder/file.duckdb",
                hint="percent-encode '#' and '%' in the path",
            )
        given = unquote(parts.path)[1:]
        if not given or given.endswith("/") or given == ":memory:" or "?" in given:
            raise BadConfig("the DuckDB target must be a file, with no '?' in its path: the progress is kept in it")
        path = Path(given).absolute()
        if not path.parent.is_dir():
            raise BadConfig(
                f"the folder {path.parent} of the DuckDB file does not exist",
                hint="" if given.startswith("/") else f"an absolute path takes four slashes: duckdb:////{given}",
            )
        return cls(str(path), name, time_zone)


def _zone(name: str) -> tzinfo | None:
    if name.upper() in ("SYSTEM", ""):
        return None
    if offset := _OFFSET.fullmatch(name):
        sign, hours, minutes = offset.groups()
        return timezone(timedelta(hours=int(hours), minutes=int(minutes)) * (-1 if sign == "-" else 1))
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise BadConfig(
            f"the time zone {name!r} is not known", hint="use SYSTEM, UTC, +08:00 or Asia/Shanghai"
        ) from error


@dataclass(frozen=True, slots=True)
class DuckDbTarget:
    """A target table, as LoadTarget.settings: the DuckDB type of each of LoadTarget.columns, as the table has it."""

    types: tuple[str, ...]
