"""TIMESTAMPs into UTC, against Python's own zones."""

from __future__ import annotations

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from consumer.codec.values import to_utc
from consumer.config.clocks import clock_of
from consumer.errors import CorruptFile

ZONES = ("Europe/Berlin", "America/New_York", "Asia/Shanghai", "Australia/Lord_Howe", "Africa/Casablanca", "UTC")
MOMENTS = st.integers(1, 2**31 - 1)


@given(st.sampled_from(ZONES), st.lists(MOMENTS, min_size=1), st.integers(0, 6))
def test_every_moment_that_a_clock_shows_once(name: str, seconds: list[int], digits: int) -> None:
    zone, fraction = ZoneInfo(name), f".{'123456'[:digits]}" if digits else ""
    moments = [datetime.fromtimestamp(second, UTC) for second in seconds]
    local = [moment.astimezone(zone).replace(tzinfo=None, fold=0) for moment in moments]
    firsts = [shown.replace(tzinfo=zone).astimezone(UTC).replace(tzinfo=None) for shown in local]
    found = to_utc(pa.array([f"{shown}{fraction}" for shown in local]), clock_of(name))
    assert found.to_pylist() == [f"{first}{fraction}" for first in firsts]


def test_offsets() -> None:
    times = pa.array(["2026-01-01 05:29:59.5", None])
    assert to_utc(times, clock_of("+05:30")).to_pylist() == ["2025-12-31 23:59:59.5", None]
    assert to_utc(times, clock_of("-03:30")).to_pylist() == ["2026-01-01 08:59:59.5", None]


@pytest.mark.parametrize("type_", [pa.string(), pa.large_string()])
def test_zero_values_and_nulls_stay(type_: pa.DataType) -> None:
    times = pa.array(["0000-00-00 00:00:00.000", None, "2026-07-01 12:00:00.000"], type_)
    kept = ["0000-00-00 00:00:00.000", None, "2026-07-01 10:00:00.000"]
    assert to_utc(times, clock_of("Europe/Berlin")).equals(pa.array(kept, type_))


@pytest.mark.parametrize(
    ("text", "words"),
    [("2026-03-29 02:00:00", "turned forward"), ("2026-03-29 02:59:59.999", "turned forward"), ("x", "not a time")],
)
def test_what_the_clock_never_showed(text: str, words: str) -> None:
    with pytest.raises(CorruptFile, match=words):
        to_utc(pa.array(["2026-03-29 03:00:00", text]), clock_of("Europe/Berlin"))
