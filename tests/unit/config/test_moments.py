"""Moments as people write them."""

from __future__ import annotations

import pytest

from consumer.config.values import moment, tso_of

NOON = 1_136_239_445_000 << 18
"""2006-01-02 22:04:05 UTC."""


@pytest.mark.parametrize(
    ("text", "zone"),
    [
        ("2006-01-02T22:04:05Z", "System"),
        ("2006-01-02T22:04:05.000+00:00", "System"),
        ("2006-01-03 06:04:05 +0800", "System"),
        ("2006-01-02 22:04:05", "UTC"),
        ("2006-01-02 15:04:05", "-07:00"),
        ("2006-01-02 23:04:05", "Europe/Berlin"),
        (str(NOON), "System"),
    ],
)
def test_times_and_tsos(text: str, zone: str) -> None:
    assert tso_of(str(moment(text)), zone) == NOON


def test_a_time_keeps_its_milliseconds() -> None:
    assert tso_of("2006-01-02T22:04:05.678Z", "System") == NOON + (678 << 18)


@pytest.mark.parametrize("text", ["", "now", "12:00", "2006-13-01T00:00:00Z", "0", str(1 << 63), "-5"])
def test_what_is_no_moment_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="give a TSO, or a time"):
        moment(text)


@pytest.mark.parametrize(
    ("text", "zone", "words"),
    [
        ("2006-01-02 15:04:05", "System", "write it as 2006-01-02T15:04:05Z, or"),
        ("2006-01-02", "System", "write it as 2006-01-02T00:00:00Z, or"),
        ("2026-10-25 02:30:00", "Europe/Berlin", "the clocks of Europe/Berlin were turned"),
        ("2026-03-29 02:30:00", "Europe/Berlin", "the clocks of Europe/Berlin were turned"),
        ("1960-01-01T00:00:00Z", "UTC", "no time that a TSO can have"),
    ],
)
def test_a_time_that_can_mean_two_moments_or_none_is_refused(text: str, zone: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        tso_of(text, zone)
