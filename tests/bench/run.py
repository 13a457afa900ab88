"""The benchmark: each shape beside its limit, in interleaved pairs. ``python -m tests.bench.run [A,B,C,..]``;
``E1,E5,E20`` (1,000, 5,000 and 20,000 tables), ``F5`` and ``F5S`` (nothing new in 5,000, on disk and S3) when named.

Speeds are ratios of one run: machines differ and are noisy. Results are kept as JSON in ``build/bench``.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from consumer.spark.load import SparkLoader
from consumer.spark.session import start_session
from consumer.spark.settings import SparkSettings
from tests.bench.discovery import DISCOVERY_FILES, measure_discovery
from tests.bench.meter import Meter
from tests.bench.shapes import GROWTH, SHAPES, Shape
from tests.servers import MariaDb, mariadb_template

RESULTS = Path("build/bench")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("shapes", nargs="?", default=",".join([*SHAPES, "D"]))
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--scale", type=float, default=1.0, help="a part of the rows, for a quick look")
    args = parser.parse_args()
    names = args.shapes.split(",")
    results: dict[str, Any] = {"D": measure_discovery(int(DISCOVERY_FILES * args.scale))} if "D" in names else {}
    spark = SparkSettings("local[*]")
    started = time.monotonic()
    session = start_session(spark)
    loader = SparkLoader(spark)
    session.spark.range(2).mapInArrow(lambda batches: batches, "id long").collect()
    start_seconds = time.monotonic() - started
    results["spark_start_seconds"] = round(start_seconds, 1)
    with tempfile.TemporaryDirectory(prefix="bench-") as work:
        server = MariaDb(mariadb_template(Path(work)), ["--innodb-buffer-pool-size=2G", "--innodb-log-file-size=1G"])
        server.start()
        try:
            for name in (name for name in names if name != "D"):
                shape = {**SHAPES, **GROWTH}[name](Path(work), server, loader, args.scale)
                results[name] = _measure(shape, args.pairs)
                _print(shape, results[name])
        finally:
            server.stop()
            session.close()
    RESULTS.mkdir(parents=True, exist_ok=True)
    out = RESULTS / f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}.json"
    out.write_text(json.dumps(results, indent=1))
    print(f"Spark's start: {start_seconds:.1f} s (not counted above). Kept in {out}")


def _measure(shape: Shape, pairs: int) -> dict[str, Any]:
    size = shape.build()
    shape.before_round()
    shape.round()
    rounds, limits = [], []
    for _ in range(pairs):
        shape.before_limit()
        with Meter(shape.server.pid) as limit:
            shape.limit()
        shape.before_round()
        with Meter(shape.server.pid) as meter:
            shape.round()
        rounds.append(meter)
        limits.append(limit)
    ratios = [limit.seconds / meter.seconds for limit, meter in zip(limits, rounds, strict=True)]
    seconds = statistics.median(meter.seconds for meter in rounds)
    middle = min(rounds, key=lambda meter: abs(meter.seconds - seconds))
    return {
        "title": shape.title,
        "events": shape.events,
        "bytes": size,
        "seconds": round(seconds, 2),
        "limit_seconds": round(statistics.median(meter.seconds for meter in limits), 2),
        "events_per_second": round(shape.events / seconds),
        "ratio": round(statistics.median(ratios), 3),
        "ratios": [round(ratio, 3) for ratio in ratios],
        "cpu": middle.cpu,
        "worker_rss_mb": round(max(meter.worker_rss for meter in rounds) / 1e6),
        "wanted": {"ratio": shape.reach, "seconds": shape.most_seconds},
    }


def _print(shape: Shape, result: dict[str, Any]) -> None:
    table = Table(title=f"{shape.name}: {shape.title}", title_justify="left")
    for column in ("seconds", "limit", "events/s", "MB/s", "ratio", "wanted", "CPU s", "worker MB"):
        table.add_column(column, justify="right")
    wanted = f">= {shape.reach}" if shape.reach else f"<= {shape.most_seconds} s" if shape.most_seconds else ""
    speed = f"{result['bytes'] / result['seconds'] / 1e6:.0f}"
    cpu = ", ".join(f"{name} {used}" for name, used in result["cpu"].items())
    table.add_row(
        f"{result['seconds']}", f"{result['limit_seconds']}", f"{result['events_per_second']:,}", speed,
        f"{result['ratio']}", wanted, cpu, f"{result['worker_rss_mb']}",
    )  # fmt: skip
    Console(width=140).print(table)


if __name__ == "__main__":
    main()
