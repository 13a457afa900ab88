"""The location and format of a lake."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import tzinfo
from pathlib import Path
from urllib.parse import parse_qsl, unquote, urlsplit

from consumer.errors import BadConfig
from consumer.sink.common import changefeed_zone, check_consumer_name


@dataclass(frozen=True, slots=True)
class LakeSettings:
    """`root` is the folder of the lake, absolute, or its catalog's warehouse. `name` is the consumer name, under which
    the progress is kept. `time_zone` is the changefeed's. `staging` is a folder for staged rows, which driver and
    executors share. `catalog` are the properties of Iceberg's catalog, which can contain secrets."""

    format: str
    root: str
    staging: str
    name: str
    time_zone: str = "UTC"
    catalog_name: str = ""
    catalog: Mapping[str, str] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        check_consumer_name(self.name)
        changefeed_zone(self.time_zone)

    @property
    def zone(self) -> tzinfo:
        """Returns the changefeed's time zone."""
        return changefeed_zone(self.time_zone)

    @property
    def is_folder(self) -> bool:
        """Returns whether the tables are in a folder of this machine. Others are on S3."""
        return self.root.startswith("/")

    @classmethod
    def from_uri(cls, uri: str, *, name: str = "default", time_zone: str = "UTC") -> LakeSettings:
        """Parses ``delta:///folder``, an absolute path, ``iceberg:///folder`` or ``iceberg://catalog?warehouse=..``,
        with ``?staging=/folder``. Raises BadConfig."""
        parts = urlsplit(uri)
        options = dict(parse_qsl(parts.query, keep_blank_values=True))
        staging = options.pop("staging", "")
        if staging and not Path(staging).is_dir():
            raise BadConfig(f"the folder {staging} for staged rows does not exist", hint="make it first")
        path = unquote(parts.path).rstrip("/")
        catalog: dict[str, str] = {}
        if parts.scheme == "iceberg" and parts.netloc:
            path, catalog = _warehouse(uri, options), options
            if path.startswith(_S3):
                catalog = {"io-impl": "org.apache.iceberg.aws.s3.S3FileIO", **options}
        elif parts.netloc or not path or parts.fragment or options:
            raise BadConfig(
                f"{uri!r} is not of the form {parts.scheme}:///folder, with ?staging=/folder or without",
                hint="percent-encode '#', '?' and '%' in the path, which is absolute; a lake on S3 has Iceberg tables,"
                " whose catalog is elsewhere: docs/lakes.md",
            )
        root = os.path.abspath(path) if path.startswith("/") else path
        if not root.startswith("/"):
            if not staging:
                raise BadConfig(
                    "rows on their way into a lake on S3 need a folder that this machine and Spark's workers share",
                    hint="make one, and name it in the URI: &staging=/folder",
                )
        elif not Path(root).parent.is_dir():
            raise BadConfig(
                f"the folder {Path(root).parent} of the lake does not exist", hint=f"make it first: mkdir -p {root}"
            )
        identity = f"{catalog.get('uri', '')}{root}"  # other lakes share the folder
        folder_name = f"{Path(root).name}.{hashlib.sha256(identity.encode()).hexdigest()[:8]}.staging"
        return cls(
            parts.scheme,
            root,
            f"{staging.rstrip('/')}/{folder_name}" if staging else f"{root}.staging",
            name,
            time_zone,
            parts.netloc or "lake",
            catalog or {"type": "hadoop", "warehouse": root},
        )


def _warehouse(uri: str, options: Mapping[str, str]) -> str:
    """Returns the warehouse of a catalog with these properties. Raises BadConfig."""
    parts, kind, warehouse = urlsplit(uri), options.get("type", ""), options.get("warehouse", "").rstrip("/")
    if kind == "hadoop" and "://" in warehouse:
        raise BadConfig(
            "a catalog of the type hadoop cannot be on an object store, which would let two writers replace one file",
            hint="keep the catalog in a database (type=jdbc&uri=jdbc:..), a server (type=rest&uri=http://..) or Glue"
            " (type=glue)",
        )
    fits = {
        "hadoop": warehouse.startswith("/"),
        "jdbc": "uri" in options and warehouse.startswith(("/", _S3)),
        "rest": "uri" in options,
        "glue": warehouse.startswith(_S3),
    }
    if not fits.get(kind) or parts.path or parts.fragment:
        raise BadConfig(
            f"{uri!r} is of none of the forms iceberg://catalog?type=hadoop&warehouse=/folder,"
            " iceberg://catalog?type=jdbc&uri=jdbc:..&warehouse=/folder or s3://bucket/prefix,"
            " iceberg://catalog?type=rest&uri=http://.. and iceberg://catalog?type=glue&warehouse=s3://bucket/prefix",
            hint="the other parameters are those of Iceberg's catalog; percent-encode their values",
        )
    return warehouse or options["uri"]


_S3 = "s3://"
