"""Where a lake is, and in which format."""

from __future__ import annotations

import hashlib
import os
import tempfile
from dataclasses import dataclass
from datetime import tzinfo
from pathlib import Path
from urllib.parse import parse_qsl, unquote, urlsplit

from consumer.errors import BadConfig
from consumer.model.names import NAME_LIMIT
from consumer.model.times import zone_of

_OPTIONS = {"": {"staging"}, "s3": {"staging", "endpoint", "region"}}
"""By how the folder is reached, the parameters of a URI."""


@dataclass(frozen=True, slots=True)
class LakeSettings:
    """`root` is the folder of the lake as Spark calls it, `name` the consumer name, under which the progress is kept.
    `time_zone` is the changefeed's. `staging` is a folder for rows on their way, which driver and executors share."""

    format: str
    root: str
    staging: str
    name: str
    time_zone: str = "UTC"
    endpoint: str = ""
    region: str = ""

    def __post_init__(self) -> None:
        if not 0 < len(self.name) <= NAME_LIMIT:
            raise BadConfig(f"the consumer name {self.name!r} must have 1 to {NAME_LIMIT} characters")
        try:
            zone_of(self.time_zone)
        except ValueError as error:
            raise BadConfig(f"the time zone is refused: {error}") from error

    @property
    def zone(self) -> tzinfo:
        """The changefeed's time zone."""
        return zone_of(self.time_zone)

    @property
    def is_local(self) -> bool:
        return self.root.startswith("/")

    @classmethod
    def from_uri(cls, uri: str, *, name: str = "default", time_zone: str = "UTC") -> LakeSettings:
        """Read ``delta:///folder`` or ``delta+s3://bucket/prefix``. Raises BadConfig."""
        parts = urlsplit(uri)
        kind, _, store = parts.scheme.partition("+")
        options = dict(parse_qsl(parts.query, keep_blank_values=True))
        path = unquote(parts.path).rstrip("/")
        local = not store and not parts.netloc and len(path) > 1
        bucket = store == "s3" and parts.netloc and "@" not in parts.netloc
        if not (local or bucket) or parts.fragment or options.keys() - _OPTIONS[store]:
            raise BadConfig(
                f"{uri!r} is not of the form {kind}:///folder or {kind}+s3://bucket/prefix, with ?staging=/folder"
                " (and endpoint=, region= of S3) or without",
                hint="percent-encode '#', '?' and '%' in the path",
            )
        root = os.path.abspath(path) if local else f"s3a://{parts.netloc}{path}"
        staging = options.get("staging", "")
        if staging and not Path(staging).is_dir():
            raise BadConfig(f"the folder {staging} for staged rows does not exist", hint="make it first")
        if not staging:
            digest = hashlib.sha256(root.encode()).hexdigest()[:16]
            staging = f"{root}.staging" if local else os.path.join(tempfile.gettempdir(), f"storage-consumer-{digest}")
        if local and not Path(root).parent.is_dir():
            raise BadConfig(
                f"the folder {Path(root).parent} of the lake does not exist", hint=f"make it first: mkdir -p {root}"
            )
        return cls(kind, root, staging, name, time_zone, options.get("endpoint", ""), options.get("region", ""))
