"""The written forms of single settings."""

from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from consumer.config import values
from consumer.model.times import zone_of


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("10s", 10), ("500ms", 0.5), ("1m30s", 90), ("1h0m0.5s", 3600.5), ("1.5h", 5400), (".5s", 0.5), ("2us", 2e-6)],
)
def test_durations_are_gos(text: str, seconds: float) -> None:
    assert values.duration(text) == pytest.approx(seconds)


@pytest.mark.parametrize("text", ["", "10", "s", "10 s", "-1s", "1d", "10s5", "1s.", "ten seconds"])
def test_what_go_refuses_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="duration"):
        values.duration(text)


@given(st.integers(1, 99), st.integers(0, 59), st.integers(0, 59))
def test_durations_add_up(hours: int, minutes: int, seconds: int) -> None:
    assert values.duration(f"{hours}h{minutes}m{seconds}s") == hours * 3600 + minutes * 60 + seconds


@pytest.mark.parametrize(
    ("text", "size"),
    [(1024, 1024), ("7", 7), ("256MiB", 268435456), ("4GiB", 4294967296), ("1 kb", 1000), ("5B", 5), ("2TB", 2e12),
     ("512m", 536870912), ("1g", 1073741824), ("8K", 8192)],
)  # fmt: skip
def test_sizes(text: object, size: int) -> None:
    assert values.size(text) == size


@pytest.mark.parametrize("text", ["", "0", "-1", "1.5GiB", "1XB", "MiB", "1iB"])
def test_wrong_sizes(text: str) -> None:
    with pytest.raises(ValueError, match="size"):
        values.size(text)


def test_offsets_are_written_as_servers_want_them() -> None:
    assert values.zone_name("+8:00") == "+08:00"
    assert values.zone_name("-0330") == "-03:30"
    assert values.zone_name("Europe/Berlin") == "Europe/Berlin"
    assert values.zone_name("system") == "System"


def test_zones_are_what_they_say() -> None:
    assert zone_of("-03:30").utcoffset(None) == timedelta(hours=-3, minutes=-30)


@pytest.mark.parametrize("text", ["", "Mars", "+25:00", "../etc/passwd", "8"])
def test_zones_that_do_not_exist(text: str) -> None:
    with pytest.raises(ValueError, match="time zone"):
        values.zone_name(text)


def test_go_spellings_of_levels() -> None:
    assert [values.log_level(text) for text in ("warn", "fatal", "INFO")] == ["warning", "error", "info"]


@pytest.mark.parametrize(("value", "result"), [(None, None), ("max", "max"), ("5", 5), (5, 5)])
def test_checkpoints(value: object, result: object) -> None:
    assert values.checkpoint(value) == result


@pytest.mark.parametrize("value", ["0", "-1", str(1 << 63), "MAX", "1e3"])
def test_wrong_checkpoints(value: str) -> None:
    with pytest.raises(ValueError, match="TSO"):
        values.checkpoint(value)


def test_spark_properties_from_a_table_keep_sparks_spelling() -> None:
    assert values.pairs({"spark.ui.enabled": True, "spark.x": 2}) == (("spark.ui.enabled", "true"), ("spark.x", "2"))


def test_an_empty_terminator_is_ticdcs_default() -> None:
    assert values.terminator("") == b"\r\n"
    assert values.terminator("\n") == b"\n"
