"""start-ts: the written forms, and which rule decides."""

from __future__ import annotations

import pytest

from consumer.config.load import load
from consumer.config.rules import StartRule, StartRules
from consumer.errors import BadConfig
from consumer.model.names import TableName
from consumer.model.rules import NOW

RULES = (StartRule(tables=("d.t",), moment="8"), StartRule(tables=("d.*",), moment="now"))
ONE = StartRules(whole="7", rules=RULES)
BASE = {"upstream_uri": "file:///cdc?protocol=canal-json"}


def start_rules(value: object) -> StartRules:
    return load({**BASE, "start_ts": value}, {}).settings.start_ts


@pytest.mark.parametrize("value", [["7", "d.t=8", "d.*=now"], "7;d.t=8; d.* = now", ONE])
def test_the_written_forms(value: object) -> None:
    assert start_rules(value) == ONE


def test_a_table_of_the_file() -> None:
    assert start_rules({"d.t": 8, "d.*": "now"}) == StartRules(rules=RULES)
    assert start_rules(7) == StartRules(whole="7")


def test_the_last_rule_that_matches_decides() -> None:
    given = ["2026-01-01T00:00:00Z", "d.*=9", "D.t=now", "d.u=2026-01-01T00:00:00.001Z"]
    settings = load({**BASE, "start_ts": given}, {}).settings
    starts = settings.starts
    assert settings.start_tso == 1767225600000 << 18
    found = [starts.of(TableName("d", name)) for name in ("x", "t", "u")]
    assert (found, starts.of(TableName("e", "t"))) == ([9, NOW, 1767225600001 << 18], None)
    assert starts.unfit([TableName("d", "t")]) == ["d.u=2026-01-01T00:00:00.001Z"]


@pytest.mark.parametrize(
    ("value", "why"),
    [
        (["7", "8"], "two moments for all tables, 7 and 8"),
        ("d.t=soon", "'soon' is no moment"),
        ("d.t=0", "'0' is not a TSO"),
        ("!d.t=7", "leaves tables out"),
        ("=7", "refused"),
    ],
)
def test_what_is_refused(value: object, why: str) -> None:
    with pytest.raises(BadConfig, match=why):
        load({**BASE, "start_ts": value}, {})
