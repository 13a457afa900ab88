"""A column whose values upstream keeps, and which somebody made one that the target computes: nothing of it is lost
without a word."""

from __future__ import annotations

from pathlib import Path

import pytest

from consumer import app
from consumer.errors import SchemaDrift
from consumer.model.actions import Action
from consumer.model.columns import Column
from tests.servers import SqlServer
from tests.support.canal_json import row_line
from tests.support.inline_loader import InlineLoader
from tests.support.lettered import COLUMNS, FORMS, Storage
from tests.support.observers import Recorder

COMPUTED = ("ALTER TABLE d.t DROP COLUMN v", "ALTER TABLE d.t ADD COLUMN v INT AS (id + 1) VIRTUAL")


@pytest.mark.parametrize("action", ["stop", "quarantine"])
@pytest.mark.parametrize("form", FORMS)
def test_rows_that_have_its_values_stop_the_table(server: SqlServer, tmp_path: Path, form: str, action: str) -> None:
    storage = Storage(tmp_path, form)
    storage.file(storage.line((10, "1", "5", "a")))
    assert storage.once(server.url(), 15).exit_code == 0
    server.execute(*COMPUTED)
    (check,) = app.verify(storage.settings(server.url()), Recorder(), loader=InlineLoader()).tables
    assert check.state == "not compared"
    assert isinstance(check.error, SchemaDrift)
    path = storage.file(storage.line((20, "2", "5", "a")))
    assert storage.once(server.url(), 25, on_bad_row=action).exit_code == 3
    stopped = storage.stopped()
    assert stopped is not None
    assert "column v, which the target computes when it is read" in stopped.message
    assert stopped.path == path
    server.execute("ALTER TABLE d.t DROP COLUMN v", "ALTER TABLE d.t ADD COLUMN v INT", "UPDATE d.t SET v = 5")
    assert storage.once(server.url(), 25).exit_code == 0
    assert server.execute("SELECT id, v FROM d.t ORDER BY id") == [(1, 5), (2, 5)]


@pytest.mark.parametrize("form", FORMS)
def test_values_that_the_target_computes_and_keeps_are_not_those_of_the_rows(
    server: SqlServer, tmp_path: Path, form: str
) -> None:
    storage = Storage(tmp_path, form)
    storage.file(storage.line((10, "1", "5", "a")))
    assert storage.once(server.url(), 15).exit_code == 0
    server.execute("ALTER TABLE d.t DROP COLUMN v", "ALTER TABLE d.t ADD COLUMN v INT AS (id + 1) STORED")
    (check,) = app.verify(storage.settings(server.url()), Recorder(), loader=InlineLoader()).tables
    assert check.state == "differs"
    storage.file(storage.line((20, "2", "5", "a")))
    assert storage.once(server.url(), 25).exit_code == 3
    stopped = storage.stopped()
    assert stopped is not None
    assert "computes `v`, and upstream does not" in stopped.message
    server.execute(stopped.hint.removeprefix("make it a plain column: ").split(";")[0])
    assert storage.once(server.url(), 25).exit_code == 0
    assert server.execute("SELECT id, v FROM d.t ORDER BY id") == [(1, 2), (2, 5)]


def test_what_upstream_computes_and_keeps_the_target_computes_too(server: SqlServer, tmp_path: Path) -> None:
    storage = Storage(tmp_path)
    without = (COLUMNS[0], COLUMNS[2])
    storage.feed.statement("d.t", 4, Action.DROP_COLUMN, "ALTER TABLE `t` DROP COLUMN `v`", without)
    query = "ALTER TABLE `t` ADD COLUMN `v` INT AS (`id` + 1) STORED"
    storage.feed.statement("d.t", 6, Action.ADD_COLUMN, query, (*without, Column("v", "INT")))
    storage.feed.file("d.t", 6, row_line("INSERT", {"id": "1", "s": "a", "v": "2"}, commit_ts=10) + b"\r\n")
    assert storage.once(server.url(), 15).exit_code == 0
    assert server.execute("SELECT id, s, v FROM d.t") == [(1, "a", 2)]


def test_so_do_those_of_a_table_with_a_form(server: SqlServer, tmp_path: Path) -> None:
    storage = Storage(tmp_path)
    storage.file(storage.line((10, "1", "5", "a")))
    forms = ["d.* = append"]
    assert storage.once(server.url(), 15, table_modes=forms).exit_code == 0
    server.execute(*COMPUTED)
    verified = app.verify(storage.settings(server.url(), table_modes=forms), Recorder(), loader=InlineLoader())
    assert verified.tables[0].state == "not compared"
    storage.file(storage.line((20, "2", "5", "a")))
    assert storage.once(server.url(), 25, table_modes=forms).exit_code == 3
    stopped = storage.stopped()
    assert stopped is not None
    assert "make it a plain column in d.t" in stopped.hint
    server.execute("ALTER TABLE d.t DROP COLUMN v", "ALTER TABLE d.t ADD COLUMN v INT", "UPDATE d.t SET v = 5")
    assert storage.once(server.url(), 25, table_modes=forms).exit_code == 0
    assert server.execute("SELECT id, v FROM d.t ORDER BY id") == [(1, 5), (2, 5)]


def test_rows_from_before_it_was_computed_upstream_too_have_values(server: SqlServer, tmp_path: Path) -> None:
    storage = Storage(tmp_path)
    storage.file(storage.line((10, "1", "5", "a")))
    without = (COLUMNS[0], COLUMNS[2])
    storage.feed.statement("d.t", 12, Action.DROP_COLUMN, "ALTER TABLE `t` DROP COLUMN `v`", without)
    query = "ALTER TABLE `t` ADD COLUMN `v` INT AS (`id` + 1) VIRTUAL"
    storage.feed.statement("d.t", 14, Action.ADD_COLUMN, query, (*without, Column("v", "INT")))
    for checkpoint in (11, 14, 15):
        assert storage.once(server.url(), checkpoint).exit_code == 0
        (check,) = app.verify(storage.settings(server.url()), Recorder(), loader=InlineLoader()).tables
        assert check.state == "equal"
    assert server.execute("SELECT id, s, v FROM d.t") == [(1, "a", 2)]
