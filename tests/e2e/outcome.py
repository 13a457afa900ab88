"""How a recorded case comes out on a target: an empty list where it is equal to the upstream."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

from consumer import app
from consumer.config.settings import Settings
from consumer.errors import CannotBeExact
from consumer.ports import Loader
from tests.e2e.corpus import Case, run_once
from tests.e2e.targets import Target
from tests.support.observers import Recorder


def whole(case: Case, target: Target, loader: Loader) -> Iterator[str]:
    """Apply the whole storage at once: equal but for what the case's note says; running again applies nothing."""
    target.prepare(case)
    settings = case.settings(case.folder / "storage", target.url)
    result, observer = run_once(settings, loader)
    foretold = case.stops_on(target.name)
    for table, error in observer.stopped.items():
        if not foretold:
            yield f"stopped {table}: {type(error).__name__}: {error.message}"
    yield from target.differences(case, None, observer.stopped if foretold else ())
    yield from verified(settings, loader)
    if foretold and not observer.stopped:
        yield "no table stopped, though its note says so"
    again, _ = run_once(settings, loader)
    rows = sum(table.rows + table.ddl for table in again.tables.values())
    if rows:
        yield f"running again applied {rows} rows and statements"
    if result.exit_code and not observer.stopped:
        yield f"exit code {result.exit_code}, but nothing is stopped"


def stepwise(case: Case, target: Target, loader: Loader, work: Path) -> Iterator[str]:
    """Apply the storage as it was at each step, then all of it: equal each time. `work` is a folder for copies."""
    target.prepare(case)
    with tempfile.TemporaryDirectory(dir=work) as folder:
        storage = Path(folder) / "storage"
        for step in (*case.steps, None):
            case.feed(storage, step)
            run_once(case.settings(storage, target.url), loader)
            label = f"step {step}" if step else "last step"
            for difference in target.differences(case, step):
                yield f"{label}: {difference}"


def verified(settings: Settings, loader: Loader) -> Iterator[str]:
    """What `verify` says of the target against the comparison with the recorded state."""
    for check in app.verify(settings, Recorder(), loader=loader).tables:
        for difference in check.counted.shown:
            yield f"verify: {check.table}: {difference}"
        if check.error is not None and not isinstance(check.error, CannotBeExact):
            yield f"verify: {check.table} was not compared: {check.error.sentence()}"
