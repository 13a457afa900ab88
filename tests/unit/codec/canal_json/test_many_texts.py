"""Lines of wide rows, of which all texts are found at once."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from consumer.codec.canal_json.alike import AlikeLines
from consumer.codec.canal_json.rows import RowParser
from consumer.codec.canal_json.template import MANY
from consumer.codec.canal_json.walk import Walk
from consumer.model.columns import Column
from tests.property.test_alike_lines import facts, outcome
from tests.support.canal_json import row_line, target_of

WIDE = MANY + 6
TARGET = target_of([Column("id", "INT", nullable=False), *(Column(f"c{n:02}", "VARCHAR") for n in range(WIDE))])
COUNT = 300
VALUES = ["", "ä", "null", ":", "},{", "a value that is longer", None]


def line(number: int, kind: str = "INSERT") -> bytes:
    chance = random.Random(number)
    row: dict[str, str | None] = {"id": str(number), **{f"c{n:02}": chance.choice(VALUES) for n in range(WIDE)}}
    old = [row | {"c01": None, "c02": "before"}] if kind == "UPDATE" else None
    return row_line(kind, row, commit_ts=(1 << 58) + number, es=1 << 40, ts=1 << 40, old=old) + b"\r\n"


def plain(number: int) -> bytes:
    """All of its values are texts, so that a part of it can be replaced."""
    row = {"id": str(number), **{f"c{n:02}": "x" for n in range(WIDE)}}
    return row_line("INSERT", row, commit_ts=(1 << 58) + number, es=1 << 40, ts=1 << 40) + b"\r\n"


def test_they_are_found_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    kinds = ["INSERT", "UPDATE", "DELETE"]
    text = b"".join(line(n, kinds[n % 3]) for n in range(COUNT))
    parser = RowParser(TARGET)
    reader = AlikeLines(TARGET, parser)
    monkeypatch.delattr(Walk, "_pass_text")
    assert facts(reader.parse(text)) == facts(parser.parse(text))
    assert reader.taken == COUNT


def cut(behind: bytes) -> Callable[[bytes], bytes]:
    return lambda text: text[: text.index(behind) + len(behind)] + b"\r\n"


OTHERS: dict[str, Callable[[bytes], bytes]] = {
    "another name": lambda text: text.replace(b'"c07":"x"', b'"C07":"x"'),
    "two names swapped": lambda text: text.replace(b'"c07":"x","c08":"x"', b'"c08":"y","c07":"x"'),
    "a name twice": lambda text: text.replace(b'"c07":"x"', b'"c06":"x"'),
    "a value less": lambda text: text.replace(b'"c07":"x",', b""),
    "a value more": lambda text: text.replace(b'"c07":"x",', b'"c07":"x","d07":"x",'),
    "a blank": lambda text: text.replace(b'"c07":"x"', b'"c07": "x"'),
    "no null": lambda text: text.replace(b'"c07":"x"', b'"c07":nulL'),
    "no null, the last": lambda text: text.replace(f'"c{WIDE - 1:02}":"x"'.encode(), f'"c{WIDE - 1:02}":nul'.encode()),
    "a number": lambda text: text.replace(b'"c07":"x"', b'"c07":1234'),
    "an object": lambda text: text.replace(b'"c07":"x"', b'"c07":{"c07":"x"}'),
    "a colon behind a value": lambda text: text.replace(b'"c07":"x",', b'"c07":"x":"y",'),
    "a quote more": lambda text: text.replace(b'"c07":"x",', b'"c07":"x"",'),
    "cut behind a name": cut(b'"c07":'),
    "cut behind the first value": cut(b'"data":[{"id":"7"'),
    "cut in the last value": cut(f'"c{WIDE - 1:02}":"'.encode()),
    "cut behind the last name": cut(f'"c{WIDE - 1:02}":'.encode()),
    "not UTF-8": lambda text: text.replace(b'"c07":"x"', b'"c07":"\xff"'),
}


@pytest.mark.parametrize("other", OTHERS)
@pytest.mark.parametrize("at", [1, COUNT])
def test_the_parser_says_what_another_line_is(other: str, at: int) -> None:
    parser = RowParser(TARGET)
    reader = AlikeLines(TARGET, parser)
    lines = [plain(n) for n in range(COUNT)]
    changed = OTHERS[other](plain(7))
    assert changed != plain(7)
    text = b"".join([*lines[:at], changed, *lines[at:]])
    assert outcome(reader.parse, text) == outcome(parser.parse, text)
    assert reader.taken >= COUNT or outcome(parser.parse, text) == "refused"
