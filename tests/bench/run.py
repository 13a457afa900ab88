"""The benchmark: each shape beside its limit, in interleaved pairs. ``python -m tests.bench.run [A,B,C,..]``.

Measured when named: ``E1,E5,E20`` (1,000 to 20,000 tables), ``F5`` and ``F5S`` (nothing new in 5,000 tables, on disk
and S3), ``AP`` (A from cold), ``WTXN`` (one transaction of 1 M rows), ``X`` (a standalone cluster), ``V`` (`verify`),
``DA,DC,DE`` and ``IA,IC,IE`` (A, C and E into Delta and Iceberg, beside a plain job of PySpark), ``CS`` (the state of C
by the data source), ``L`` (live, for ``--minutes``) and ``LAG`` (one change at a time).
Speeds are ratios of one run: machines differ and are noisy. Results are kept in ``build/bench`` as JSON and a chart.
"""

from __future__ import annotations

import argparse
import gc
import json
import statistics
import tempfile
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from consumer.cli.main import COLLECT_AFTER
from consumer.spark.session import start_session
from consumer.spark.settings import SparkSettings
from tests.bench.chart import draw
from tests.bench.discovery import DISCOVERY_FILES, measure_discovery
from tests.bench.lag import measure_lag
from tests.bench.live import measure_live
from tests.bench.meter import Meter
from tests.bench.sample_consumer import seconds_of_sample
from tests.bench.shapes import MORE, SHAPES, Shape
from tests.bench.warm import WarmLoader
from tests.servers import MariaDb, mariadb_template

RESULTS = Path("build/bench")
_BACKLOG_ROWS = 5_000_000
_ALONE = ("D", "L", "LAG")
"""Shapes that are measured beside nothing."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("shapes", nargs="?", default=",".join([*SHAPES, "D"]))
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--scale", type=float, default=1.0, help="a part of the rows, for a quick look")
    parser.add_argument("--minutes", type=float, default=10.0, help="of shape L")
    parser.add_argument("--changes", type=int, default=200, help="of shape LAG")
    parser.add_argument("--idle", type=int, default=1000, help="tables of shape LAG that do not change")
    parser.add_argument("--look", default="200ms", help="--flush-interval of shape LAG")
    parser.add_argument("--sample-consumer", type=Path, help="the binary of TiCDC's sample consumer, to run beside")
    args = parser.parse_args()
    gc.set_threshold(*COLLECT_AFTER)  # as the program has it
    names = args.shapes.split(",")
    if unknown := [name for name in names if name not in {*SHAPES, *MORE, *_ALONE}]:
        parser.error(f"no shape {', '.join(unknown)}; there are {', '.join([*SHAPES, *MORE, *_ALONE])}")
    results: dict[str, Any] = {"D": measure_discovery(int(DISCOVERY_FILES * args.scale))} if "D" in names else {}
    with tempfile.TemporaryDirectory(prefix="bench-") as work:
        server = MariaDb(mariadb_template(Path(work)), ["--innodb-buffer-pool-size=2G", "--innodb-log-file-size=1G"])
        server.start()
        try:
            if "L" in names:
                results["L"] = measure_live(Path(work), server, args.minutes, int(_BACKLOG_ROWS * args.scale))
                Console(width=140).print(results["L"])
            if "LAG" in names:
                results["LAG"] = measure_lag(Path(work), server, args.changes, args.idle, args.look)
                Console(width=140).print(results["LAG"])
            paired = [name for name in names if name not in _ALONE]
            if paired:
                results |= _paired(paired, Path(work), server, args)
        finally:
            server.stop()
    RESULTS.mkdir(parents=True, exist_ok=True)
    out = RESULTS / f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}.json"
    out.write_text(json.dumps(results, indent=1))
    print("Kept in", *[out, *draw(results, out)])


def _paired(names: Sequence[str], work: Path, server: MariaDb, args: argparse.Namespace) -> dict[str, Any]:
    spark = SparkSettings("local[*]")
    started = time.monotonic()
    session = start_session(spark)
    session.spark.range(2).mapInArrow(lambda batches: batches, "id long").collect()
    results: dict[str, Any] = {"spark_start_seconds": round(time.monotonic() - started, 1)}
    print(f"Spark's start: {results['spark_start_seconds']} s (not counted below)")
    loader = WarmLoader(spark)
    try:
        for name in names:
            shape = {**SHAPES, **MORE}[name](work, server, loader, args.scale)
            results[name] = _measure(shape, args.pairs, args.sample_consumer)
            _print(shape, results[name])
    finally:
        session.close()
    return results


def _measure(shape: Shape, pairs: int, sample: Path | None) -> dict[str, Any]:
    size = shape.build()
    shape.before_round()
    shape.round()
    if shape.final is not None and shape.there() != shape.final:
        raise SystemExit(f"shape {shape.name}: {shape.there()} rows arrived, not {shape.final}")
    rounds, limits = [], []
    for _ in range(pairs):
        shape.before_limit()
        with Meter(shape.server.pid, shape.limit_pid) as limit:
            shape.limit()
        shape.before_round()
        with Meter(shape.server.pid, shape.round_pid) as meter:
            shape.round()
        rounds.append(meter)
        limits.append(limit)
    shape.end()
    samples = {}
    if sample is not None and shape.final is not None:
        shape.before_round()
        samples["sample_seconds"] = round(seconds_of_sample(sample, shape), 2)
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
        **samples,
        "ratio": round(statistics.median(ratios), 3),
        "ratios": [round(ratio, 3) for ratio in ratios],
        "cpu": middle.cpu,
        "limit_cpu": min(limits, key=lambda meter: meter.seconds).cpu,
        "driver_rss_mb": round(max(meter.driver_rss for meter in rounds) / 1e6),
        "worker_rss_mb": round(max(meter.worker_rss for meter in rounds) / 1e6),
        "wanted": {"ratio": shape.reach, "seconds": shape.most_seconds},
    }


def _print(shape: Shape, result: dict[str, Any]) -> None:
    table = Table(title=f"{shape.name}: {shape.title}", title_justify="left")
    for column in ("seconds", "limit", "sample", "events/s", "MB/s", "ratio", "wanted", "CPU s", "its CPU s", "MB"):
        table.add_column(column, justify="right")
    wanted = f">= {shape.reach}" if shape.reach else f"<= {shape.most_seconds} s" if shape.most_seconds else ""
    speed = f"{result['bytes'] / result['seconds'] / 1e6:.0f}"
    cpu, its = (", ".join(f"{n} {used}" for n, used in result[of].items() if used) for of in ("cpu", "limit_cpu"))
    memory = f"driver {result['driver_rss_mb']}, worker {result['worker_rss_mb']}"
    sample = str(result.get("sample_seconds", ""))
    table.add_row(
        f"{result['seconds']}", f"{result['limit_seconds']}", sample, f"{result['events_per_second']:,}", speed,
        f"{result['ratio']}", wanted, cpu, its, memory,
    )  # fmt: skip
    Console(width=160).print(table)


if __name__ == "__main__":
    main()
