"""What the program is told: its settings, and the options of the data source."""

from __future__ import annotations

import json
import tempfile
from dataclasses import asdict
from functools import cache, lru_cache
from pathlib import Path

from consumer.config.load import load
from consumer.config.settings import Settings
from tests.simulate.bucket import BASE
from tests.simulate.events import Setup
from tests.simulate.shaping import Rules

_FOLDER = tempfile.TemporaryDirectory(prefix="simulated-")


@lru_cache(maxsize=64)
def settings(setup: Setup, start_ts: int) -> Settings:
    """`start_ts`: the target was given what there was then; 0: it begins empty."""
    flags: dict[str, object] = {
        "upstream_uri": uri(setup),
        "downstream_uri": "memory://simulated",
        "round_bytes": str(setup.round_bytes),
        "tz": "UTC",
    }
    if setup.consistency != "row":
        flags |= {"consistency": setup.consistency, "publish_bytes": str(setup.publish_bytes)}
    if start_ts:
        flags["start_ts"] = str(start_ts)
    if setup.never_split:
        flags["never_split"] = ("d.*",)
    return load(flags, {}, _file(setup)).settings


def uri(setup: Setup) -> str:
    return f"gcs://{BASE}?protocol={'csv' if setup.style.csv else 'canal-json'}"


def options(setup: Setup) -> dict[str, str]:
    """Of the data source, which has the same file."""
    found = {} if (file := _file(setup)) is None else {"config": file}
    return found | ({"never_split": "d.*"} if setup.never_split else {})


@cache
def _file(setup: Setup) -> str | None:
    """The changefeed's file."""
    lines = []
    if setup.expiration_days is not None:
        lines += ["[sink.cloud-storage-config]", f"file-expiration-days = {setup.expiration_days}"]
    if setup.style.csv is not None:
        values = asdict(setup.style.csv).items()
        lines += ["[sink.csv]", *(f"{name.replace('_', '-')} = {json.dumps(value)}" for name, value in values)]
    lines += [Rules(setup.rules).toml]
    if not any(lines):
        return None
    path = Path(_FOLDER.name) / f"{abs(hash(setup)):x}.toml"
    path.write_text("\n".join(lines) + "\n")
    return str(path)
