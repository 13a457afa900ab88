"""How cost grows: what the program takes at three sizes of one thing, each four times the one before, as whole
processes, mostly on a DuckDB file. ``python -m tests.bench.growth [NAME,..] [--scale PART]`` prints the table of
docs/speed.md, and keeps JSON and a chart in ``build/bench``."""

from __future__ import annotations

import argparse
import itertools
import json
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from consumer.model.actions import Action
from consumer.model.columns import Column
from tests.bench.cost import cost_of
from tests.bench.generate import VERSION, Storage
from tests.bench.rows import SYSBENCH, inserts
from tests.bench.run import RESULTS
from tests.servers import MariaDb, mariadb_template
from tests.spark_cluster import SparkCluster

_PROGRAM = str(Path(sys.executable).with_name("storage-consumer"))
_IN_PROCESS = ("--in-process-bytes", "64MiB")
"""Small loads start no Spark, whose start would hide what a table costs."""
_ROWS_OF_WORKERS = 3_000_000
Part = tuple[str, list[str]]
"""What is measured, and the command that does it."""


@dataclass(frozen=True)
class Growth:
    """`parts` brings a storage below the folder to a size, and then does one thing after the other with it."""

    title: str
    sizes: tuple[int, ...]
    parts: Callable[[Path, int], Iterator[Part]]


def _once(folder: Path, *flags: str, target: str = "") -> list[str]:
    uris = ["--upstream-uri", f"file://{folder}/cdc?protocol=canal-json"]
    uris += ["--downstream-uri", target or f"duckdb:///{folder}/replica.duckdb"]
    return [_PROGRAM, "once", *uris, "--tz", "UTC", *flags]


def _inserted(folder: Path, rows: int, **written: int) -> Storage:
    """A storage of one table, whose rows came by inserts; `written` as of Storage."""
    storage = Storage(folder / "cdc", **written)
    storage.table("t")
    storage.rows("t", inserts(rows))
    storage.publish()
    return storage


def _tables(folder: Path, size: int) -> Iterator[Part]:
    storage = Storage(folder / "cdc")
    names = [f"t{number:05d}" for number in range(size)]
    for name in names:
        storage.table(name)
    storage.publish(storage.ts + size + 1)
    yield "CREATE TABLE runs", _once(folder)
    storage.ts += size + 1
    for name in names:
        storage.rows(name, inserts(1))
    storage.publish()
    yield "each table gets its first row", _once(folder, *_IN_PROCESS)
    yield "nothing is new", _once(folder)
    storage.rows(names[0], itertools.islice(inserts(2), 1, None))
    storage.publish()
    yield "one table has a new row", _once(folder, *_IN_PROCESS)


def _statements(folder: Path, size: int) -> Iterator[Part]:
    storage = Storage(folder / "cdc")
    storage.table("t")
    added = Column("more", "INT", length=11)
    for number in range(size):
        columns, does = ((*SYSBENCH.columns, added), "ADD COLUMN `more` INT") if number % 2 == 0 else (
            SYSBENCH.columns, "DROP COLUMN `more`",
        )  # fmt: skip
        action = Action.ADD_COLUMN if number % 2 == 0 else Action.DROP_COLUMN
        storage.statement("t", f"ALTER TABLE `t` {does}", action, columns)
    storage.publish()
    yield "ALTER TABLE runs", _once(folder)
    yield "nothing is new", _once(folder)
    storage.statement("t", "ALTER TABLE `t` ADD COLUMN `last` INT", Action.ADD_COLUMN, (*SYSBENCH.columns, added))
    storage.publish()
    yield "one more runs", _once(folder)


def _files(folder: Path, size: int) -> Iterator[Part]:
    _inserted(folder, size, file_bytes=1)
    yield "all are read", _once(folder)
    yield "nothing is new", _once(folder)


def _rows(folder: Path, size: int) -> Iterator[Part]:
    _inserted(folder, size)
    yield "all are inserted", _once(folder)
    server = MariaDb(mariadb_template(folder), ["--innodb-buffer-pool-size=2G", "--innodb-log-file-size=1G"]).start()
    try:
        yield "all are inserted into a MariaDB", _once(folder, target=server.url())
    finally:
        server.stop()


def _sent_again(folder: Path, size: int) -> Iterator[Part]:
    storage = _inserted(folder, size)
    yield "", _once(folder)
    storage.ts = VERSION
    storage.rows("t", inserts(size + 1))
    storage.publish()
    yield "all come again, and one new row", _once(folder)


def _one_transaction(folder: Path, size: int) -> Iterator[Part]:
    _inserted(folder, size, transaction=1 << 60)
    yield "all are inserted", _once(folder)


def _read(folder: Path, size: int) -> Iterator[Part]:
    _inserted(folder, size)
    for what, how in (("spark.read.json", "json"), ("`mode` is changes", "changes"), ("`mode` is state", "state")):
        yield what, [sys.executable, "-m", "tests.bench.reading", how, f"{folder}/cdc", "t"]


def _workers(folder: Path, size: int) -> Iterator[Part]:
    """The seconds are what this shows: executors are no processes of the program."""
    _inserted(folder, _ROWS_OF_WORKERS)
    with SparkCluster(workers=size) as cluster:
        yield f"{_ROWS_OF_WORKERS:,} rows are inserted", _once(folder, "--master", cluster.url)


GROWTHS = {
    "tables": Growth("tables", (1250, 5000, 20_000), _tables),
    "statements": Growth("statements of one table", (1250, 5000, 20_000), _statements),
    "files": Growth("files of one table, of one row each", (6250, 25_000, 100_000), _files),
    "rows": Growth("rows of one table", (1_000_000, 4_000_000, 16_000_000), _rows),
    "again": Growth("rows that TiCDC writes again", (250_000, 1_000_000, 4_000_000), _sent_again),
    "transaction": Growth("rows of one transaction", (250_000, 1_000_000, 4_000_000), _one_transaction),
    "workers": Growth("workers of a cluster, of one core each", (1, 2), _workers),
    "read": Growth("rows of one table, read by Spark", (250_000, 1_000_000, 4_000_000), _read),
}


def main() -> None:
    parser = argparse.ArgumentParser(allow_abbrev=False, description=__doc__)
    parser.add_argument("names", nargs="?", default=",".join(GROWTHS), help="of %(default)s")
    parser.add_argument("--scale", type=float, default=1.0, help="a part of the sizes, for a quick look")
    args = parser.parse_args()
    names = args.names.split(",")
    if unknown := [name for name in names if name not in GROWTHS]:
        parser.error(f"no growth {', '.join(unknown)}; there are {', '.join(GROWTHS)}")
    results = {}
    print(*_HEAD, sep="\n")
    for name in names:
        results[name] = _measured(GROWTHS[name], args.scale)
        print(*_lines(GROWTHS[name].title, results[name]), sep="\n", flush=True)
    RESULTS.mkdir(parents=True, exist_ok=True)
    out = RESULTS / f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}.growth.json"
    out.write_text(json.dumps(results, indent=1))
    print("Kept in", out, _drawn(results, out))


def _measured(growth: Growth, scale: float) -> list[dict[str, Any]]:
    """A part at a size each, in the order of the sizes."""
    found = []
    for size in (max(1, int(size * scale)) for size in growth.sizes):
        folder = Path(tempfile.mkdtemp(prefix="growth-"))
        try:
            for part, command in growth.parts(folder, size):
                found.append({"part": part, "size": size, **asdict(cost_of(command))})
        finally:
            shutil.rmtree(folder)
    return [one for one in found if one["part"]]


_HEAD = (
    "| what there is | what is done | sizes | CPU seconds | from one size to the next | seconds | memory, MB |",
    "| --- | --- | --- | --- | --- | --- | --- |",
)


def _lines(title: str, found: Sequence[dict[str, Any]]) -> Iterator[str]:
    for part in dict.fromkeys(one["part"] for one in found):
        sizes = [one for one in found if one["part"] == part]
        cpu = [one["cpu"] for one in sizes]
        cells = (
            title,
            part,
            " · ".join(f"{one['size']:,}" for one in sizes),
            " · ".join(f"{seconds:.1f}" for seconds in cpu),
            " · ".join(f"{later / earlier:.1f}" for earlier, later in itertools.pairwise(cpu)),
            " · ".join(f"{one['seconds']:.0f}" for one in sizes),
            " · ".join(f"{one['memory'] / 1e6:.0f}" for one in sizes),
        )
        yield f"| {' | '.join(cells)} |"


def _drawn(results: dict[str, list[dict[str, Any]]], out: Path) -> Path:
    """CPU over size, a line for each thing that is done; a dotted line grows as the size does."""
    figure = Figure(figsize=(9, 6))
    axes = figure.subplots()
    for (name, found), marker in zip(results.items(), itertools.cycle("osD^vP*X")):
        for part in dict.fromkeys(one["part"] for one in found):
            line = [(one["size"], one["cpu"]) for one in found if one["part"] == part]
            axes.plot(*zip(*line, strict=True), marker=marker, label=f"{GROWTHS[name].title}: {part}")
    axes.set_xscale("log")
    axes.set_yscale("log")
    least, most = axes.get_xlim()
    for height in (0.001, 0.01, 0.1, 1.0, 10.0, 100.0):
        axes.plot([least, most], [height, height * most / least], ":", color="#c0c8d0", linewidth=0.8, zorder=0)
    axes.set_xlim(least, most)
    axes.set_ylim(0.3, 5 * max(one["cpu"] for found in results.values() for one in found))
    axes.set_xlabel("size")
    axes.set_ylabel("CPU seconds of all processes (less is better)")
    axes.legend(fontsize=6, loc="upper left", ncols=2)
    axes.spines[["top", "right"]].set_visible(False)
    figure.tight_layout()
    path = out.with_suffix(".png")
    figure.savefig(path, dpi=150)
    return path


if __name__ == "__main__":
    main()
