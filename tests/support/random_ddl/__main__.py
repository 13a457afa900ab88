"""``python -m tests.support.random_ddl``: histories of about 200 statements over five tables, with resyncs, kills and
checkpoints that go back, on each target in turn, for some minutes. Exit code 1 if one fails; its story is kept."""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import pymysql

from consumer.spark.load import SparkLoader
from tests.mysql_server import MySql, has_mysql, mysql_template
from tests.servers import MariaDb, SqlServer, mariadb_template
from tests.support.lakes import FORMATS, lake_loader
from tests.support.random_ddl.duckdb_replica import duckdb_replica
from tests.support.random_ddl.events import Statement
from tests.support.random_ddl.lake_replica import LakeReplica
from tests.support.random_ddl.machine import play
from tests.support.random_ddl.original import Original
from tests.support.random_ddl.replica import Replica
from tests.support.random_ddl.upstream import Upstream
from tests.tidb_server import TiDb, has_tidb

SIZE = 105
"""Events between two checkpoints: with the rounds below, about 200 statements a history."""
ROUNDS = (4, 6)
ALIVE = (5,)
_MAY_LACK = {"mysql9": has_mysql, "tidb": has_tidb}
IN_A_LAKE = 15
"""Events between two checkpoints there, where each commit takes Spark seconds."""


def main() -> int:
    flags = argparse.ArgumentParser(prog="python -m tests.support.random_ddl", description=__doc__)
    flags.add_argument("--minutes", type=float, default=1.0, help="how long to play (1)")
    flags.add_argument("--seed", type=int, default=int(time.time()) % 10**9, help="the first seed (by the clock)")
    flags.add_argument(
        "--target", default="duckdb,mysql,mysql9", help="mysql (MariaDB), mysql9, tidb, duckdb, lakes, or several"
    )
    flags.add_argument("--stories", type=Path, default=Path("build/histories"), help="where failing ones are kept")
    given = flags.parse_args()
    work, servers = Path(tempfile.mkdtemp(prefix="histories-")), dict[str, SqlServer]()
    counts, targets = Counter[str](), given.target.split(",")
    spark = lake_loader() if set(targets) & set(FORMATS) else None
    try:
        for target in targets:
            if target in _MAY_LACK and not _MAY_LACK[target]():
                print(f"{target} is left out: there is none here")
                continue
            servers[target] = _server(target, work, servers)
        seed, until = given.seed, time.monotonic() + 60 * given.minutes
        while time.monotonic() < until:
            for target in servers:
                counts += _played(seed, target, servers[target], work, given.stories, spark)
            seed += 1
    finally:
        for server in set(servers.values()):
            server.stop()
        if spark is not None:
            spark.close()
        shutil.rmtree(work, ignore_errors=True)
    print(", ".join(f"{count} {what}" for what, count in counts.items()))
    return 1 if counts["failed"] else 0


def _server(target: str, work: Path, others: dict[str, SqlServer]) -> SqlServer:
    """Where the statements are run directly, and where the replica is, unless that is a file."""
    if target == "mysql9":
        return MySql(mysql_template()).start()
    if target == "tidb":
        return TiDb(None).start()
    known = next((server for server in others.values() if isinstance(server, MariaDb)), None)
    return known or MariaDb(mariadb_template(work)).start()


def _played(
    seed: int, target: str, server: SqlServer, work: Path, stories: Path, spark: SparkLoader | None
) -> Counter[str]:
    """One history; its figures."""
    began, word, lake = time.monotonic(), "ok", target in FORMATS
    counts = Counter({f"histories on {target}": 1})
    with tempfile.TemporaryDirectory(dir=work) as name:
        folder = Path(name)

        def replica(original: Original) -> Replica:
            if target == "duckdb":
                return duckdb_replica(folder)
            return Replica.on(original, server) if spark is None or not lake else LakeReplica(target, folder, spark)

        try:
            size, rounds = (IN_A_LAKE, (2, 3)) if lake else (SIZE, ROUNDS)
            upstream = play(
                seed, size, folder / "storage", server, replica, target != "duckdb", rounds=rounds, alive=ALIVE,
                exchanges=not lake,
            )  # fmt: skip
            counts += _figures(upstream)
        except pymysql.MySQLError as error:
            word = f"not played to its end, the upstream's server failed: {error}"
            counts["not played to their end"] += 1
        except Exception as error:
            stories.mkdir(parents=True, exist_ok=True)
            story = stories / f"{target}-{seed}.txt"
            story.write_text(str(error))
            word = f"FAILED: {str(error).splitlines()[0][:300]}; the story is in {story}"
            counts["failed"] += 1
    print(f"{target} seed {seed}, {time.monotonic() - began:.0f} s: {word}", flush=True)
    return counts


def _figures(upstream: Upstream) -> Counter[str]:
    log = upstream.log
    return Counter(
        {
            "statements": sum(isinstance(event, Statement) for event in upstream.events),
            "resyncs": sum(line.startswith("resync ") for line in log),
            "kills": sum(line.startswith("died ") or line.endswith(" died") for line in log),
            "checkpoints that went back": sum(line.startswith("back to ") for line in log),
        }
    )


if __name__ == "__main__":
    sys.exit(main())
