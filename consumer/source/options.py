"""Checks the options of a read."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeVar

from consumer.config import values
from consumer.config.load import load
from consumer.config.rules import TableModeRule
from consumer.config.sentences import one_of
from consumer.config.settings import Settings
from consumer.errors import BadConfig
from consumer.model.texts import did_you_mean
from consumer.model.times import MAX_TSO
from consumer.source.columns import BEFORE, META_COLUMNS, PLACE_COLUMNS

_CHANGEFEED = {
    "tz": "tz",
    "date-separator": "date_separator",
    "terminator": "terminator",
    "file-index-width": "file_index_width",
    "checkpoint-ts": "checkpoint_ts",
    "accept-gap-in": "accept_gap_in",
    "accept-key-loss": "accept_key_loss",
    "accept-timestamp-key": "accept_timestamp_key",
    "date-order": "date_order",
    "never-split": "never_split",
}
"""The settings of the program that are also options of a read."""
_OWN = (
    "path", "table", "tables", "mode", "from-ts", "to-ts", "config", "columns", "before", "partition-bytes",
    "zero-dates", "max-bytes-per-trigger", "accept-statements",
)  # fmt: skip
OPTIONS = (*_OWN, *_CHANGEFEED)
"""The names of all options."""
_EACH_CHANGE = (TableModeRule(tables=("*.*",), mode="append"),)
_SHARE = 64 << 20
_LISTS = ("accept_gap_in", "never_split")


_Read = TypeVar("_Read")


class Mode(StrEnum):
    CHANGES = "changes"
    STATE = "state"


@dataclass(frozen=True)
class ReadOptions:
    """What a read asks for. `first` and `last` are moments as TSOs, 0 and None where they were not given; `table`
    is "" where rules name several; `columns` the only ones wanted, () for all; `before`: the values before each change
    too.
    `trigger_bytes` is 0 where a batch of a stream is not bounded."""

    settings: Settings
    table: str
    mode: Mode
    first: int
    last: int | None
    columns: tuple[str, ...]
    before: bool
    partition_bytes: int
    zero_dates: str
    trigger_bytes: int
    accept_statements: int = 0
    """Up to this commit-ts a statement does not end a stream for its effect on rows, which no change shows."""
    where: str = ""
    """An expression: only changes that it is TRUE of, by the values that they found or left."""
    follows: bool = False
    """Whether the table is the one that a stream follows, whoever had its name before."""
    of_command: bool = False
    """Whether a command asks, and not Spark: each change says its file and its line then, moments are flags, and there
    is no choice of columns."""

    @property
    def meta(self) -> frozenset[str]:
        """The names of the columns that a read gives beside those of the table."""
        if self.mode is not Mode.CHANGES:
            return frozenset()
        found = META_COLUMNS if self.before else META_COLUMNS - {BEFORE}
        return found | PLACE_COLUMNS if self.of_command else found

    @classmethod
    def of(cls, given: Mapping[str, str]) -> ReadOptions:
        """Returns the options that Spark passes. Raises BadConfig."""
        options = {_key(name): text for name, text in _of_format(given).items()}
        _check_names(options)
        mode = Mode(_checked("mode", one_of, options.get("mode", Mode.CHANGES), tuple(Mode)))
        settings = _settings(options, mode)
        first, last = (
            settings.tso(name, options[name]) if options.get(name) else None for name in ("from-ts", "to-ts")
        )
        if mode is Mode.STATE and first is not None:
            raise BadConfig(
                "from-ts is for mode changes: the state of a table is as of one moment", hint="give that with to-ts"
            )
        if first is not None and last is not None and last <= first:
            raise BadConfig(f"to-ts ({last}) is not after from-ts ({first})")
        most, accepted = options.get("max-bytes-per-trigger"), options.get("accept-statements")
        return cls(
            settings,
            options.get("table", ""),
            mode,
            first or 0,
            last,
            tuple(name.strip() for name in options.get("columns", "").split(",") if name.strip()),
            _checked("before", values.boolean, options.get("before", "false")),
            _checked("partition-bytes", values.size, options.get("partition-bytes", "32MiB")),
            _checked("zero-dates", one_of, options.get("zero-dates", "null"), ("null", "error")),
            _checked("max-bytes-per-trigger", values.size, most) if most else 0,
            MAX_TSO if accepted == "all" else settings.tso("accept-statements", accepted) if accepted else 0,
        )


def check_stream(asked: ReadOptions) -> None:
    """Raises BadConfig unless a stream can have these options."""
    if not asked.table or asked.mode is not Mode.CHANGES:
        raise BadConfig("a stream has the changes of one table", hint="give table, and leave tables and mode out")


def story(settings: Settings, table: str, first: int, last: int | None, where: str) -> ReadOptions:
    """Returns the options of a command that reads all changes of a table, with the old values. Raises BadConfig."""
    if last is not None and last <= first:
        raise BadConfig(f"--to-ts ({last}) is not after --from-ts ({first})")
    own = _of_upstream(settings, Mode.CHANGES)
    return ReadOptions(own, table, Mode.CHANGES, first, last, (), True, _SHARE, "null", 0, where=where, of_command=True)


def _of_format(given: Mapping[str, str]) -> dict[str, str]:
    """Returns the options without Spark's own. Raises BadConfig for the properties of a catalog's table: Spark 4.0 and
    4.1 pass them when the table is created, and not when it is read."""
    if "provider" in given:
        raise BadConfig(
            "CREATE TABLE cannot take the format ticdc: Spark passes no options of such a table on when it is read",
            hint="write CREATE TEMPORARY VIEW name USING ticdc OPTIONS (..); docs/spark.md",
        )
    return {name: text for name, text in given.items() if not name.startswith("spark.")}


def _key(name: str) -> str:
    """Returns the name of an option with its hyphens. Spark's own options are written without them, so both are
    taken."""
    known = {option.replace("-", ""): option for option in OPTIONS}
    return known.get(name.lower().replace("-", "").replace("_", ""), name)


def _check_names(options: Mapping[str, str]) -> None:
    for name in options:
        if name not in OPTIONS:
            raise BadConfig(
                f"{name} is no option of the format ticdc{did_you_mean(name, OPTIONS)}",
                hint="docs/spark.md lists them",
            )
    if not options.get("path"):
        raise BadConfig(
            "no storage is given", hint='give its URI, as .load("s3://bucket/cdc?protocol=canal-json"); docs/spark.md'
        )
    if bool(options.get("table")) == bool(options.get("tables")):
        raise BadConfig(
            "give either table, the name of one table, or tables, rules as shop.*",
            hint='as .option("table", "shop.orders")',
        )


def _settings(options: Mapping[str, str], mode: Mode) -> Settings:
    """Returns the settings of a run that would read the same storage. Raises BadConfig."""
    flags: dict[str, object] = {field: options[name] for name, field in _CHANGEFEED.items() if options.get(name)}
    flags |= {field: str(flags[field]).split(",") for field in _LISTS if field in flags}
    flags["upstream_uri"] = options["path"]
    if options.get("tables"):
        flags["tables"] = options["tables"].split(",")
    env = {name: text for name, text in os.environ.items() if not name.startswith("STORAGE_CONSUMER_")}
    settings = _of_upstream(load(flags, env, options.get("config")).settings, mode)
    if options.get("tables") and options.get("columns"):
        raise BadConfig("columns is for one table", hint="give it with table, or select in _row")
    if options.get("before") and (options.get("tables") or mode is Mode.STATE):
        raise BadConfig("before is for the changes of one table", hint="leave it out")
    return settings


def _of_upstream(settings: Settings, mode: Mode) -> Settings:
    """Returns the settings without what they say of a target's names and columns."""
    each = _EACH_CHANGE if mode is Mode.CHANGES else ()
    return settings.model_copy(update={"routes": (), "columns": (), "table_modes": each})


def _checked(name: str, read: Callable[..., _Read], *arguments: object) -> _Read:
    try:
        return read(*arguments)
    except ValueError as problem:
        raise BadConfig(f"{name} is refused: {problem}") from None
