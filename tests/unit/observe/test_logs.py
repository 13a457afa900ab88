"""What libraries log themselves."""

from __future__ import annotations

import logging

import pytest

from consumer.observe.logs import Log, LogSettings


@pytest.mark.parametrize("library", ["gcsfs", "fsspec", "botocore", "aiohttp", "asyncio"])
def test_a_library_adds_no_trace_of_what_is_told_anyway(
    library: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logging.getLogger(), "handlers", [])  # as in the program: Python's last resort is stderr
    Log(LogSettings())
    try:
        raise OSError("no way")
    except OSError:
        logging.getLogger(library).exception("out of retries")
    assert capsys.readouterr().err == ""
