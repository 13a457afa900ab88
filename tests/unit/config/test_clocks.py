"""Hours that a clock shows twice, against what is known of time zones."""

from __future__ import annotations

import pytest

from consumer.config.clocks import doubled_hours


@pytest.mark.parametrize(
    ("zone", "stretch"),
    [
        ("Europe/Berlin", ("2026-10-25 02:00:00", "2026-10-25 03:00:00")),
        ("America/New_York", ("2026-11-01 01:00:00", "2026-11-01 02:00:00")),
        ("Australia/Lord_Howe", ("2026-04-05 01:30:00", "2026-04-05 02:00:00")),  # by half an hour
        ("Asia/Shanghai", ("1991-09-15 01:00:00", "1991-09-15 02:00:00")),  # the last time there
        ("Africa/Casablanca", ("2026-02-15 02:00:00", "2026-02-15 03:00:00")),  # around Ramadan
    ],
)
def test_the_hour_when_clocks_go_back(zone: str, stretch: tuple[str, str]) -> None:
    assert stretch in doubled_hours(zone)


@pytest.mark.parametrize("zone", ["UTC", "+05:30", "-08:00", "Asia/Kolkata"])
def test_clocks_that_never_go_back(zone: str) -> None:
    assert doubled_hours(zone) == ()
