"""Shape D: what finding new files costs on a real S3 server. ``python -m tests.bench.discovery [--files N]``.

A storage of very many old files, then rounds with ten new ones each: requests, seconds and memory of an incremental
listing, beside a walk of all keys and a walk of all directories.
"""

from __future__ import annotations

import argparse
import multiprocessing
import random
import statistics
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import psutil
from rich.console import Console
from rich.table import Table

from consumer.layout.paths import DataPath, IndexPath, render
from consumer.model.actions import Action
from consumer.model.files import Folder, Listing
from consumer.model.progress import FolderProgress, Progress
from consumer.model.times import ms_to_tso
from consumer.plan.unread import unread_files
from consumer.storage import s3
from consumer.storage.reader import ChangefeedReader
from consumer.storage.s3 import s3_client
from consumer.storage.settings import StorageSettings
from consumer.storage.spans import Spans, read_spans
from tests.s3_server import BUCKET, S3Server
from tests.support.build import ID, VALUE
from tests.support.written_files import render_schema_file

DISCOVERY_FILES = 200_000
DATES = 10
NEW_FILES = 10
ROUNDS = 5
LAST_DAY = date(2026, 3, 31)
NOW = ms_to_tso(int(time.mktime((2026, 3, 31, 12, 0, 0, 0, 0, 0))) * 1000)
VERSION = ms_to_tso(1_767_225_600_000)


@dataclass(frozen=True)
class Cost:
    requests: int
    seconds: float
    megabytes: float
    files: int
    """That the listing returned."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--files", type=int, default=DISCOVERY_FILES)
    measure_discovery(parser.parse_args().files)


def measure_discovery(files: int) -> dict[str, Any]:
    """The costs by kind of listing: for 500 tables, and for 20 tables with as many files in all."""
    server = S3Server().start()
    results = {}
    try:
        for tables in (500, 20):
            results[f"{tables} tables"] = _measure(server, tables, files // tables // DATES)
    finally:
        server.stop()
    return results


def _measure(server: S3Server, tables: int, files_a_date: int) -> dict[str, Any]:
    prefix = f"{tables} tables"
    started = time.monotonic()
    progress = _build(server, prefix, tables, files_a_date)
    built = time.monotonic() - started
    uri = server.uri(prefix)
    progress = replace(progress, upstream=StorageSettings.from_uri(uri).identity)
    listing = ChangefeedReader(StorageSettings.from_uri(uri), "day").listing(NOW)
    progress = replace(progress, folders=_all_read(listing))
    rounds = []
    rnd = random.Random(1)
    for _ in range(ROUNDS):
        new = _put_new(server, prefix, tables, progress, rnd)
        cost = _in_a_process(_incremental, uri, progress)
        found = ChangefeedReader(StorageSettings.from_uri(uri), "day").listing(NOW, progress)
        unread = [entry.file for group in found.files.values() for entry in unread_files(group, progress.folders)]
        assert {file.path for file in unread} == new
        progress = replace(progress, folders={**progress.folders, **_all_read(found)})
        rounds.append(cost)
    costs = {
        "incremental": min(rounds, key=lambda cost: cost.seconds),
        "all keys": _in_a_process(_flat, uri, progress),
        "all directories": _in_a_process(_by_directory, uri, progress),
    }
    files = tables * DATES * files_a_date
    _print(f"{files:,} old files in {tables} tables (written in {built:.0f} s), {NEW_FILES} new ones", costs, tables)
    return {name: vars(cost) for name, cost in costs.items()} | {
        "files": files,
        "active_prefixes": tables,
        "requests_by_round": [cost.requests for cost in rounds],
        "median_seconds": round(statistics.median(cost.seconds for cost in rounds), 2),
    }


def _build(server: S3Server, prefix: str, tables: int, files_a_date: int) -> Progress:
    with tempfile.TemporaryDirectory() as work:
        for number in range(tables):
            root = Path(work, prefix, f"shop/t{number:03d}")
            query = f"CREATE TABLE `t{number:03d}` (`id` INT PRIMARY KEY,`v` INT)"
            path, content = render_schema_file("shop", root.name, VERSION, (ID, VALUE), query, Action.CREATE_TABLE)
            _write(Path(work, prefix, render(path)), content)
            for day in range(DATES):
                folder = _folder(root.name, day)
                for index in range(1, files_a_date + 1):
                    _write(Path(work, prefix, render(DataPath(folder, index))), b"{}\r\n")
                _write(Path(work, prefix, render(IndexPath(folder))), b"CDC.json\n")
        server.copy_directory(Path(work))
    return Progress(applied_ts=NOW)


def _folder(table: str, day: int) -> Folder:
    return Folder(f"shop/{table}", VERSION, date=str(LAST_DAY - timedelta(days=DATES - 1 - day)))


def _write(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)


def _all_read(listing: Listing) -> dict[Folder, FolderProgress]:
    last = {file.folder: file for files in listing.files.values() for file in files}
    return {folder: FolderProgress(file.index, file.size, file.stamp) for folder, file in last.items()}


def _put_new(server: S3Server, prefix: str, tables: int, progress: Progress, rnd: random.Random) -> set[str]:
    new = set()
    for number in rnd.sample(range(tables), NEW_FILES):
        folder = _folder(f"t{number:03d}", DATES - 1)
        new.add(render(DataPath(folder, progress.folders[folder].done + 1)))
    server.put_all({f"{prefix}/{path}": b"{}\r\n" for path in new})
    return new


def _in_a_process(look: Callable[[StorageSettings, Progress], int], uri: str, progress: Progress) -> Cost:
    """In a fresh process, so that its memory is its own."""
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        return pool.submit(_counted, look, uri, progress).result()


def _counted(look: Callable[[StorageSettings, Progress], int], uri: str, progress: Progress) -> Cost:
    settings = StorageSettings.from_uri(uri)
    requests: list[str] = []
    client = s3_client(settings)
    call = client.call

    def counting(operation: str, **request: Any) -> dict[str, Any]:
        requests.append(operation)
        return call(operation, **request)

    client.call = counting
    before = psutil.Process().memory_info().rss
    Path("/proc/self/clear_refs").write_text("5")  # begins the peak again
    started = time.monotonic()
    files = look(settings, progress)
    seconds = time.monotonic() - started
    megabytes = (_peak() - before) / 1e6
    return Cost(len(requests), round(seconds, 2), round(megabytes, 1), files)


def _peak() -> int:
    """The most memory since the peak was begun again, in bytes."""
    lines = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return int(lines["VmHWM"].split()[0]) * 1024


def _incremental(settings: StorageSettings, progress: Progress) -> int:
    return len(s3.S3Files(settings).scan(read_spans(progress)))


def _flat(settings: StorageSettings, progress: Progress) -> int:
    return len(s3.S3Files(settings).scan(Spans()))


def _by_directory(settings: StorageSettings, progress: Progress) -> int:
    client = s3_client(settings)
    requests, files = [{"Prefix": f"{settings.prefix}/"}], 0
    while requests:
        request = requests.pop()
        page = client.call("list_objects_v2", Bucket=BUCKET, Delimiter="/", **request)
        files += len(page.get("Contents", ()))
        requests += [{"Prefix": found["Prefix"]} for found in page.get("CommonPrefixes", ())]
        if page["IsTruncated"]:
            requests.append({**request, "ContinuationToken": page["NextContinuationToken"]})
    return files


def _print(title: str, costs: dict[str, Cost], prefixes: int) -> None:
    table = Table(title=f"D: {title}", title_justify="left")
    for column in ("listing", "requests", "a table", "seconds", "MB", "files"):
        table.add_column(column, justify="left" if column == "listing" else "right")
    for name, cost in costs.items():
        a_table = f"{cost.requests / prefixes:.2f}"
        table.add_row(name, f"{cost.requests:,}", a_table, f"{cost.seconds}", f"{cost.megabytes}", f"{cost.files:,}")
    Console().print(table)


if __name__ == "__main__":
    main()
