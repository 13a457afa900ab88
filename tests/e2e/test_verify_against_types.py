"""`verify --against` compares every type of the type cases, on servers of two kinds and with a file: equal as they were
applied, each changed cell is found, and made right by statements."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

import pytest

from consumer import app
from consumer.config.settings import Settings
from consumer.model.check import Repairing, VerifyResult
from tests.e2e.test_types import FORMATS, apply
from tests.e2e.test_verify_types import Change, changing, each_changed
from tests.servers import SqlServer
from tests.support.inline_loader import InlineLoader
from tests.support.observers import Recorder
from tests.support.scripts import run_on_file, run_on_server
from tests.support.type_cases import ZONE
from tests.support.type_storage import DATABASE, CaseTable, TypeStorage


@pytest.fixture
def storage(tmp_path: Path) -> TypeStorage:
    return TypeStorage(tmp_path / "storage", FORMATS["canal-json"])


@pytest.mark.parametrize(("kind", "other"), [("mariadb", "mysql"), ("mysql", "mariadb")])
def test_two_servers(storage: TypeStorage, kind: str, other: str, request: pytest.FixtureRequest) -> None:
    target: SqlServer = request.getfixturevalue(f"fresh_{kind}")
    settings = _applied(storage, target)
    beside: SqlServer = request.getfixturevalue(f"fresh_{other}")
    _applied(storage, beside)

    def change(table: CaseTable, column: str, key: int, row: int) -> None:
        name = f"`{DATABASE}`.`{table.name}`"
        target.execute(
            "SET SESSION sql_mode = 'ALLOW_INVALID_DATES'",
            f"UPDATE {name} t JOIN (SELECT * FROM {name}) o ON o.id = {row} "
            f"SET t.`{column}` = o.`{column}` WHERE t.id = {key}",
        )

    script = Path(storage.folder).parent / "right.sql"
    _each_change_is_found(storage, settings, beside, nullcontext(change), script)
    run_on_server(script, target)
    assert _unequal(_verified(settings, beside)) == []


def test_a_file(storage: TypeStorage, tmp_path: Path, fresh_mariadb: SqlServer) -> None:
    _applied(storage, fresh_mariadb)
    file = tmp_path / "replica.duckdb"
    settings = apply(storage, f"duckdb:///{file}")

    script = tmp_path / "right.sql"
    _each_change_is_found(storage, settings, fresh_mariadb, changing(file), script)
    run_on_file(script, file)
    assert _unequal(_verified(settings, fresh_mariadb)) == []


def _applied(storage: TypeStorage, server: SqlServer) -> Settings:
    server.learn_zone(ZONE)
    return apply(storage, server.url())


def _verified(settings: Settings, beside: SqlServer, repairing: Repairing = Repairing()) -> VerifyResult:  # noqa: B008
    return app.verify(settings, Recorder(), show=1000, loader=InlineLoader(), repairing=repairing, against=beside.url())


def _unequal(result: VerifyResult) -> list[object]:
    return [(str(t.table), t.state, t.counted.shown, t.error, t.notes) for t in result.tables if t.state != "equal"]


def _each_change_is_found(
    storage: TypeStorage, settings: Settings, beside: SqlServer, changing: AbstractContextManager[Change], script: Path
) -> None:
    first = _verified(settings, beside)
    assert _unequal(first) == []
    assert {t.table.table: t.counted.expected for t in first.tables} == {t.name: len(t.final) for t in storage.tables}
    with changing as change:
        changed = each_changed(storage, change)
    found = {
        (check.table.table, name, str(dict(row.key)["id"]))
        for check in _verified(settings, beside, Repairing(sql=str(script))).tables
        for row in check.counted.shown
        for name, _, _ in row.values
    }
    assert found == changed
    assert len(changed) > 30
