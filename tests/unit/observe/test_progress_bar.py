"""The bar counts the tables of a round."""

from __future__ import annotations

import re

import pytest

from consumer.observe.progress_bar import ProgressBar


def test_a_table_counts_once_and_its_rows_every_time(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "200")
    bar = ProgressBar()
    bar.start(tables=2, size=3_000_000)
    for table, rows in (("a.b", 1000), ("a.b", 500), ("a.c", 1)):
        bar.advance(table, rows)
    bar.stop()
    shown = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", capsys.readouterr().err)
    assert "2/2 tables, 1,501 rows" in shown


def test_nothing_is_shown_outside_a_round(capsys: pytest.CaptureFixture[str]) -> None:
    bar = ProgressBar()
    bar.advance("a.b", 1)
    bar.stop()
    assert capsys.readouterr().err == ""
