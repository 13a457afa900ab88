"""Histories that once failed, kept as they were: a seed means another history as soon as the drawing changes."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from consumer.codec.csv.options import CsvFormat
from tests.simulate.events import Event, History, Setup
from tests.simulate.style import Style

FOLDER = Path(__file__).parent / "cases"


def kept() -> dict[str, History]:
    """By name; the name says what went wrong."""
    return {path.stem: from_json(path.read_text()) for path in sorted(FOLDER.glob("*.json"))}


def to_json(found: History) -> str:
    return json.dumps(asdict(found)) + "\n"


def from_json(text: str) -> History:
    body = json.loads(text)
    setup = body["setup"]
    csv = setup["style"].pop("csv")
    style = Style(**setup.pop("style"), csv=None if csv is None else CsvFormat(**csv))
    return History(body["seed"], Setup(style, **setup), tuple(map(_event, body["events"])))


def _event(body: dict[str, Any]) -> Event:
    return Event(body["kind"], body["seed"], tuple((moment, _event(other)) for moment, other in body["during"]))
