"""`verify` compares every type of the type cases: equal as they were applied, each changed cell is found, and made
right by the consumer and by statements that the target's own client runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path

import duckdb
import pytest

from consumer import app
from consumer.config.settings import Settings
from consumer.model.check import Repairing, VerifyResult
from tests.e2e.test_types import FORMATS, apply
from tests.servers import SqlServer
from tests.support.inline_loader import InlineLoader
from tests.support.observers import Recorder
from tests.support.scripts import run_on_file, run_on_server
from tests.support.type_cases import ZONE
from tests.support.type_storage import DATABASE, CaseTable, TypeStorage

Cell = tuple[str, str, str]
"""A table, a column and the key of a row."""
Change = Callable[[CaseTable, str, int, int], None]
"""Gives the cell of a column in the row of a key the value that it has in the row of another key."""


@pytest.fixture(params=["canal-json", "csv"])
def storage(request: pytest.FixtureRequest, tmp_path: Path) -> TypeStorage:
    return TypeStorage(tmp_path / "storage", FORMATS[request.param])


@pytest.mark.parametrize("kind", ["mariadb", "mysql"])
def test_on_a_server(storage: TypeStorage, kind: str, request: pytest.FixtureRequest) -> None:
    server: SqlServer = request.getfixturevalue(f"fresh_{kind}")
    server.learn_zone(ZONE)
    settings = apply(storage, server.url())

    def change(table: CaseTable, column: str, key: int, other: int) -> None:
        name = f"`{DATABASE}`.`{table.name}`"
        server.execute(
            "SET SESSION sql_mode = 'ALLOW_INVALID_DATES'",
            f"UPDATE {name} t JOIN (SELECT * FROM {name}) o ON o.id = {other} "
            f"SET t.`{column}` = o.`{column}` WHERE t.id = {key}",
        )

    script = Path(storage.folder).parent / "right.sql"
    for repairing in (Repairing(sql=str(script)), Repairing(write=True)):
        _each_change_is_found(storage, settings, repairing, nullcontext(change))
        if repairing.sql:
            run_on_server(script, server)
        assert [table.state for table in verified(settings).tables if table.state != "equal"] == []


def test_on_a_file(storage: TypeStorage, tmp_path: Path) -> None:
    file = tmp_path / "replica.duckdb"
    settings = apply(storage, f"duckdb:///{file}")

    script = tmp_path / "right.sql"
    for repairing in (Repairing(sql=str(script)), Repairing(write=True)):
        _each_change_is_found(storage, settings, repairing, changing(file))
        if repairing.sql:
            run_on_file(script, file)
        assert [table.state for table in verified(settings).tables if table.state != "equal"] == []


def verified(settings: Settings, repairing: Repairing = Repairing()) -> VerifyResult:  # noqa: B008
    return app.verify(settings, Recorder(), show=1000, loader=InlineLoader(), repairing=repairing)


def _each_change_is_found(
    storage: TypeStorage,
    settings: Settings,
    repairing: Repairing,
    changing: AbstractContextManager[Change],
) -> None:
    """A cell of each column gets the value of another row, each in a row of its own where there are enough."""
    first = verified(settings)
    assert [(str(t.table), t.state, t.counted.shown, t.error) for t in first.tables if t.state != "equal"] == []
    assert {t.table.table: t.counted.expected for t in first.tables} == {t.name: len(t.final) for t in storage.tables}
    with changing as change:
        changed = each_changed(storage, change)
    found = {
        (check.table.table, name, str(dict(row.key)["id"]))
        for check in verified(settings, repairing).tables
        for row in (check.repaired or check.counted).shown
        for name, _, _ in row.values
    }
    assert found == changed
    assert len(changed) > 30


@contextmanager
def changing(file: Path) -> Iterator[Change]:
    """Changes in a DuckDB file."""
    with duckdb.connect(str(file)) as connection:

        def change(table: CaseTable, column: str, key: int, other: int) -> None:
            name = f'{DATABASE}."{table.name}"'
            value = f'SELECT o."{column}" FROM {name} o WHERE o.id = {other}'
            connection.execute(f'UPDATE {name} SET "{column}" = ({value}) WHERE id = {key}')

        yield change


def each_changed(storage: TypeStorage, change: Change) -> set[Cell]:
    """The cells that `change` has given the value of another row."""
    changed: set[Cell] = set()
    for table in storage.tables:
        if table.cases[0].column.name != "id":
            continue
        rows = [row for row in table.final if row[0] is not None]
        for position, case in enumerate(table.cases[1:], 1):
            values = [(int(str(row[0].csv)), row[position]) for row in rows if row[0] is not None]
            key, value = values[position % len(values)]
            others = [other for other, found in values if _unlike(found, value)]
            if others:
                change(table, case.column.name, key, others[0])
                changed.add((table.name, case.column.name, str(key)))
    return changed


def _unlike(one: object, other: object) -> bool:
    """Whether the two are different values also in the targets: -0 is 0 there."""
    if one is None or other is None:
        return (one is None) != (other is None)
    return getattr(one, "mariadb", None) != getattr(other, "mariadb", None)
