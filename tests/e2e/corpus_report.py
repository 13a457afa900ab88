"""Run every case of a corpus and say how each comes out: ``python -m tests.e2e.corpus_report [options]``.

The corpus is the folder that the variable CORPUS names, else the recorded changefeeds of ``fixtures``.

A case is equal when its target equals the recorded state after one run, after each of its steps, and when running again
then applies nothing. Exit status 0: every case is equal or ends as its note says.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from consumer.errors import ConsumerError
from consumer.ports import Loader
from consumer.spark.load import SparkLoader
from consumer.spark.settings import SparkSettings
from tests.e2e.corpus import Case, read_cases
from tests.e2e.outcome import stepwise, whole
from tests.e2e.targets import File, Lake, Server, Target
from tests.mysql_server import NO_MYSQL, MySql, has_mysql, mysql_template
from tests.servers import MariaDb, SqlServer, mariadb_template
from tests.support.inline_loader import WithoutSpark
from tests.support.lakes import FORMATS, lake_loader
from tests.tidb_server import NO_TIDB, TiDb, has_tidb

FIXTURES = Path(__file__).parents[2] / "fixtures" / "cdc"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--only", default="", help="cases whose name contains one of these, divided by commas")
    parser.add_argument(
        "--target",
        default="mysql,mysql9,duckdb",
        help="some of %(default)s (default), tidb, delta, iceberg; mysql is a MariaDB",
    )
    parser.add_argument("--inline", action="store_true", help="in this process, as in-process-bytes has it")
    parser.add_argument("--no-steps", action="store_true")
    parser.add_argument(
        "--set", action="append", default=[], metavar="K=V", help="a setting of the consumer, as never-split='*.*'"
    )
    parser.add_argument("--route", action="append", default=[], metavar="FROM -> TO", help="names in the target")
    args = parser.parse_args()
    if unknown := set(args.target.split(",")) - {*_TARGETS, *FORMATS}:
        parser.error(f"{', '.join(sorted(unknown))}: no such target; known are {', '.join([*_TARGETS, *FORMATS])}")
    flags: dict[str, object] = {
        key.replace("-", "_"): value for key, _, value in (given.partition("=") for given in args.set)
    }
    flags["routes"] = args.route
    bad = 0
    with tempfile.TemporaryDirectory(prefix="corpus-") as folder:
        work = Path(folder)
        loader = WithoutSpark() if args.inline else SparkLoader(SparkSettings("local[2]"))
        cases = [
            replace(case, flags=flags)
            for case in read_cases(Path(os.environ.get("CORPUS") or FIXTURES).resolve(), work / "unpacked")
            if any(part in case.name for part in args.only.split(","))
            # What the target holds before is made by statements in upstream's names.
            and not (args.route and case.prepare_statements())
        ]
        for name in args.target.split(","):
            if name in FORMATS:
                (work / name).mkdir()
                bad += _of_lake(cases, name, work / name, steps=not args.no_steps, inline=args.inline)
                continue
            if lacking := _lacking(name):
                print(f"SKIPPED  {name}: {lacking}", flush=True)
                continue
            with _TARGETS[name](work) as target:
                bad += sum(_differs(case, name, target, loader, work, steps=not args.no_steps) for case in cases)
        loader.close()
    print(f"{bad} cases differ")
    return 1 if bad else 0


def _differs(case: Case, name: str, target: Target, loader: Loader, work: Path, steps: bool) -> bool:
    """Run a case, and print how it comes out."""
    started = time.monotonic()
    problems = list(_outcome(case, target, loader, work, steps))
    verdict = "equal" if not problems else "DIFFERS"
    print(f"{verdict:8} {name:7} {case.name:32} {time.monotonic() - started:6.1f}s  {case.note}", flush=True)
    for problem in problems:
        print(f"         {problem[:300]}", flush=True)
    return bool(problems)


def _lacking(name: str) -> str:
    """Why there is no such server here; "" where there is one."""
    match name:
        case "mysql9":
            return "" if has_mysql() else NO_MYSQL
        case "tidb":
            return "" if has_tidb() else NO_TIDB
        case _:
            return ""


@contextlib.contextmanager
def _running(server: SqlServer) -> Iterator[Target]:
    try:
        yield Server(server.start())
    finally:
        server.stop()


@contextlib.contextmanager
def _file(work: Path) -> Iterator[Target]:
    yield File(work)


def _of_lake(cases: Sequence[Case], name: str, work: Path, steps: bool, inline: bool) -> int:
    """All cases but those whose target has tables that somebody made by hand. EXCHANGE PARTITION stops its table."""
    with contextlib.closing(lake_loader(inline)) as loader:
        target = Lake(name, work, loader)
        own = [
            replace(case, note=EXCHANGE, steps=()) if "EXCHANGE PARTITION" in case.statements() else case
            for case in cases
            if not case.prepare_statements()
        ]
        return sum(_differs(case, name, target, loader, work, steps) for case in own)


EXCHANGE = "EXCHANGE PARTITION stops its table in a lake"
_TARGETS: dict[str, Callable[[Path], contextlib.AbstractContextManager[Target]]] = {
    "mysql": lambda work: _running(MariaDb(mariadb_template(work))),
    "mysql9": lambda _: _running(MySql(mysql_template())),
    "tidb": lambda _: _running(TiDb(None)),
    "duckdb": _file,
}


def _outcome(case: Case, target: Target, loader: Loader, work: Path, steps: bool) -> Iterator[str]:
    try:
        yield from whole(case, target, loader)
        if steps and case.steps:
            yield from stepwise(case, target, loader, work)
    except ConsumerError as error:
        yield f"{type(error).__name__}: {error.sentence()}"


if __name__ == "__main__":
    raise SystemExit(main())
