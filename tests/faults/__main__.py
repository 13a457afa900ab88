"""Each point of a round, each kind of fault, on each target: ``python -m tests.faults --runs 20``.

Prints a table: for each point and kind, how many trials ended right, and how the commands that met the fault ended.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from collections import Counter, defaultdict
from pathlib import Path

from tests.faults.points import Point, points_of
from tests.faults.trial import KINDS, OF_A_FILE, FileTarget, Outcome, ServerTarget, Target, Trial, server_of
from tests.servers import SqlServer

_TIMES = (3, 2, 1, 1, 1, 1)
"""Tried one after the other, until a history comes to the point so often."""
Results = dict[tuple[str, str], Counter[int]]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--runs", type=int, default=20, help="trials of each point and kind")
    parser.add_argument("--targets", default="mysql,mysql9,duckdb")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--points", default="", help="only points whose name has this")
    parser.add_argument("--consistency", default="row", help="row, table or snapshot")
    given = parser.parse_args()
    work = Path(tempfile.mkdtemp(prefix="faults-"))
    failed = 0
    try:
        for target in given.targets.split(","):
            server = server_of(target, work)
            try:
                results, wrong = _played(target, server, work, given)
            finally:
                if server is not None:
                    server.stop()
            failed += wrong
            print(f"\n{target}\n{_table(results)}", flush=True)
    finally:
        shutil.rmtree(work, ignore_errors=True)
    return 1 if failed else 0


def _played(target: str, server: SqlServer | None, work: Path, given: argparse.Namespace) -> tuple[Results, int]:
    results: Results = defaultdict(Counter)
    seed, wrong = given.seed, 0
    flags = ("--consistency", given.consistency)
    points = [p for p in points_of(server is not None, given.consistency) if given.points in p.name]
    for point in points:
        for kind in KINDS if server is not None else OF_A_FILE:
            for run in range(given.runs):
                for times in _TIMES[run % 3 :]:
                    seed += 1
                    outcome = _trial(work, server, flags, seed, point, times, kind)
                    if outcome.differences is not None:
                        results[point.name, kind][outcome.first] += not outcome.differences
                        break
                else:
                    raise AssertionError(f"no history came to the point: {point.name}")
                if outcome.differences:
                    wrong += 1
                    print(f"{target}, seed {seed}, {point.name}, {kind}: {'; '.join(outcome.differences)}", flush=True)
    return results, wrong


def _trial(
    work: Path, server: SqlServer | None, flags: tuple[str, ...], seed: int, point: Point, times: int, kind: str
) -> Outcome:
    folder = Path(tempfile.mkdtemp(dir=work))
    target: Target = FileTarget(folder, *flags) if server is None else ServerTarget(server, *flags)
    outcome = Trial(folder, target, seed).play(point, times, KINDS[kind])
    if not outcome.differences:
        shutil.rmtree(folder)
    return outcome


def _table(results: Results) -> str:
    """In Markdown: right trials, and behind them the exit codes of the commands that met the fault."""
    kinds = list(dict.fromkeys(kind for _, kind in results))
    lines = [f"| point | {' | '.join(kinds)} |", "| --- |" + " --- |" * len(kinds)]
    for point in dict.fromkeys(point for point, _ in results):
        cells = [_cell(results.get((point, kind), Counter())) for kind in kinds]
        lines.append(f"| {point} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _cell(codes: Counter[int]) -> str:
    ends = ", ".join(str(code) for code in sorted(codes))
    return f"{codes.total()} ({ends})" if codes else ""


if __name__ == "__main__":
    sys.exit(main())
