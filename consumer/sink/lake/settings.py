"""Where a lake is, and in which format."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import tzinfo
from pathlib import Path
from urllib.parse import parse_qsl, unquote, urlsplit

from consumer.errors import BadConfig
from consumer.sink.common import check_consumer_name, zone_given


@dataclass(frozen=True, slots=True)
class LakeSettings:
    """`root` is the folder of the lake, absolute, `name` the consumer name, under which the progress is kept.
    `time_zone` is the changefeed's. `staging` is a folder for rows on their way, which driver and executors share.
    `catalog` are the properties of Iceberg's catalog."""

    format: str
    root: str
    staging: str
    name: str
    time_zone: str = "UTC"
    catalog_name: str = ""
    catalog: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_consumer_name(self.name)
        zone_given(self.time_zone)

    @property
    def zone(self) -> tzinfo:
        """The changefeed's time zone."""
        return zone_given(self.time_zone)

    @classmethod
    def from_uri(cls, uri: str, *, name: str = "default", time_zone: str = "UTC") -> LakeSettings:
        """Read ``delta:///folder``, an absolute path, ``iceberg:///folder`` or ``iceberg://catalog?warehouse=..``, and
        ``?staging=/folder``. Raises BadConfig."""
        parts = urlsplit(uri)
        options = dict(parse_qsl(parts.query, keep_blank_values=True))
        staging = options.pop("staging", "")
        if staging and not Path(staging).is_dir():
            raise BadConfig(f"the folder {staging} for staged rows does not exist", hint="make it first")
        path = unquote(parts.path).rstrip("/")
        catalog: dict[str, str] = {}
        if parts.scheme == "iceberg" and parts.netloc:
            path, catalog = _warehouse(uri, options), options
        elif parts.netloc or not path or parts.fragment or options:
            raise BadConfig(
                f"{uri!r} is not of the form {parts.scheme}:///folder, with ?staging=/folder or without",
                hint="percent-encode '#', '?' and '%' in the path, which is absolute",
            )
        root = os.path.abspath(path)
        if not Path(root).parent.is_dir():
            raise BadConfig(
                f"the folder {Path(root).parent} of the lake does not exist", hint=f"make it first: mkdir -p {root}"
            )
        own = f"{Path(root).name}.{hashlib.sha256(root.encode()).hexdigest()[:8]}.staging"  # others have theirs there
        return cls(
            parts.scheme,
            root,
            f"{staging.rstrip('/')}/{own}" if staging else f"{root}.staging",
            name,
            time_zone,
            parts.netloc or "lake",
            catalog or {"type": "hadoop", "warehouse": root},
        )


def _warehouse(uri: str, options: Mapping[str, str]) -> str:
    """The folder of the tables of a catalog with these properties. Raises BadConfig."""
    parts, warehouse = urlsplit(uri), options.get("warehouse", "").rstrip("/")
    if options.get("type") not in _CATALOGS or not warehouse.startswith("/") or parts.path or parts.fragment:
        raise BadConfig(
            f"{uri!r} is not of the form iceberg://catalog?type={'|'.join(_CATALOGS)}&warehouse=/folder",
            hint="the other parameters are those of Iceberg's catalog; percent-encode their values",
        )
    return warehouse


_CATALOGS = ("hadoop", "jdbc")
