"""The result of `inspect`, as text."""

from __future__ import annotations

from collections.abc import Iterator

from consumer.cli.text import print_table, time_text
from consumer.codec.registry import protocol_of
from consumer.model.inspection import Detected, InspectedTable, InspectResult
from consumer.model.texts import count_text, size_text


def print_inspected(result: InspectResult) -> None:
    """Totals, a line a table, the changefeed's options, what is wrong, how to start."""
    files, size = sum(t.files for t in result.tables), sum(t.bytes for t in result.tables)
    print(f"upstream    {result.upstream}")
    shown = f"{time_text(result.checkpoint_ts)} ({result.checkpoint_ts})" if result.checkpoint_ts else "not known"
    print(f"checkpoint  {shown}")
    print(f"content     {count_text(len(result.tables), 'table')}, {count_text(files, 'data file')}, {size_text(size)}")
    for name, text in _options(result.detected):
        print(f"{name:<12}{text}")
    if result.tables:
        print()
        _print_tables(result.tables)
    for finding in result.findings:
        print(f"finding: {finding}")
    if result.toml and result.tables:
        print(f"\n# changefeed.toml\n{result.toml}\n\n{result.command}")


def _options(detected: Detected) -> Iterator[tuple[str, str]]:
    dialect = detected.dialect
    if dialect is None:
        yield "rows", "none to look at"
    else:
        without = f"without commit-ts: {protocol_of(dialect).commit_ts_key} is off"
        times = "with commit-ts" if detected.commit_ts else without
        yield (
            "rows",
            f"{dialect.protocol}, {times}; lines end with {_shown(dialect.terminator)} ({detected.sampled} files read)",
        )
    levels = [f"date-separator {detected.date_separator}"] if detected.date_separator else []
    levels += [f"numbers of {detected.file_index_digit} digits"] if detected.file_index_digit else []
    levels += {True: ["a partition level"], False: ["no partition level"], None: []}[detected.partition_separator]
    levels += ["dispatcher ids (enable-table-across-nodes)"] if detected.across_nodes else []
    levels += ["table ids (use-table-id-as-path)"] if detected.table_ids else []
    if levels:
        yield "paths", ", ".join(levels)
    yield "written by", f"TiCDC's {detected.architecture} architecture" if detected.architecture else "not told"


def _shown(terminator: bytes) -> str:
    return repr(terminator).removeprefix("b").strip("'")


def _print_tables(tables: tuple[InspectedTable, ...]) -> None:
    with_times = any(table.first_ts is not None for table in tables)
    headings = ["table", "versions", "DDL", "files", "bytes", "partitions", "dispatchers", "dates", ""]
    rows = []
    for table in tables:
        dates = " to ".join(dict.fromkeys(filter(None, (table.first_date, table.last_date))))
        row = [str(table.table), f"{table.versions:,}", f"{table.ddl:,}", f"{table.files:,}", size_text(table.bytes)]
        row += [_count(table.partitions), _count(table.dispatchers), dates, "" if table.exists else "dropped"]
        rows.append(row + [_time(table.first_ts), _time(table.last_ts)] * with_times)
    print_table([*headings, *["first row", "last row"] * with_times], rows, numbers=range(1, 7))


def _count(number: int) -> str:
    return f"{number:,}" if number else ""


def _time(tso: int | None) -> str:
    return time_text(tso) if tso else ""
