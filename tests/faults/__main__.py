"""Each point of a round, each kind of fault, on each target: ``python -m tests.faults --runs 20``.

Prints a table of each target: for each point and kind, how many trials ended right, and how the commands that met the
fault ended. Every point has had a trial with every kind before one has a second trial; Ctrl-C or SIGTERM prints
what is whole.
"""

from __future__ import annotations

import argparse
import shutil
import signal
import sys
import tempfile
from pathlib import Path

from tests.faults.campaign import Campaign
from tests.faults.parts import NAMES, DriverPart, Part, SparkPart
from tests.faults.results import Results
from tests.support.lakes import FORMATS


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.faults", description=__doc__.split("\n")[0])
    parser.add_argument("--runs", type=int, default=20, help="trials of each point and kind (20)")
    parser.add_argument("--targets", default="mysql,mysql9,duckdb", help=f"of {', '.join(NAMES)} (%(default)s)")
    parser.add_argument("--consistency", default="row,table,snapshot", help="of %(default)s")
    parser.add_argument("--spark", action="store_true", help="the processes of a Spark cluster, instead of the driver")
    parser.add_argument("--points", default="", help="only those whose name has this")
    parser.add_argument("--kinds", default="", help="only those whose name has this")
    parser.add_argument("--jobs", type=int, default=2, help="trials at a time (2)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--results", type=Path, help="a file: a line for each trial; those in it are not played again")
    given = parser.parse_args()
    levels, targets = given.consistency.split(","), given.targets.split(",")
    made: type[Part] = SparkPart if given.spark else DriverPart
    parts = [
        made(target, given.points, given.kinds, level)
        for level in levels
        for target in targets
        if level == "row" or target not in FORMATS
    ]
    for number in (signal.SIGINT, signal.SIGTERM):  # also where a shell runs it in its background
        signal.signal(number, signal.default_int_handler)
    results = Results(given.results)
    work = Path(tempfile.mkdtemp(prefix="faults-"))
    Campaign(parts, given.runs, given.jobs, given.seed, results, work).play()
    for part in parts:
        print(f"\n{part.title}, {results.whole(part.cells())} runs\n\n{results.table(part.cells())}", flush=True)
    if wrong := results.wrong():
        print(f"\n{len(wrong)} trials ended wrong; their folders are in {work}", flush=True)
        return 1
    shutil.rmtree(work)
    return 0


if __name__ == "__main__":
    sys.exit(main())
