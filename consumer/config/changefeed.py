"""The changefeed's own TOML: which keys TiCDC knows, and which of them matter to a consumer."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from consumer.codec import PROTOCOLS, protocol_of
from consumer.config.settings import Settings
from consumer.config.spelling import file_key_of, key_of
from consumer.errors import BadConfig
from consumer.model.texts import nearest
from consumer.results import Detected

_OURS = "[consumer]"
_ALIKE = 0.8
"""Above this similarity an unknown key counts as mistyped, below it as a key of another version."""


@dataclass(frozen=True, slots=True)
class FileValues:
    """The contents of a file: raw values by setting, the key of each, and ignored keys. `effects` are sentences about
    keys that change what TiCDC writes, which a consumer cannot undo. `is_changefeed`: it has keys other than those of a
    consumer."""

    values: Mapping[str, Any] = field(default_factory=dict)
    places: Mapping[str, str] = field(default_factory=dict)
    ignored: tuple[str, ...] = ()
    effects: tuple[str, ...] = ()
    is_changefeed: bool = False


def read_changefeed(path: str) -> FileValues:
    """Reads the settings of a changefeed TOML, with our own [consumer] table in it. Raises BadConfig."""
    return file_values(_parse(path), path)


def file_values(body: Mapping[str, Any], path: str) -> FileValues:
    """Returns the settings in the body of such a file; `path` is its name in messages. Raises BadConfig."""
    sink, filters, consumer_table = (_table(body, name, path) for name in ("sink", "filter", "consumer"))
    storage = _table(sink, "cloud-storage-config", path, "sink.")
    keys_of = {f"[sink.{p.name}]": [o.key for o in p.own_options] for p in PROTOCOLS.values() if p.own_options}
    options = {table: _table(sink, table[6:-1], path, "sink.") for table in keys_of}
    for table, keys in keys_of.items():
        _check_options(table, options[table], keys, path)
    ignored = [
        *_unknown("", body, CHANGEFEED_KEYS, path),
        *_unknown("[sink] ", sink, {*SINK_KEYS, *(table[6:-1] for table in keys_of)}, path),
        *_unknown("[sink.cloud-storage-config] ", storage, CLOUD_STORAGE_KEYS, path),
        *_unknown("[filter] ", filters, FILTER_KEYS, path),
    ]
    tables = {"": body, "[sink]": sink, **options, "[sink.cloud-storage-config]": storage}
    values = {**_changefeed_values(tables, filters), **_own(consumer_table, path)}
    places = {field: file_key_of(field) for field in values} | _places(values, consumer_table)
    effects = tuple(_effects({"[filter]": filters, "[sink]": sink}))
    return FileValues(values, places, tuple(ignored), effects, bool(set(body) - {"consumer"}))


def _effects(tables: Mapping[str, Mapping[str, Any]]) -> list[str]:
    values = {table_and_key: tables[table_and_key[0]].get(table_and_key[1]) for table_and_key in EFFECTS}
    if isinstance(rules := values["[sink]", "dispatchers"], list):
        values["[sink]", "dispatchers"] = [rule for rule in rules if set(rule) - QUEUE_KEYS]
    return [f"{table} {key}: {EFFECTS[table, key]}" for (table, key), value in values.items() if value]


def _places(values: Mapping[str, Any], own: Mapping[str, Any]) -> dict[str, str]:
    """Returns the places of our settings that have another name in the changefeed."""
    names_in_changefeed = {"tables": "[filter] rules", "file_index_width": "[sink] file-index-digit"}
    return {
        field: place for field, place in names_in_changefeed.items() if field in values and key_of(field) not in own
    }


def _parse(path: str) -> Mapping[str, Any]:
    try:
        return tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as problem:
        raise BadConfig(
            f"config: {path} cannot be read ({problem.strerror})", hint="Give --config the changefeed's TOML file."
        ) from problem
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as problem:
        raise BadConfig(f"config: {path} is not TOML: {problem}") from problem


def _table(body: Mapping[str, Any], name: str, path: str, parent: str = "") -> Mapping[str, Any]:
    table = body.get(name, {})
    if not isinstance(table, dict):
        raise BadConfig(f"config: {path}: {parent}{name} must be a table, written [{parent}{name}]")
    return table


def _unknown(place: str, table: Iterable[str], known_keys: Collection[str], path: str) -> list[str]:
    """Returns the keys of `table` that TiCDC does not know. Raises BadConfig for one that looks like a key it knows."""
    unknown = [key for key in table if key not in known_keys]
    for key in unknown:
        close = nearest(key, known_keys, _ALIKE)
        if close:
            raise BadConfig(f"config: {path}: {place}{key} is not a key of a changefeed; did you mean {close}?")
    return [f"{place}{key}" for key in unknown]


def _check_options(table: str, keys: Iterable[str], known_keys: Sequence[str], path: str) -> None:
    """Raises BadConfig for a key that is not known: all of them say how files are written, also one of a later
    release."""
    for key in keys:
        if key not in known_keys:
            close = nearest(key, known_keys)
            suggestion = f"did you mean {close}?" if close else f"known are {', '.join(sorted(known_keys))}"
            raise BadConfig(f"config: {path}: {table} {key} is not a key of a changefeed; {suggestion}")


def _own(own: Mapping[str, Any], path: str) -> dict[str, Any]:
    ours = ((file_key_of(field), field) for field in Settings.model_fields)
    fields = {key.removeprefix(f"{_OURS} "): field for key, field in ours if key.startswith(_OURS)}
    for key in own:
        if key not in fields:
            close = nearest(key, fields)
            suggestion = f"did you mean {close}?" if close else f"known are {', '.join(sorted(fields))}"
            raise BadConfig(f"config: {path}: [consumer] {key} is not a setting; {suggestion}")
    return {fields[key]: value for key, value in own.items()}


def _changefeed_values(tables: Mapping[str, Mapping[str, Any]], filters: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the settings under the changefeed's own keys; `tables` are its tables by their written names."""
    places = {field: file_key_of(field).rpartition(" ") for field in Settings.model_fields}
    settings = {
        field: tables[table][key]
        for field, (table, _, key) in places.items()
        if table != _OURS and key in tables[table]
    }
    width = tables["[sink]"].get("file-index-digit")
    if isinstance(width, int) and 6 <= width <= 20:
        # TiCDC itself falls back to its default for any other value, so a consumer has to as well.
        settings["file_index_width"] = width
    if "rules" in filters:
        settings["tables"] = filters["rules"]
    return settings


# What a storage shows, written as a changefeed's file

_NO_SETTING = ("date-separator", "enable-partition-separator")
"""Keys without which a consumer uses the paths."""


def changefeed_toml(detected: Detected) -> str:
    """Returns ``[sink]``, and ``[sink.csv]`` for CSV, to be kept as a file and given with --config. What the files do
    not prove is a comment, and is named in [consumer]: it has no default until it is set."""
    open_keys = [key for key in detected.unproven if key not in _NO_SETTING]
    lines = list(_lines(detected))
    if open_keys:
        lines += ["", "[consumer]", "# What is a comment above is not proven: set it as in the changefeed."]
        lines.append(f"unproven = {json.dumps(open_keys)}")
    return "\n".join(lines)


def _lines(detected: Detected) -> Iterator[str]:
    dialect = detected.dialect
    yield "[sink]"
    values: dict[str, str | int | bool | None] = {}
    if dialect is None:
        yield f"# protocol = {' or '.join(map(json.dumps, PROTOCOLS))}: there are no rows that show it"
    else:
        values = {"protocol": dialect.protocol, "terminator": dialect.terminator.decode(errors="replace")}
    values["date-separator"] = detected.date_separator
    values["file-index-digit"] = detected.file_index_digit
    values["enable-partition-separator"] = detected.partition_separator
    yield from (_line(detected, key, value) for key, value in values.items() if value is not None)
    if dialect is not None and (table := protocol_of(dialect).table(dialect)):
        yield from ("", f"[sink.{dialect.protocol}]")
        yield from (_line(detected, key, value) for key, value in table.items())


def _line(detected: Detected, key: str, value: str | int | bool) -> str:
    """Returns the line of a key: JSON's strings, numbers and switches are TOML's too."""
    return f"{'# ' if key in detected.unproven else ''}{key} = {json.dumps(value)}"


# The keys that matter to a consumer's reading, over all versions of TiCDC

CHANGEFEED_KEYS = frozenset(
    """
    active-active-progress-interval active-active-sync-stats-interval bdr-mode case-sensitive
    changefeed-error-stuck-duration check-gc-safe-point consistent consumer cyclic-replication
    enable-active-active enable-old-value enable-sync-point enable-table-monitor event-collector-batch-bytes
    event-collector-batch-count filter force-replicate ignore-ineligible-table integrity memory-quota mounter
    performance-mode scheduler sink sql-mode sync-point-interval sync-point-retention synced-status
    """.split()
)
"""The keys of the top level; `consumer` is our own table."""

SINK_KEYS = frozenset(
    """
    advance-timeout-in-sec case-sensitive cloud-storage-config column-selectors content-compatible
    date-separator debezium debezium-disable-schema delete-only-output-handle-key-columns dispatchers
    enable-kafka-sink-v2 enable-partition-separator encoder-concurrency file-index-digit force-replicate
    iceberg-config integrity kafka-config mysql-config only-output-updated-columns open protocol pulsar-config
    safe-mode schema-registry send-all-bootstrap-at-start send-bootstrap-in-msg-count
    send-bootstrap-interval-in-sec send-bootstrap-to-all-partition terminator transaction-atomicity
    """.split()
)
"""[sink]"""

CLOUD_STORAGE_KEYS = frozenset(
    """
    file-cleanup-cron-spec file-expiration-days file-size flush-concurrency flush-interval output-column-id
    output-raw-change-event spool-base-dir spool-disk-quota use-table-id-as-path worker-count
    """.split()
)
"""[sink.cloud-storage-config]"""

FILTER_KEYS = frozenset(
    """
    event-filters ignore-dbs ignore-tables ignore-txn-commit-ts ignore-txn-start-ts rules
    """.split()
)
"""[filter]"""

EFFECTS = {
    (
        "[filter]",
        "event-filters",
    ): "TiCDC does not write the rows and statements that they name: the replica lacks them",
    ("[filter]", "ignore-txn-start-ts"): "TiCDC does not write these transactions: the replica lacks them",
    ("[filter]", "ignore-txn-commit-ts"): "TiCDC does not write these transactions: the replica lacks them",
    ("[filter]", "ignore-dbs"): "TiCDC does not write these databases: the replica lacks them",
    ("[filter]", "ignore-tables"): "TiCDC does not write these tables: the replica lacks them",
    ("[sink]", "column-selectors"): "rows have the selected columns only: others keep what the target has, or defaults",
    ("[sink]", "dispatchers"): "they route tables: the files, and so the replica, have the names after routing",
}
"""Effects of keys of the changefeed's file on the files that it writes."""

QUEUE_KEYS = frozenset({"matcher", "dispatcher", "partition", "topic", "index", "columns"})
"""What a dispatcher says to a message queue alone."""
