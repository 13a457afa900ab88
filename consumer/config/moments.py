"""Moments of the upstream's history, as people give them: a TSO, or a time."""

from __future__ import annotations

import re
from datetime import datetime

from consumer.model.times import MAX_TSO, ms_to_tso, zone_of

_FORM = "give a TSO, or a time as 2006-01-02T15:04:05Z, 2006-01-02T15:04:05+08:00 or '2006-01-02 15:04:05' with --tz"


def moment(value: object) -> str | None:
    """A moment in a written form that `tso_of` takes."""
    if value is None:
        return None
    text = str(value).strip()
    if not text.isdecimal():
        _time(text)
    elif not 0 < int(text) <= MAX_TSO:
        raise ValueError(f"'{text}' is not a TSO; {_FORM}")
    return text


def tso_of(text: str, zone_name: str) -> int:
    """The TSO of a moment. A time is the first TSO of its millisecond, as in TiDB; one that does not say its own zone
    is in `zone_name`. Raises ValueError where that is System, or the clocks were turned at that time."""
    if text.isdecimal():
        return int(text)
    time = _time(text)
    if time.tzinfo is None:
        time = _placed(text, time, zone_name)
    milliseconds = round(time.timestamp() * 1000)
    if not 0 < ms_to_tso(milliseconds) <= MAX_TSO:
        raise ValueError(f"'{text}' is no time that a TSO can have")
    return ms_to_tso(milliseconds)


def _time(text: str) -> datetime:
    # TiDB writes the zone behind a blank, as in "2006-01-02 15:04:05 +0800".
    joined = re.sub(r"\s+(?=[+-]\d\d:?\d\d$|Z$)", "", text)
    try:
        return datetime.fromisoformat(joined)
    except ValueError:
        raise ValueError(f"'{text}' is no moment; {_FORM}") from None


def _placed(text: str, time: datetime, zone_name: str) -> datetime:
    if zone_name == "System":
        raise ValueError(
            f"'{text}' does not say its time zone; write it as {time.isoformat()}Z, or give the zone with --tz"
        )
    place = zone_of(zone_name)
    early, late = time.replace(tzinfo=place, fold=0), time.replace(tzinfo=place, fold=1)
    if early.utcoffset() != late.utcoffset():
        raise ValueError(f"'{text}' is a time at which the clocks of {zone_name} were turned; write it with its offset")
    return early
