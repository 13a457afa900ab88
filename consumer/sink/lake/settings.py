"""Where a lake is, and in which format."""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from datetime import tzinfo
from pathlib import Path
from urllib.parse import parse_qsl, unquote, urlsplit

from consumer.errors import BadConfig
from consumer.sink.common import check_consumer_name, zone_given


@dataclass(frozen=True, slots=True)
class LakeSettings:
    """`root` is the folder of the lake, absolute, `name` the consumer name, under which the progress is kept.
    `time_zone` is the changefeed's. `staging` is a folder for rows on their way, which driver and executors share."""

    format: str
    root: str
    staging: str
    name: str
    time_zone: str = "UTC"

    def __post_init__(self) -> None:
        check_consumer_name(self.name)
        zone_given(self.time_zone)

    @property
    def zone(self) -> tzinfo:
        """The changefeed's time zone."""
        return zone_given(self.time_zone)

    @classmethod
    def from_uri(cls, uri: str, *, name: str = "default", time_zone: str = "UTC") -> LakeSettings:
        """Read ``delta:///folder``, an absolute path, and ``?staging=/folder``. Raises BadConfig."""
        parts = urlsplit(uri)
        options = dict(parse_qsl(parts.query, keep_blank_values=True))
        path = unquote(parts.path).rstrip("/")
        if parts.netloc or not path or parts.fragment or options.keys() - {"staging"}:
            raise BadConfig(
                f"{uri!r} is not of the form {parts.scheme}:///folder, with ?staging=/folder or without",
                hint="percent-encode '#', '?' and '%' in the path, which is absolute",
            )
        root = os.path.abspath(path)
        staging = options.get("staging", "")
        if staging and not Path(staging).is_dir():
            raise BadConfig(f"the folder {staging} for staged rows does not exist", hint="make it first")
        if not Path(root).parent.is_dir():
            raise BadConfig(
                f"the folder {Path(root).parent} of the lake does not exist", hint=f"make it first: mkdir -p {root}"
            )
        own = f"{Path(root).name}.{hashlib.sha256(root.encode()).hexdigest()[:8]}.staging"  # others have theirs there
        return cls(
            parts.scheme, root, f"{staging.rstrip('/')}/{own}" if staging else f"{root}.staging", name, time_zone
        )
