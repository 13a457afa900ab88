"""Every metric: its name, its help and where its value comes from. ``python -m consumer.observe.metrics
docs/monitoring.md`` writes the table of the docs."""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from consumer.model.times import tso_to_ms
from consumer.observe.live import Live, View
from consumer.observe.troubles import System
from consumer.results import TableStatus

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry
    from prometheus_client.core import Metric as Family

PREFIX = "storage_consumer_"
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
Values = Iterable[tuple[tuple[str, ...], float]]
"""The values of the labels after `consumer`, and the value."""


@dataclass(frozen=True, slots=True)
class Metric:
    """A metric. `labels` stand after `consumer`, which all have. A counter's name ends with ``_total`` in what is
    printed."""

    name: str
    kind: Literal["gauge", "counter"]
    help: str
    values: Callable[[View], Values]
    labels: tuple[str, ...] = ()


def _one(value: float | None) -> Values:
    return () if value is None else [((), value)]


def _seconds(tso: int | None) -> float | None:
    return tso_to_ms(tso) / 1000 if tso else None


def _by_table(view: View, value: Callable[[TableStatus], float | None]) -> Values:
    for row in view.tables:
        if (found := value(row)) is not None:
            yield (row.table.database, row.table.table), found


def _states(view: View) -> Values:
    if not view.knows_tables:
        return []
    known = Counter({"ok": 0, "stopped": 0, "waits": 0})
    known.update(row.state for row in view.tables)
    return [((state,), count) for state, count in known.items()]


def _rows(view: View) -> Values:
    for kind, rows in (("put", view.totals.puts), ("delete", view.totals.deletes)):
        for table, count in rows.items():
            yield (table.database, table.table, kind), count


def _identity(view: View) -> Values:
    return [((view.identity.upstream, view.identity.target), 1)]


_TABLE = ("database", "table")

METRICS: Sequence[Metric] = (
    Metric("info", "gauge", "The consumer, as labels; always 1.", _identity, ("upstream", "target")),
    Metric("up", "gauge", "0 while an error has ended it and it is begun again, else 1.", lambda v: _one(not v.failed)),
    Metric(
        "target_up",
        "gauge",
        "0 while the target does not answer, else 1.",
        lambda v: _one(System.TARGET not in v.away),
    ),
    Metric(
        "storage_up",
        "gauge",
        "0 while the storage does not answer or has no `metadata`, else 1.",
        lambda v: _one(System.STORAGE not in v.away),
    ),
    Metric(
        "lag_seconds",
        "gauge",
        "How far the slowest table is behind now. Absent while a table has nothing yet.",
        lambda v: _one(v.status.lag_seconds),
    ),
    Metric(
        "checkpoint_age_seconds",
        "gauge",
        "How far the storage's checkpoint is behind now. It grows when the changefeed does not advance, and while the"
        " storage does not answer.",
        lambda v: _one(v.status.checkpoint_age_seconds),
    ),
    Metric(
        "checkpoint_went_back",
        "gauge",
        "1 while the storage's checkpoint is below what was applied already, else 0.",
        lambda v: _one(bool(v.status.went_back)),
    ),
    Metric(
        "behind_checkpoint_seconds",
        "gauge",
        "How far the slowest table is behind the storage's checkpoint.",
        lambda v: _one(v.status.behind_checkpoint_seconds),
    ),
    Metric(
        "checkpoint_timestamp_seconds",
        "gauge",
        "The storage's checkpoint when it was read last.",
        lambda v: _one(_seconds(v.status.checkpoint_ts)),
    ),
    Metric(
        "applied_timestamp_seconds",
        "gauge",
        "The moment of the upstream up to which every table is complete.",
        lambda v: _one(_seconds(v.status.watermark)),
    ),
    Metric(
        "table_lag_seconds",
        "gauge",
        "How far a table is behind now.",
        lambda v: _by_table(v, v.lag),
        _TABLE,
    ),
    Metric("tables", "gauge", "Tables by state. Absent before the progress was read.", _states, ("state",)),
    Metric(
        "table_stopped",
        "gauge",
        "1 for a table that goes no further until somebody acts.",
        lambda v: _by_table(v, lambda row: 1 if row.state == "stopped" else None),
        _TABLE,
    ),
    Metric(
        "accepted_losses",
        "gauge",
        "What a table lacks, or may lack, as was accepted.",
        lambda v: _by_table(v, lambda row: len(row.accepted) or None),
        _TABLE,
    ),
    Metric(
        "quarantined_rows",
        "gauge",
        "Bad rows that a table lacks since they were quarantined.",
        lambda v: _by_table(v, lambda row: row.quarantined or None),
        _TABLE,
    ),
    Metric("rows", "counter", "Rows written to the target.", _rows, (*_TABLE, "kind")),
    Metric("changes", "counter", "Row changes read from files.", lambda v: _one(v.totals.changes)),
    Metric(
        "dropped_rows",
        "counter",
        "Row changes at or below the watermark of their table: they were sent again.",
        lambda v: _one(v.totals.dropped_rows),
    ),
    Metric("read_bytes", "counter", "Bytes of change files that were applied.", lambda v: _one(v.totals.bytes)),
    Metric("files", "counter", "Change files of loads that ended.", lambda v: _one(v.totals.files)),
    Metric(
        "steps",
        "counter",
        "Finished loads and statements, a table each.",
        lambda v: [((step,), count) for step, count in v.totals.steps.items()],
        ("step",),
    ),
    Metric(
        "step_seconds",
        "counter",
        "Seconds that finished steps took; they go side by side.",
        lambda v: [((step,), seconds) for step, seconds in v.totals.seconds.items()],
        ("step",),
    ),
    Metric("rounds", "counter", "Rounds that went through.", lambda v: _one(v.totals.rounds)),
    Metric("round_seconds", "counter", "Seconds of rounds that went through.", lambda v: _one(v.totals.round_seconds)),
    Metric(
        "last_round_timestamp_seconds",
        "gauge",
        "When the last round ended that went through.",
        lambda v: _one(v.round_finished),
    ),
    Metric("retries", "counter", "Tries that failed and were repeated.", lambda v: _one(v.totals.retries)),
    Metric("warnings", "counter", "Notes, as the log has them.", lambda v: _one(v.totals.warnings)),
    Metric("running_loads", "gauge", "Loads in Spark now.", lambda v: _one(v.reading.loads)),
    Metric("running_statements", "gauge", "Statements in the target now.", lambda v: _one(v.reading.statements)),
    Metric("round_bytes", "gauge", "Bytes of change files that this round reads.", lambda v: _one(v.reading.total)),
    Metric("round_done_bytes", "gauge", "Of these, applied.", lambda v: _one(v.reading.done.bytes)),
    Metric(
        "exit_code",
        "gauge",
        "What a command that is over has left with (--metrics-file).",
        lambda v: _one(v.ended),
    ),
)


class _Collector:
    def __init__(self, lives: Sequence[Live]) -> None:
        self._lives = lives

    def collect(self) -> Iterator[Family]:
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

        views = [live.view() for live in self._lives]
        kinds = {"gauge": GaugeMetricFamily, "counter": CounterMetricFamily}
        for metric in METRICS:
            labels = ("consumer", *metric.labels)
            family = kinds[metric.kind](PREFIX + metric.name, metric.help, labels=labels)
            for view in views:
                for values, value in metric.values(view):
                    family.add_metric((view.identity.name, *values), float(value))
            yield family


def registry(lives: Sequence[Live]) -> CollectorRegistry:
    """Returns what prometheus-client prints, writes and pushes: the metrics of `lives`, and those of this process."""
    from prometheus_client import CollectorRegistry, ProcessCollector

    found = CollectorRegistry()
    found.register(_Collector(lives))
    ProcessCollector(registry=found)
    return found


def exposition(lives: Sequence[Live]) -> bytes:
    """Returns the metrics in Prometheus's text format."""
    from prometheus_client import generate_latest

    return generate_latest(registry(lives))


def write(lives: Sequence[Live], to: str) -> None:
    """Writes the metrics to a file, in one step, or pushes them to a gateway if `to` is its URL. Raises OSError."""
    if re.match("https?://", to):
        from prometheus_client import pushadd_to_gateway

        pushadd_to_gateway(to, job="storage-consumer", registry=registry(lives))
        return
    from prometheus_client import write_to_textfile

    write_to_textfile(to, registry(lives))


def table() -> str:
    """Returns the metrics as a table of the docs."""
    lines = ["| metric | kind | labels | what it is |", "| --- | --- | --- | --- |"]
    for metric in METRICS:
        total = "_total" if metric.kind == "counter" else ""
        labels = ", ".join(f"`{label}`" for label in ("consumer", *metric.labels))
        lines.append(f"| `{PREFIX}{metric.name}{total}` | {metric.kind} | {labels} | {metric.help} |")
    return "\n".join(lines)


if __name__ == "__main__":
    path = Path(sys.argv[1])
    text = path.read_text(encoding="utf-8")
    path.write_text(re.sub(r"(?ms)^\| metric \|.*?(?=\n\n|\Z)", lambda _: table(), text), encoding="utf-8")
