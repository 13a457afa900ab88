"""A changefeed's TOML from what a storage shows: only what a consumer needs."""

from __future__ import annotations

import json
from collections.abc import Iterator

from consumer.model.inspection import Detected
from consumer.model.load import CsvFormat


def changefeed_toml(detected: Detected) -> str:
    """``[sink]``, and ``[sink.csv]`` for CSV, to be kept as a file and given with --config."""
    return "\n".join(_lines(detected))


def _lines(detected: Detected) -> Iterator[str]:
    dialect = detected.dialect
    yield "[sink]"
    if dialect is None:
        yield '# protocol = "canal-json" or "csv": there are no rows that show it'
    else:
        yield _line("protocol", dialect.protocol)
        yield _line("terminator", dialect.terminator.decode(errors="replace"))
    if detected.date_separator is not None:
        yield _line("date-separator", detected.date_separator)
    if detected.file_index_digit is not None:
        yield _line("file-index-digit", detected.file_index_digit)
    if detected.partition_separator is not None:
        yield _line("enable-partition-separator", detected.partition_separator)
    if dialect is not None and dialect.csv is not None:
        yield from _csv(dialect.csv)


def _csv(csv: CsvFormat) -> Iterator[str]:
    yield ""
    yield "[sink.csv]"
    yield _line("delimiter", csv.delimiter)
    yield _line("quote", csv.quote)
    yield _line("null", csv.null)
    yield _line("include-commit-ts", csv.include_commit_ts)
    yield _line("output-old-value", csv.output_old_value)
    yield _line("output-handle-key", csv.output_handle_key)
    yield _line("output-field-header", csv.output_field_header)
    yield _line("binary-encoding-method", csv.binary_encoding)


def _line(key: str, value: str | int | bool) -> str:
    """JSON's strings, numbers and switches are TOML's too."""
    return f"{key} = {json.dumps(value)}"
