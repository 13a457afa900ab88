"""Each point of a round, each kind of fault, on each target: ``python -m tests.faults --runs 20``.

Prints a table of each target: for each point and kind, how many trials ended right, and how the commands that met the
fault ended. All points of all targets have had the same number of runs at any time; Ctrl-C prints those that are whole.
"""

from __future__ import annotations

import argparse
import copy
import shutil
import sys
import tempfile
from collections import Counter, defaultdict
from contextlib import ExitStack
from itertools import count
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
    names, seeds = given.targets.split(","), count(given.seed + 1)
    results: dict[str, Results] = {name: defaultdict(Counter) for name in names}
    whole, wrong, runs = copy.deepcopy(results), 0, 0
    with ExitStack() as stack:
        stack.callback(shutil.rmtree, work, ignore_errors=True)
        servers = {name: server_of(name, work) for name in names}
        for server in filter(None, servers.values()):
            stack.callback(server.stop)
        try:
            for run in range(given.runs):
                for name, server in servers.items():
                    wrong += _play(name, server, work, given, run, seeds, results[name])
                whole, runs = copy.deepcopy(results), run + 1
        except KeyboardInterrupt:
            pass
    for name, found in whole.items():
        print(f"\n{name}, {runs} runs\n{_table(found)}", flush=True)
    return 1 if wrong else 0


def _play(
    target: str,
    server: SqlServer | None,
    work: Path,
    given: argparse.Namespace,
    run: int,
    seeds: count[int],
    found: Results,
) -> int:
    """Each point and kind once; how many trials ended wrong."""
    wrong, flags = 0, ("--consistency", given.consistency)
    points = [p for p in points_of(server is not None, given.consistency) if given.points in p.name]
    for point in points:
        for kind in KINDS if server is not None else OF_A_FILE:
            for times in _TIMES[run % 3 :]:
                seed = next(seeds)
                outcome = _trial(work, server, flags, seed, point, times, kind)
                if outcome.differences is not None:
                    found[point.name, kind][outcome.first] += not outcome.differences
                    break
            else:
                raise AssertionError(f"no history came to the point: {point.name}")
            if outcome.differences:
                wrong += 1
                print(f"{target}, seed {seed}, {point.name}, {kind}: {'; '.join(outcome.differences)}", flush=True)
    return wrong


def _trial(
    work: Path, server: SqlServer | None, flags: tuple[str, ...], seed: int, point: Point, times: int, kind: str
) -> Outcome:
    folder = Path(tempfile.mkdtemp(dir=work))
    target: Target = FileTarget(folder, *flags) if server is None else ServerTarget(server, *flags)
    trial = Trial(folder, target, seed)
    try:
        outcome = trial.play(point, times, KINDS[kind])
    except KeyboardInterrupt:
        trial.give_up()
        raise
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
