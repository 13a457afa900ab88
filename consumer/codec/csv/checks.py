"""Checks of the CSV options: which must fit together, and which must be known."""

from __future__ import annotations

from collections.abc import Collection

from consumer.codec.csv.form import LEFT_OPEN, csv_of, family_of, fault_of
from consumer.codec.protocol import Undecided
from consumer.errors import BadConfig
from consumer.model.columns import Family
from consumer.model.load import Dialect

_ENCODING = Undecided(
    lambda column: family_of(column) is Family.BINARY,
    "the binary values of {column} can be base64 or hex, and binary-encoding-method is not set",
    "give the changefeed's own TOML with --config, or set binary-encoding-method in its [sink.csv], or"
    " STORAGE_CONSUMER_CSV_BINARY_ENCODING_METHOD; TiCDC's default is base64",
)
_NULL = Undecided(
    lambda column: column.nullable,
    "{column} may be NULL, and null is not set: without quotes a text can look like NULL",
    "give the changefeed's own TOML with --config, or set null in its [sink.csv], or"
    " STORAGE_CONSUMER_CSV_NULL; TiCDC's default is \\N",
)


def check(dialect: Dialect, unproven: Collection[str]) -> None:
    """Raises BadConfig for options under which the ends of rows are ambiguous, and for options that are missing."""
    if fault := fault_of(csv_of(dialect), dialect.terminator):
        raise BadConfig(
            f"the changefeed's [sink.csv] does not define where cells and rows end: {fault}",
            hint="give the changefeed's own values; if these are they, change them in the changefeed and have TiCDC"
            " write the files again",
        )
    if open_key := next((key for key in unproven if key not in LEFT_OPEN), ""):
        raise BadConfig(
            f"{open_key} is not set, and the file's [consumer] unproven says that the storage does not show it",
            hint=f"set {open_key} in the file as the changefeed has it",
        )


def undecided(dialect: Dialect, unproven: Collection[str]) -> tuple[Undecided, ...]:
    """A wrong one makes other values of the same bytes."""
    null_open = "null" in unproven and not csv_of(dialect).quote
    return (_ENCODING,) * ("binary-encoding-method" in unproven) + (_NULL,) * null_open


def key_loss(dialect: Dialect) -> BadConfig | None:
    """If TiCDC does not split updates of keys, old keys are lost, or rows that exchange keys."""
    csv = csv_of(dialect)
    if csv.output_old_value and csv.include_commit_ts:
        return None
    key = "output-old-value"
    loss = "CSV updates do not contain their old key: rows under old keys would stay"
    if csv.output_old_value:
        key = "include-commit-ts"
        loss = "rows that exchange their keys in one transaction look the same as deleted rows"
    return BadConfig(
        f"with output-raw-change-event=true and without {key}, {loss}",
        hint=f"set {key}=true in the changefeed's [sink.csv], or output-raw-change-event=false, and have TiCDC write"
        " the files again; where keys never change, go on with --accept-key-loss",
    )
