"""The changefeed's clock, against what is known of time zones; the machine's own zone by its name."""

from __future__ import annotations

from pathlib import Path

import pytest

from consumer.config import clocks
from consumer.config.clocks import clock_of, resolved_zone
from consumer.errors import BadConfig


@pytest.mark.parametrize(
    ("zone", "stretch"),
    [
        ("Europe/Berlin", ("2026-10-25 00:00:00", "2026-10-25 01:00:00")),
        ("America/New_York", ("2026-11-01 05:00:00", "2026-11-01 06:00:00")),
        ("Australia/Lord_Howe", ("2026-04-04 14:30:00", "2026-04-04 15:00:00")),  # by half an hour
        ("Asia/Shanghai", ("1991-09-14 16:00:00", "1991-09-14 17:00:00")),  # the last time there
        ("Africa/Casablanca", ("2026-02-15 01:00:00", "2026-02-15 02:00:00")),  # around Ramadan
    ],
)
def test_the_hour_when_clocks_go_back(zone: str, stretch: tuple[str, str]) -> None:
    """Its first pass, in UTC: it is the one that a time is taken for."""
    assert stretch in clock_of(zone).doubled


@pytest.mark.parametrize("zone", ["UTC", "+05:30", "-08:00", "Asia/Kolkata"])
def test_clocks_that_never_go_back(zone: str) -> None:
    assert clock_of(zone).doubled == ()


@pytest.mark.parametrize("name", ["UTC", "Etc/UTC", "utc", "+00:00", "Z", "GMT"])
def test_utc_has_one_name(name: str) -> None:
    assert resolved_zone(name) == "UTC"
    assert clock_of("UTC").is_utc


@pytest.mark.parametrize(
    ("told", "name"),
    [
        ("Asia/Shanghai", "Asia/Shanghai"),
        (":Europe/Berlin", "Europe/Berlin"),
        ("/usr/share/zoneinfo/Asia/Tokyo", "Asia/Tokyo"),
        ("", "UTC"),
    ],
)
def test_the_machines_zone_by_its_variable(told: str, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", told)
    assert resolved_zone("System") == name


def test_the_machines_zone_by_its_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TZ", raising=False)
    link = tmp_path / "localtime"
    monkeypatch.setattr(clocks, "_LOCALTIME", link)
    assert resolved_zone("System") == "UTC"  # as the C library has it where nothing is said
    zone = tmp_path / "zoneinfo" / "Europe" / "Berlin"
    zone.parent.mkdir(parents=True)
    zone.touch()
    link.symlink_to(zone)
    assert resolved_zone("System") == "Europe/Berlin"


@pytest.mark.parametrize("told", ["CST-8", "<+08>-8", None])
def test_a_machines_zone_without_a_name_is_refused(
    told: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copied = tmp_path / "localtime"
    copied.touch()
    monkeypatch.setattr(clocks, "_LOCALTIME", copied)
    if told is None:
        monkeypatch.delenv("TZ", raising=False)
    else:
        monkeypatch.setenv("TZ", told)
    with pytest.raises(BadConfig, match="has no name") as caught:
        resolved_zone("System")
    assert "--tz" in caught.value.hint
