"""Names and values of upstream stand in logs and on terminals as texts: they command no terminal and forge no line."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from consumer.model.texts import printable
from consumer.observe.logs import Log, LogSettings
from tests.support.shop import Shop

HOSTILE = "t\x1b]0;owned\x07\r\u202e\nerror"
FORGED = re.compile(r"^error", re.MULTILINE)


@pytest.fixture
def hostile(shop: Shop) -> Shop:
    """With a table of that name, which is stopped."""
    shop.feed.create(f"d.{HOSTILE}", 20)
    shop.feed.file(f"d.{HOSTILE}", 20, b'{"id":0,"database":"d","tab\r\n')
    return shop


def plain(text: str) -> str:
    assert all(char.isprintable() or char == "\n" for char in text), text
    return text


def test_every_command_shows_the_name_as_text(hostile: Shop, tmp_path: Path) -> None:
    log = tmp_path / "log"
    stopped = hostile.once(30, "--log-file", str(log), "--log-level", "info")
    assert stopped.code == 3
    texts = [stopped.out, stopped.err, log.read_text()]
    for command in ("once", "status", "plan", "inspect", "verify"):
        left = hostile.run(command, *(["--log-level", "info"] if command != "inspect" else []))
        texts += [left.out, left.err]
    for text in texts:
        assert not FORGED.search(plain(text))
    assert r"t\x1b]0;owned\x07\r\u202e\nerror" in stopped.err


def test_the_command_that_brings_it_back_still_works(hostile: Shop) -> None:
    stopped = hostile.once(30)
    hostile.feed.puts(f"d.{HOSTILE}", 20, {25: (1, "1")}, number=1)
    assert [left.code for left in hostile.paste(plain(stopped.err))] == [0]
    hostile.by_hand(f'DELETE FROM d."{HOSTILE}" WHERE id = 1 AND v = 1')


@pytest.mark.parametrize("form", ["text", "json"])
def test_a_line_of_the_log_is_one_line(form: str, tmp_path: Path) -> None:
    log = Log(LogSettings(format=form, file=str(tmp_path / "log")))
    log.warning(f"about {HOSTILE}", table=HOSTILE, file="a b")
    log.close()
    (line,) = plain((tmp_path / "log").read_text()).splitlines()
    assert "owned" in line


def test_what_is_harmless_stays_as_it_is() -> None:
    assert printable("schön 漢字 😀 'a' \\n") == "schön 漢字 😀 'a' \\n"
