"""Run every case of a corpus and say how each comes out: ``python -m tests.e2e.corpus_report CORPUS [options]``.

A case is equal when its target equals the recorded state after one run, after each of its steps, and when running again
then applies nothing. Exit status 0: every case is equal or ends as its note says.
"""

from __future__ import annotations

import argparse
import contextlib
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from consumer.errors import ConsumerError
from consumer.ports import Loader
from consumer.spark.load import SparkLoader
from consumer.spark.settings import SparkSettings
from tests.e2e.corpus import Case, read_cases
from tests.e2e.outcome import stepwise, whole
from tests.e2e.targets import File, Server, Target
from tests.servers import MariaDb, mariadb_template
from tests.support.inline_loader import InlineLoader


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("corpus", type=Path)
    parser.add_argument("--only", default="", help="cases whose name contains one of these, divided by commas")
    parser.add_argument("--target", choices=("mysql", "duckdb"), default="mysql")
    parser.add_argument("--inline", action="store_true", help="without Spark: the same task functions in this process")
    parser.add_argument("--no-steps", action="store_true")
    args = parser.parse_args()
    bad = 0
    with tempfile.TemporaryDirectory(prefix="corpus-") as work, _target(args.target, Path(work)) as target:
        loader: Loader = InlineLoader() if args.inline else SparkLoader(SparkSettings("local[2]"))
        for case in read_cases(args.corpus.resolve(), Path(work) / "unpacked"):
            if not any(part in case.name for part in args.only.split(",")):
                continue
            started = time.monotonic()
            problems = list(_outcome(case, target, loader, Path(work), steps=not args.no_steps))
            verdict = "equal" if not problems else "DIFFERS"
            print(f"{verdict:8} {case.name:32} {time.monotonic() - started:6.1f}s  {case.note}", flush=True)
            for problem in problems:
                print(f"         {problem[:300]}", flush=True)
            bad += bool(problems)
        loader.close()
    print(f"{bad} cases differ")
    return 1 if bad else 0


@contextlib.contextmanager
def _target(name: str, work: Path) -> Iterator[Target]:
    if name == "duckdb":
        yield File(work)
        return
    server = MariaDb(mariadb_template(work)).start()
    try:
        yield Server(server)
    finally:
        server.stop()


def _outcome(case: Case, target: Target, loader: Loader, work: Path, steps: bool) -> Iterator[str]:
    try:
        yield from whole(case, target, loader)
        if steps and case.steps:
            yield from stepwise(case, target, loader, work)
    except ConsumerError as error:
        yield f"{type(error).__name__}: {error.sentence()}"


if __name__ == "__main__":
    raise SystemExit(main())
