"""The page in a real browser: thousands of tables, and names that try to be more than text."""

from __future__ import annotations

from pathlib import Path

import pytest

from consumer.model.names import TableName
from consumer.observe.http import serving
from consumer.observe.page import site
from tests.support.page_scene import CHROMIUM, chromium, scene

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium")
HOSTILE = TableName("<img src=x onerror=document.title='owned'>", "</td><script>document.title='owned'</script>")
PNG = b"\x89PNG\r\n\x1a\n"


def test_chromium_shows_it(tmp_path: Path) -> None:
    names = [HOSTILE, *(TableName(f"shop_{number % 40}", f"orders_{number}") for number in range(5000))]
    with serving(site([scene(names)], 600, ""), ("127.0.0.1", 0), "http") as url:
        shown = chromium(url, "--dump-dom")
        chromium(url, "--window-size=390,800", f"--screenshot={tmp_path / 'phone.png'}")
    assert "<title>prod: Degraded: 1 table stopped" in shown
    assert "<script>" not in shown
    assert "5,001 tables, page 1 of 51" in shown
    assert (tmp_path / "phone.png").read_bytes().startswith(PNG)
