"""One changed cell, one missing and one extra row among a million, each at random: `verify` finds exactly these.

``python -m tests.bench.differences --times 5 --seed 1``, or ``make differences``. It takes minutes.
"""

from __future__ import annotations

import argparse
import random
import tempfile
import time
from pathlib import Path

from consumer.model.check import VerifyResult
from consumer.spark.load import SparkLoader
from consumer.spark.settings import SparkSettings
from tests.bench.shapes.verified import Verified
from tests.servers import MariaDb, mariadb_template

Found = set[tuple[str, str, tuple[str, ...]]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--times", type=int, default=5)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--scale", type=float, default=1.0, help="a part of the rows, for a quick look")
    args = parser.parse_args()
    loader = SparkLoader(SparkSettings("local[*]"))
    with tempfile.TemporaryDirectory(prefix="differences-") as work:
        server = MariaDb(mariadb_template(Path(work)), ["--innodb-buffer-pool-size=2G"])
        server.start()
        try:
            shape = Verified(Path(work), server, loader, args.scale)
            shape.build()
            for number in range(args.times):
                _once(shape, server, random.Random(args.seed + number))
        finally:
            loader.close()
            server.stop()


def _once(shape: Verified, server: MariaDb, chance: random.Random) -> None:
    """Raises SystemExit for anything but the three."""
    changed, missing = chance.sample(range(1, shape.events), 2)
    extra = -chance.randrange(1, 1 << 31)
    column = chance.choice(["k", "c", "pad"])
    value = "k + 1" if column == "k" else f"CONCAT(LEFT({column}, 10), IF(SUBSTR({column}, 11, 1) = '0', '1', '0'), " \
        f"SUBSTR({column}, 12))"  # fmt: skip
    server.execute(
        "CREATE TABLE bench.kept LIKE bench.t",
        f"INSERT INTO bench.kept SELECT * FROM bench.t WHERE id IN ({changed}, {missing})",
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
    print(f"{shape.events:,} rows in {seconds:.1f} s: {sorted(found)}")
    if found != wanted:
        raise SystemExit(f"put there: {sorted(wanted)}")
    server.execute(
        f"DELETE FROM bench.t WHERE id = {extra}",
        "REPLACE INTO bench.t SELECT * FROM bench.kept",
        "DROP TABLE bench.kept",
    )


def _found(result: VerifyResult) -> Found:
    (table,) = result.tables
    if table.error is not None:
        raise SystemExit(f"not compared: {table.error}")
    if table.counted.differences != len(table.counted.shown):
        raise SystemExit(f"{table.counted.differences} rows differ")
    return {(row.kind, str(row.key[0][1]), tuple(name for name, _, _ in row.values)) for row in table.counted.shown}


if __name__ == "__main__":
    main()
