"""One changed cell, one missing and one extra row among a million, each at random: `verify` finds exactly these.

``python -m tests.bench.differences --times 3 --seed 1``, or ``make proof GROUP=verify``. It takes minutes, and prints a
row of the table of docs/verify.md for each target.
"""

from __future__ import annotations

import argparse
import random
import statistics
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from consumer.model.check import VerifyResult
from consumer.spark.load import SparkLoader
from consumer.spark.settings import SparkSettings
from tests.bench.shapes.verified import Verified, VerifiedCsv, VerifiedDuckDb
from tests.mysql_server import MySql, has_mysql, mysql_template
from tests.servers import MariaDb, SqlServer, mariadb_template

Found = set[tuple[str, str, tuple[str, ...]]]

_HEAD = "| target | files | rows | passes | put there | found | anything else | seconds of a pass | SELECT and parse |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--times", type=int, default=3)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--scale", type=float, default=1.0, help="a part of the rows, for a quick look")
    args = parser.parse_args()
    loader = SparkLoader(SparkSettings("local[*]"))
    chance = random.Random(args.seed)
    print(_HEAD, "| --- " * _HEAD.count(" |") + "|", sep="\n", flush=True)
    try:
        with tempfile.TemporaryDirectory(prefix="differences-") as work:
            folder = Path(work)
            with _running(MariaDb(mariadb_template(folder), ["--innodb-buffer-pool-size=2G"])) as server:
                for shape in (Verified, VerifiedCsv, VerifiedDuckDb):
                    _print_row(shape(folder, server, loader, args.scale), args.times, chance)
            if has_mysql():
                with _running(MySql(mysql_template())) as server:
                    _print_row(Verified(folder, server, loader, args.scale), args.times, chance)
    finally:
        loader.close()


@contextmanager
def _running(server: SqlServer) -> Iterator[SqlServer]:
    server.start()
    try:
        yield server
    finally:
        server.stop()


def _print_row(shape: Verified, times: int, chance: random.Random) -> None:
    """Raises SystemExit where `verify` finds anything but the three."""
    shape.build()
    shape.round()
    seconds = [_pass(shape, chance) for _ in range(times)]
    began = time.monotonic()
    shape.limit()
    limit = time.monotonic() - began
    put = f"{times} cells, {times} missing, {times} extra"
    cost = f"{statistics.median(seconds):.1f}, at most {max(seconds):.1f} | {limit:.1f}"
    print(
        f"| {shape.target} | {shape.files} | {shape.events:,} | {times} | {put} | all | nothing | {cost} |", flush=True
    )


def _pass(shape: Verified, chance: random.Random) -> float:
    """Put the three there, and take them away; the seconds of the `verify` between."""
    changed, missing = chance.sample(range(1, shape.events), 2)
    extra = -chance.randrange(1, 1 << 31)
    column = chance.choice(["k", "c", "pad"])
    digit = f"CASE WHEN SUBSTR({column}, 11, 1) = '0' THEN '1' ELSE '0' END"
    value = "k + 1" if column == "k" else f"CONCAT(LEFT({column}, 10), {digit}, SUBSTR({column}, 12))"
    shape.execute(
        f"CREATE TABLE bench.kept AS SELECT * FROM bench.t WHERE id IN ({changed}, {missing})",
        f"UPDATE bench.t SET {column} = {value} WHERE id = {changed}",
        f"DELETE FROM bench.t WHERE id = {missing}",
        f"INSERT INTO bench.t SELECT {extra}, k, c, pad FROM bench.kept LIMIT 1",
    )
    began = time.monotonic()
    found = _found(shape.verified())
    seconds = time.monotonic() - began
    wanted: Found = {
        ("differs", str(changed), (column,)), ("missing", str(missing), ()), ("extra", str(extra), ()),
    }  # fmt: skip
    if found != wanted:
        raise SystemExit(f"{shape.title}: put there {sorted(wanted)}, found {sorted(found)}")
    shape.execute(
        f"DELETE FROM bench.t WHERE id IN ({changed}, {extra})",
        "INSERT INTO bench.t SELECT * FROM bench.kept",
        "DROP TABLE bench.kept",
    )
    return seconds


def _found(result: VerifyResult) -> Found:
    (table,) = result.tables
    if table.error is not None:
        raise SystemExit(f"not compared: {table.error}")
    if table.counted.differences != len(table.counted.shown):
        raise SystemExit(f"{table.counted.differences} rows differ")
    return {(row.kind, str(row.key[0][1]), tuple(name for name, _, _ in row.values)) for row in table.counted.shown}


if __name__ == "__main__":
    main()
