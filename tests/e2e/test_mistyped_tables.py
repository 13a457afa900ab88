"""A table that a rule gives by its whole name, and that the storage does not have: a person hears of it, because the
rule does nothing, and rows that it should leave out or mask would arrive."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from consumer import app
from consumer.errors import BadConfig
from consumer.model.events import Event, Idle
from tests.support.feed import Feed, MemoryReplica
from tests.support.inline_loader import InlineLoader
from tests.support.observers import Recorder

RULES: dict[str, tuple[str, Any]] = {
    "tables": ("--tables", ["d.*", "{}"]),
    "table_modes": ("--table-mode", ["{} = append"]),
    "event_filters": ("[[consumer.event-filters]]", [{"matcher": ["{}"], "ignore-event": ["delete"]}]),
    "rows": ("[[consumer.rows]]", [{"tables": ["{}"], "where": "v IS NULL"}]),
    "columns": ("[[consumer.columns]]", [{"tables": ["{}"], "exclude": ["v*"]}]),
    "masks": ("[[consumer.masks]]", [{"tables": ["{}"], "columns": ["v"], "mask": "null"}]),
    "ddl": ("[[consumer.ddl.rules]]", {"rules": [{"tables": ["{}"], "kinds": ["drop-table"], "action": "rename"}]}),
}


@pytest.fixture
def replica(tmp_path: Path) -> MemoryReplica:
    feed = Feed(tmp_path / "cdc")
    feed.database("d", 1)
    feed.create("d.people", 2)
    feed.checkpoint(20)
    return MemoryReplica(feed)


def named(value: Any, name: str) -> Any:
    """A rule with its table's name."""
    if isinstance(value, dict):
        return {key: named(inner, name) for key, inner in value.items()}
    return [named(inner, name) for inner in value] if isinstance(value, list) else value.replace("{}", name)


def notes(replica: MemoryReplica, setting: str, name: str) -> tuple[str, ...]:
    return app.plan(replica.settings(**{setting: named(RULES[setting][1], name)}), Recorder()).notes


@pytest.mark.parametrize("setting", RULES)
def test_a_name_that_no_table_has_is_told(replica: MemoryReplica, setting: str) -> None:
    place = RULES[setting][0]
    said = f"{place} names d.peple, and the storage has no such table yet: is it written right?"
    assert said in notes(replica, setting, "d.peple")
    for right in ("D.People", "d.peple*", "`d`.`people`"):
        assert not any("no such table" in note for note in notes(replica, setting, right))


def test_a_run_tells_it_and_goes_on(replica: MemoryReplica) -> None:
    result = replica.once(20, masks=named(RULES["masks"][1], "d.peple"))
    assert result.exit_code == 0
    assert any("[[consumer.masks]] names d.peple" in note for note in replica.seen.notes)


def test_a_rule_that_leaves_a_table_out_need_not_meet_one(replica: MemoryReplica) -> None:
    assert app.plan(replica.settings(tables=["d.*", "!d.peple"]), Recorder()).notes == ()


@pytest.mark.parametrize("command", [app.plan, app.once, app.backfill])
@pytest.mark.parametrize("rules", [["dd.*"], ["d.peple"], ["d.*", "!d.p*"]])
def test_a_first_run_that_would_have_no_table_is_refused(
    command: Callable[..., object], rules: list[str], replica: MemoryReplica
) -> None:
    with pytest.raises(BadConfig, match=r"--tables lets no table of the storage through; it has d\.people"):
        command(replica.settings(tables=rules), Recorder())


@pytest.mark.parametrize("command", [app.plan, app.once])
@pytest.mark.parametrize(
    ("rule", "meant"), [("d.peple", r"; did you mean d\.people\?"), ("dd.*", r"; did you mean d\.\*\?"), ("x_y.*", "$")]
)
def test_so_is_a_later_one_before_anything_changes(
    command: Callable[..., object], rule: str, meant: str, replica: MemoryReplica
) -> None:
    assert replica.once(20).exit_code == 0
    before = replica.sink.progress()
    with pytest.raises(BadConfig, match=rf"--tables lets no table of the storage through; it has d\.people{meant}"):
        command(replica.settings(tables=[rule]), Recorder())
    assert replica.sink.progress() == before


def test_one_whose_tables_are_gone_upstream_is_not_refused(replica: MemoryReplica) -> None:
    """The target had them."""
    replica.feed.create("e.t", 12)
    assert replica.once(20, tables=["e.*"]).exit_code == 0
    shutil.rmtree(replica.feed.folder / "e")
    assert replica.once(30, tables=["e.*"]).exit_code == 0


def test_a_storage_with_no_table_yet_is_none_to_refuse(tmp_path: Path) -> None:
    feed = Feed(tmp_path)
    feed.checkpoint(10)
    replica = MemoryReplica(feed)
    assert replica.once(10, tables=["later.*"]).exit_code == 0


class Ends(Recorder):
    """Ends `run` when there is nothing to do."""

    def __init__(self, stop: threading.Event) -> None:
        super().__init__()
        self._stop = stop

    def tell(self, event: Event) -> None:
        super().tell(event)
        if isinstance(event, Idle):
            self._stop.set()


def test_run_waits_for_tables_to_come(tmp_path: Path) -> None:
    """It began before there was one; others came first."""
    feed = Feed(tmp_path)
    feed.checkpoint(10)
    replica = MemoryReplica(feed)
    assert replica.once(10, tables=["later.*"]).exit_code == 0
    feed.database("d", 11)
    feed.create("d.t", 12)
    feed.checkpoint(20)
    stop = threading.Event()
    seen = Ends(stop)
    result = app.run(replica.settings(tables=["later.*"]), seen, stop, InlineLoader())
    assert result.exit_code == 0
    assert any("include none of the storage's 1 table:" in note for note in seen.notes)
