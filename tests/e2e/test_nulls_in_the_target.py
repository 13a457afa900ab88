"""Columns of the target in which a server puts a value of its own for NULL: the row is refused, whatever writes it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from consumer import app
from consumer.model.actions import Action
from consumer.model.check import Repairing
from consumer.model.columns import Column
from tests.servers import SqlServer
from tests.support.build import ID
from tests.support.inline_loader import InlineLoader
from tests.support.lettered import Storage
from tests.support.observers import Recorder

COLUMNS = (ID, Column("v", "INT"), Column("s", "TIMESTAMP"))
KEYLESS = (replace(ID, is_pk=False), *COLUMNS[1:])
BY_HAND = {
    "the time": ("MODIFY s TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP", "MODIFY s TIMESTAMP NULL"),
    "a number": ("MODIFY v INT AUTO_INCREMENT, ADD KEY (v)", "MODIFY v INT NULL"),
    "a number, beside a column of the target": (
        "MODIFY v INT AUTO_INCREMENT, ADD KEY (v), ADD COLUMN own INT",
        "MODIFY v INT NULL",
    ),
}
CASES = [(change, keyless) for change in BY_HAND for keyless in (False, True) if not (keyless and "beside" in change)]
NOON = "2024-01-01 12:00:00"


def storage_of(folder: Path, columns: tuple[Column, ...]) -> Storage:
    storage = Storage(folder, columns=columns)
    key = " PRIMARY KEY" if columns[0].is_pk else ""
    query = f"CREATE TABLE `t` (`id` INT{key} NOT NULL, `v` INT, `s` TIMESTAMP NULL)"
    storage.feed.statement("d.t", 2, Action.CREATE_TABLE, query, columns)
    return storage


@pytest.mark.parametrize("consistency", ["row", "snapshot"])
@pytest.mark.parametrize(("change", "keyless"), CASES)
@pytest.mark.parametrize("kind", ["mariadb", "mysql"])
def test_null_never_becomes_something_else(
    kind: str, change: str, keyless: bool, consistency: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    server: SqlServer = request.getfixturevalue(f"fresh_{kind}")
    storage = storage_of(tmp_path, KEYLESS if keyless else COLUMNS)
    storage.file(storage.line((10, "1", "1", NOON)))
    query = "SELECT id, v, s FROM d.t ORDER BY id"
    assert storage.once(server.url(), 15, consistency=consistency, on_bad_row="stop").exit_code == 0
    harm, mend = BY_HAND[change]
    server.execute(f"ALTER TABLE d.t {harm}")
    storage.file(storage.line((20, "2", "2", NOON)), storage.line((21, "3", None, None)))  # type: ignore[arg-type]
    assert storage.once(server.url(), 25, consistency=consistency, on_bad_row="stop").exit_code == 3
    stopped = storage.stopped()
    assert stopped is not None
    assert "is NULL upstream" in stopped.message
    assert storage.once(server.url(), 25, consistency=consistency).exit_code == 3
    assert storage.stopped() is None
    assert [row[0] for row in server.execute(query)] == [1, 2]
    app.retry(storage.settings(server.url()), Recorder(), lambda _: True, InlineLoader())
    assert [row[0] for row in server.execute(query)] == [1, 2]
    server.execute(f"ALTER TABLE d.t {mend}")
    (found,) = app.retry(storage.settings(server.url()), Recorder(), lambda _: True, InlineLoader()).tables
    assert (found.taken_in, found.quarantined) == (1, 0)
    assert server.execute(query)[2] == (3, None, None)


def test_a_row_is_not_made_right_so(fresh_mysql: SqlServer, tmp_path: Path) -> None:
    """Neither by the consumer nor by statements in a file."""
    storage, script = storage_of(tmp_path, COLUMNS), tmp_path / "right.sql"
    storage.file(storage.line((10, "1", None, NOON)), storage.line((11, "2", "2", NOON)))
    assert storage.once(fresh_mysql.url(), 15).exit_code == 0
    fresh_mysql.execute("ALTER TABLE d.t MODIFY v INT AUTO_INCREMENT, ADD KEY (v)")
    for repairing in (Repairing(write=True), Repairing(sql=str(script))):
        settings = storage.settings(fresh_mysql.url(), on_bad_row="stop")
        (check,) = app.verify(settings, Recorder(), loader=InlineLoader(), repairing=repairing).tables
        assert check.state == "differs"
        assert any("is NULL upstream" in note for note in check.notes)
