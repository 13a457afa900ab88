"""Tables that exchange their names in one RENAME, of which TiCDC overwrites the first file."""

from __future__ import annotations

from typing import Any

import pytest

from consumer import app
from consumer.errors import CannotBeExact
from consumer.model.names import TableName
from tests.support.crashes import once_through_crashes
from tests.support.every_target import Target
from tests.support.feed import Feed
from tests.support.inline_loader import InlineLoader
from tests.support.observers import Recorder


def swapped(feed: Feed) -> None:
    """``RENAME TABLE d.a TO d.x, d.b TO d.a, d.x TO d.b``"""
    for number, table in enumerate(("a", "b")):
        feed.create(f"d.{table}", 10 + number)
        feed.puts(f"d.{table}", 10 + number, {15 + number: (1, f"1{number}")})
    feed.rename("d.b", "d.a", 20)
    feed.rename("d.x", "d.b", 20)
    feed.puts("d.a", 20, {25: (2, "20")})
    feed.puts("d.b", 20, {26: (2, "21")})


SWAPPED = {"d.a": {1: "11", 2: "20"}, "d.b": {1: "10", 2: "21"}}


@pytest.mark.parametrize("checkpoints", [(40,), (19, 20, 21, 40), (20, 25, 26)])
def test_they_have_each_others_rows(checkpoints: tuple[int, ...], feed: Feed, target: Target) -> None:
    swapped(feed)
    for checkpoint in checkpoints:
        assert target.once(checkpoint).exit_code == 0
    assert target.tables == SWAPPED
    result = target.once(50)
    assert (result.exit_code, sum(table.rows + table.ddl for table in result.tables.values())) == (0, 0)
    assert [check.counted.differing for check in app.verify(target.replica.settings(), Recorder()).tables] == [0, 0]


def test_three_tables_in_a_circle_and_back(feed: Feed, target: Target) -> None:
    """``RENAME TABLE d.a TO d.x, d.b TO d.a, d.c TO d.b, d.x TO d.c``, then the same once more."""
    for number, table in enumerate(("a", "b", "c")):
        feed.create(f"d.{table}", 10 + number)
        feed.puts(f"d.{table}", 10 + number, {15 + number: (1, str(number))})
    for version in (20, 30):
        feed.rename("d.b", "d.a", version)
        feed.rename("d.c", "d.b", version)
        feed.rename("d.x", "d.c", version)
    assert target.once(25).exit_code == 0
    assert target.tables == {"d.a": {1: "1"}, "d.b": {1: "2"}, "d.c": {1: "0"}}
    assert target.once(40).exit_code == 0
    assert target.tables == {"d.a": {1: "2"}, "d.b": {1: "0"}, "d.c": {1: "1"}}


@pytest.mark.parametrize("stride", [1, 3])
def test_wherever_the_runs_die(stride: int, feed: Feed, target: Target, monkeypatch: pytest.MonkeyPatch) -> None:
    swapped(feed)
    feed.checkpoint(40)
    assert once_through_crashes(target.replica.settings(), stride, monkeypatch).exit_code == 0
    assert target.tables == SWAPPED


@pytest.mark.parametrize(("table", "former"), [("d.a", "d.b"), ("d.b", "d.a")])
def test_what_is_known_of_them_goes_with_them(table: str, former: str, feed: Feed, target: Target) -> None:
    swapped(feed)
    assert target.once(40).exit_code == 0
    with pytest.raises(CannotBeExact, match=f"it began under another name, {former}"):
        app.resync(target.replica.settings(), Recorder(), TableName(*table.split(".")), InlineLoader())


@pytest.mark.parametrize(
    "rule", [{"table_modes": ("*.* = soft-delete",)}, {"columns": [{"tables": ["*.*"], "exclude": ["w"]}]}]
)
def test_tables_with_rules_go_on(rule: dict[str, Any], feed: Feed, target: Target) -> None:
    """Nothing is recorded of the name that one of them has in between, which is in no file."""
    swapped(feed)
    for checkpoint in (19, 24, 40):
        assert target.once(checkpoint, **rule).exit_code == 0
    assert target.tables == SWAPPED
    more = (f"*.{name} -> {name}.*" for name in ("x", "y"))
    assert target.once(50, **rule, routes=tuple(more)).exit_code == 0, "routes for new tables"
