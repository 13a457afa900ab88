"""Computes what TiDB converts dates and times to. Seconds are rounded half up if digits are dropped; a DATE takes the
day as it is written.

Only days of a calendar are converted. Each function raises NoValue.
"""

from __future__ import annotations

import re
from datetime import date, datetime, timedelta
from decimal import Decimal

from consumer.model.columns import Column, Family
from consumer.model.types.values import NoValue, shown

_DATE = re.compile(r"(\d{4}|\d\d)([-./])(\d{1,2})\2(\d{1,2})|(\d{4})(\d\d)(\d\d)", re.ASCII)
_CLOCK = re.compile(r"(\d{1,2}):(\d{1,2}):(\d{1,2})(?:\.(\d{1,6}))?", re.ASCII)
_TIME = re.compile(r"(-?)(\d{1,3}):(\d\d):(\d\d)(?:\.(\d{1,6}))?", re.ASCII)
_DAY_LENGTH = len("2006-01-02")
_MOST_SECONDS = 838 * 3600 + 59 * 60 + 59
_MICROSECONDS = 1_000_000


def as_number(old: Column, text: str) -> Decimal:
    """Returns the value's digits: a day is YYYYMMDD, a time hhmmss. Fractions are refused, because TiDB converts them
    in more than one way."""
    whole, _, fraction = text.partition(".")
    if fraction.strip("0"):
        raise NoValue(f"{shown(text)} has a fraction of a second, which upstream rounds in several ways")
    if old.family is not Family.TIME:
        _day(text)
    sign = "-" if whole.startswith("-") and old.family is Family.TIME else ""
    return Decimal(sign + re.sub(r"\D", "", whole))


def to_date(old: Column, new: Column, text: str) -> str:
    if old.family is Family.TEXT:
        return _parsed_day(text, text).isoformat()
    return _day(text).isoformat()


def to_datetime(old: Column, new: Column, text: str) -> str:
    """Returns a DATETIME, or a TIMESTAMP of another number of digits."""
    scale = new.scale or 0
    if old.family is Family.DATE:
        return f"{_day(text).isoformat()} 00:00:00{_fraction(0, scale)}"
    if old.family is Family.TEXT:
        first, _, clock = text.partition(" ")
        result = datetime.combine(_parsed_day(first, text), datetime.min.time()) + _clock(clock, text)
    elif (kept := _digits_kept(text, scale)) is not None:
        return kept
    else:
        result = datetime.combine(_day(text), datetime.min.time()) + _clock(text[_DAY_LENGTH + 1 :], text)
    return _rounded(result, scale, text)


def to_time(old: Column, new: Column, text: str) -> str:
    scale = new.scale or 0
    if old.family is Family.DATE:
        return f"00:00:00{_fraction(0, scale)}"
    if old.family is Family.DATETIME:
        _day(text)
        text = text[_DAY_LENGTH + 1 :]
    elif (kept := _digits_kept(text, scale)) is not None and old.family is Family.TIME:
        return kept
    match = _TIME.fullmatch(text)
    if match is None or int(match[3]) > 59 or int(match[4]) > 59:
        raise NoValue(f"{shown(text)} is no TIME")
    micros = int((match[5] or "").ljust(6, "0"))
    seconds = int(match[2]) * 3600 + int(match[3]) * 60 + int(match[4])
    step = 10 ** (6 - scale)
    if micros % step and (match[1] or old.family is Family.DATETIME):
        raise NoValue(f"{shown(text)} has more digits than {new.type}({scale}), and upstream rounds it in its own way")
    total = (seconds * _MICROSECONDS + micros + step // 2) // step * step
    seconds, micros = divmod(total, _MICROSECONDS)
    if seconds > _MOST_SECONDS or (seconds == _MOST_SECONDS and micros):
        raise NoValue(f"{shown(text)} is out of the range of {new.type}")
    return f"{match[1]}{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}{_fraction(micros, scale)}"


def _digits_kept(text: str, scale: int) -> str | None:
    """Returns `text` with `scale` digits of its seconds if only zeros are dropped, else None."""
    whole, _, fraction = text.partition(".")
    if fraction[scale:].strip("0"):
        return None
    return f"{whole}.{fraction[:scale].ljust(scale, '0')}" if scale else whole


def _rounded(moment: datetime, scale: int, text: str) -> str:
    step = 10 ** (6 - scale)
    try:
        rounded = moment + timedelta(microseconds=(moment.microsecond + step // 2) // step * step - moment.microsecond)
    except OverflowError as error:
        raise NoValue(f"{shown(text)} would be after the last day") from error
    return rounded.replace(microsecond=0).isoformat(" ") + _fraction(rounded.microsecond, scale)


def _fraction(micros: int, scale: int) -> str:
    return f".{micros:06}"[: scale + 1] if scale else ""


def _day(text: str) -> date:
    try:
        return date.fromisoformat(text[:_DAY_LENGTH])
    except ValueError as error:
        raise NoValue(f"{shown(text)} is no day of a calendar") from error


def _parsed_day(text: str, whole: str) -> date:
    match = _DATE.fullmatch(text)
    if match is None:
        raise NoValue(f"{shown(whole)} is no date")
    year, month, number = (int(part) for part in (match.group(1, 3, 4) if match[1] else match.group(5, 6, 7)))
    if match[1] and len(match[1]) == 2:
        year += 2000 if year < 70 else 1900
    try:
        return date(year, month, number)
    except ValueError as error:
        raise NoValue(f"{shown(whole)} is no day of a calendar") from error


def _clock(text: str, whole: str) -> timedelta:
    if not text:
        return timedelta()
    match = _CLOCK.fullmatch(text)
    hours, minutes, seconds = (int(match[n]) for n in (1, 2, 3)) if match else (24, 0, 0)
    if match is None or hours > 23 or minutes > 59 or seconds > 59:
        raise NoValue(f"{shown(whole)} is no time")
    return timedelta(hours=hours, minutes=minutes, seconds=seconds, microseconds=int((match[4] or "").ljust(6, "0")))
