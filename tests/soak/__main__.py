"""``python -m tests.soak --minutes 30``: the program beside a live changefeed, killed and watched.

Prints a table of what was measured, and keeps a chart and JSON under ``build/soak``. Exits with 1 if something grew,
was left behind, or is not what upstream has.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from pathlib import Path

from tests.faults.targets import FileTarget, ServerTarget, Target, server_of
from tests.s3_server import S3Server
from tests.servers import SqlServer
from tests.soak.chart import draw
from tests.soak.rule import LIMITS, Verdict
from tests.soak.trial import Outcome, Plan, Soak

_PROGRAM = str(Path(sys.executable).with_name("storage-consumer"))
_ROUGH = 1 / 3
"""The part of the time that has trouble."""


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--target", default="mysql", choices=["mysql", "mysql9", "duckdb"], help="mysql is a MariaDB")
    parser.add_argument("--tables", type=int, default=200)
    parser.add_argument("--beat", type=float, default=2.0, help="seconds between two parts of the changefeed")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path("build/soak"))
    given = parser.parse_args()
    rough = given.minutes * 60 * _ROUGH
    plan = Plan(rough, given.minutes * 60 - rough, tables=given.tables, beat=given.beat, seed=given.seed)
    work = Path(tempfile.mkdtemp(prefix="soak-"))
    server, storage = server_of(given.target, work), S3Server()
    try:
        soak = Soak(_folder(work), storage.start(), _target(server, work), plan, [_PROGRAM])
        outcome = soak.play()
        _tell(soak, outcome, given.out, given.target)
    finally:
        storage.stop()
        if server is not None:
            server.stop()
    if outcome.problems:
        print(f"The program's log and folders are in {work}")
        return 1
    shutil.rmtree(work)
    return 0


def _folder(work: Path) -> Path:
    folder = work / "soak"
    folder.mkdir()
    return folder


def _target(server: SqlServer | None, work: Path) -> Target:
    return FileTarget(work) if server is None else ServerTarget(server)


def _tell(soak: Soak, outcome: Outcome, out: Path, target: str) -> None:
    out.mkdir(parents=True, exist_ok=True)
    soak.keep(out / f"{target}.json", outcome)
    drawn = draw(soak.watch.samples, outcome.verdicts, soak.troubles, out / target)
    print(table(outcome.verdicts))
    kinds = [kind for _, kind in soak.troubles]
    counts = ", ".join(f"{kinds.count(kind)} x {kind}" for kind in dict.fromkeys(kinds) if kind != "calm")
    print(f"\n{soak.writer.objects} objects, {soak.writer.kept} tables in the trash; {counts}")
    print("\n".join(outcome.problems) or "The target is equal, and nothing is left behind.")
    print("Kept in", *[out / f"{target}.json", *drawn])


def table(verdicts: list[Verdict]) -> str:
    """In Markdown."""
    lines = ["| measure | second third | last third | may grow by | so at most | |", "| --- |" + " --- |" * 5]
    for verdict in verdicts:
        middle, last, allowed = map(_cell, (verdict.middle, verdict.last, verdict.allowed))
        found = "flat" if verdict.flat else "**grew**"
        limit = LIMITS[verdict.measure].text
        lines.append(f"| {verdict.measure} | {middle} | {last} | {limit} | {allowed} | {found} |")
    return "\n".join(lines)


def _cell(value: float | None) -> str:
    return "" if value is None else f"{value:,.1f}"


if __name__ == "__main__":
    sys.exit(main())
