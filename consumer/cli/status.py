"""`status`: where the target is."""

from __future__ import annotations

from collections import Counter
from typing import Annotated

import typer

from consumer.cli.command import Command
from consumer.cli.json_form import status_as_json
from consumer.cli.session import Invocation
from consumer.cli.several import in_turn
from consumer.cli.status_text import print_status
from consumer.config.clocks import resolved_zone
from consumer.config.values import duration
from consumer.errors import BadConfig, Retryable, TableError
from consumer.model.result import StatusResult
from consumer.model.texts import duration_text

_STATES = {"stopped": "stopped", "waits": "waiting", "missing": "missing"}
Check = Annotated[
    bool,
    typer.Option(
        "--check",
        help="For monitors: exit 3 when a table is stopped, waits or is missing, 4 when the target or the storage"
        " cannot be asked, nothing was applied yet, or --max-lag is exceeded.",
    ),
]
MaxLag = Annotated[
    str | None,
    typer.Option("--max-lag", metavar="D", help="With --check: how far the slowest table may be behind now, as 10m."),
]


def status(call: Invocation, check: Check = False, max_lag: MaxLag = None) -> int:
    """Print how far the target is, how far behind, and which tables are stopped and why."""
    from consumer import app

    longest = _longest(max_lag, check)
    result = app.status(call.settings, call.observer)
    code, why = verdict(result, longest) if check else (0, "")

    def print_it() -> None:
        print_status(result, _options(call, result))
        if why:
            print(f"check: exit {code}, {why}")

    return call.show(lambda: status_as_json(result) | {"check": why or None}, print_it, code)


def _options(call: Invocation, result: StatusResult) -> str:
    """What the commands of hints need as well: this one does without the replica's zone, those are refused without."""
    zone = result.time_zone
    return call.options if zone in ("", resolved_zone(call.settings.tz)) else f"{call.options} --tz {zone}".lstrip()


def verdict(result: StatusResult, longest: float | None) -> tuple[int, str]:
    """The exit code of a check, and why it is not 0: 3 for tables that need somebody, 4 for a replica that is late or
    not to be judged."""
    if result.unwell:
        states = Counter(_STATES.get(row.state, "with quarantined rows") for row in result.unwell)
        found = ", ".join(f"{count:,} {state}" for state, count in states.items())
        return TableError.exit_code, f"tables that are not in order: {found}"
    late = _late(result, longest)
    return (Retryable.exit_code if late else 0), late


def _late(result: StatusResult, longest: float | None) -> str:
    lag = result.lag_seconds
    if lag is None:
        return "nothing was applied yet"
    if result.unread is None:
        return f"the storage could not be compared: {next(iter(result.notes), 'it does not answer')}"
    if longest is not None and lag > longest:
        which = "all" if result.slowest is None else str(result.slowest.table)
        return f"{which} {duration_text(lag)} behind now, which is more than --max-lag {duration_text(longest)}"
    return ""


def _longest(max_lag: str | None, check: bool) -> float | None:
    if max_lag is None:
        return None
    if not check:
        raise BadConfig("--max-lag is a bound for --check", hint="add --check, or leave --max-lag out")
    try:
        return duration(max_lag)
    except ValueError as problem:
        raise BadConfig(f"--max-lag is refused: {problem}") from problem


COMMAND = Command(
    "status",
    status,
    "storage-consumer status --upstream-uri 'file:///data/cdc?protocol=canal-json' --json",
    of_all=in_turn,
)
