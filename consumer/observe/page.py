"""The page of `run`: what all consumers of this process do, and where their tables are. It is made on the server, works
without a script, and loads nothing."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlencode

from consumer.model.hints import hint_parts, retry_command
from consumer.model.texts import count_text, duration_text, printable, size_text
from consumer.model.times import time_text
from consumer.observe.http import TEXT, Answer, Query, Site
from consumer.observe.live import Live, Sample, View
from consumer.observe.metrics import CONTENT_TYPE, exposition
from consumer.results import Health, TableStatus, printed

if TYPE_CHECKING:
    from jinja2 import Template

ROWS = 100
"""The most tables on a page."""
WIDTH, HEIGHT = 600, 120
"""The height of a chart, in its own units."""
_STATES = ("all", "not healthy", "stopped", "waits", "lacks rows", "ok", "dropped", "excluded")
_STARTING = "Starting"
_UNWELL = {"stopped": "stopped", "missing": "missing", "waits": "wait", "lacks rows": "lack rows"}
"""States of tables that are not healthy, the worst first, and their names in the plural."""
_COLOURS = {Health.HEALTHY: "good", Health.BEHIND: "warn", _STARTING: "warn"}
_HTML = "text/html; charset=utf-8"
_JSON = "application/json"


@dataclass(frozen=True, slots=True)
class Chart:
    """A line of values over time: `path` is its SVG path, `most` the value at its upper edge, `last` that of its end,
    which is `at`, in seconds since 1970."""

    title: str
    path: str
    most: str
    last: str
    at: float
    since: str


def site(lives: Sequence[Live], ready_lag: float, token: str) -> Site:
    """Returns what `run --http` serves. It is ready while the lag of each consumer is at most `ready_lag` seconds."""
    return Site(
        {
            "/": lambda query: Answer(html(lives, query, ready_lag).encode(), _HTML),
            "/metrics": lambda _: Answer(exposition(lives), CONTENT_TYPE),
            "/status.json": lambda query: Answer(_status(lives, query), _JSON),
            "/healthz": lambda _: _health(lives),
            "/readyz": lambda _: _readiness(lives, ready_lag),
        },
        token,
        frozenset({"/healthz", "/readyz"}),
    )


def _status(lives: Sequence[Live], query: Query) -> bytes:
    """Answers as `status --json`: for one consumer, or for several by name."""
    found = {live.identity.name: printed(live.status()) for live in lives}
    one = found.get(query.get("consumer", "")) or (next(iter(found.values())) if len(found) == 1 else None)
    return json.dumps(one or {"consumers": found}).encode()


def _health(lives: Sequence[Live]) -> Answer:
    """The process is healthy unless an error has ended all of its consumers."""
    failed = [f"{live.identity.name}: {live.failed}" for live in lives if live.failed]
    return Answer("\n".join([*failed, ""]).encode(), TEXT, 503) if len(failed) == len(lives) else Answer(b"ok\n")


def _readiness(lives: Sequence[Live], ready_lag: float) -> Answer:
    late = [reason for live in lives if (reason := _late(live, ready_lag))]
    return Answer("\n".join([*late, ""]).encode(), TEXT, 503) if late else Answer(b"ok\n")


def _late(live: Live, ready_lag: float) -> str:
    name, status = live.identity.name, live.status()
    if status.lag_seconds is None:
        return f"{name}: nothing is known to be applied yet"
    if status.lag_seconds <= ready_lag:
        return ""
    which, why = status.slowest or "all tables", f"; {status.went_back}" if status.went_back else ""
    return f"{name}: {which} {duration_text(status.lag_seconds)} behind{why}"


def html(lives: Sequence[Live], query: Mapping[str, str], ready_lag: float) -> str:
    """Returns the page. `query`: `consumer` for one of several, `q` for a part of tables' names, `state`, `page`.
    `ready_lag` as for `site`."""
    names = [live.identity.name for live in lives]
    chosen = query.get("consumer", "")
    live = lives[names.index(chosen) if chosen in names else 0]
    view = live.view()
    search, state = query.get("q", ""), query.get("state", "all")
    rows = [row for row in view.tables if _fits(row, search, state)]
    pages = max(1, -(-len(rows) // ROWS))
    page = min(pages, int(query["page"])) if query.get("page", "").isdecimal() and int(query["page"]) else 1
    kept = {key: value for key, value in (("consumer", chosen), ("q", search), ("state", state)) if value}
    return _template().render(
        view=view,
        names=names,
        rows=rows[(page - 1) * ROWS : page * ROWS],
        found=len(rows),
        page=page,
        pages=pages,
        search=search,
        state=state,
        states=_STATES,
        chosen=chosen,
        link=lambda **changed: "?" + urlencode(kept | changed),
        unwell=view.status.unwell,
        health=_health_of(view, ready_lag),
        colours=_COLOURS,
        reasons=", ".join(_reasons(view, ready_lag)),
        charts=_charts(view.samples),
        speed=_speed(view.samples),
        hint=lambda row: hint_parts(row.hint, view.identity.options),
        retry=lambda row: hint_parts(retry_command(row.table), view.identity.options),
        made=time_text_of(now_ms=view.status.asked),
        width=WIDTH,
        height=HEIGHT,
    )


def time_text_of(now_ms: int) -> str:
    """Returns milliseconds since 1970 in the usual form of times."""
    return time_text(now_ms << 18)


def _fits(row: TableStatus, search: str, state: str) -> bool:
    if search and search.lower() not in str(row.table).lower() and search.lower() not in row.target_table.lower():
        return False
    if state == "not healthy":
        return row.is_held_up or bool(row.accepted)
    return state in ("all", row.state_text) and (state != "all" or row.state not in ("dropped", "excluded"))


def _health_of(view: View, ready_lag: float) -> str:
    """Returns a `Health`, or that nothing is known yet."""
    if view.status.error is None and (view.status.checkpoint_ts is None or not view.round_finished):
        return _STARTING
    health = view.status.health(ready_lag)
    return Health.DEGRADED if view.trouble and health is not Health.DOWN else health


def _reasons(view: View, ready_lag: float) -> Iterator[str]:
    """Returns why it is not healthy, the widest trouble first."""
    if view.failed:
        yield "ended by an error"
    for system in view.away:
        yield f"the {system} does not answer"
    states = Counter(row.state_text for row in view.status.unwell)
    for state, of_several in _UNWELL.items():
        if count := states[state]:
            yield f"{count_text(count, 'table')} {state if count == 1 else of_several}"
    if view.status.went_back:
        yield "the checkpoint went back"
    if view.trouble:
        yield "trying again"
    lag = view.status.lag_seconds
    if lag is not None and lag > ready_lag:
        yield f"{duration_text(lag)} behind"


def _speed(samples: Sequence[Sample]) -> float | None:
    """Returns rows a second over the last minute."""
    recent = [sample for sample in samples if samples[-1].at - sample.at <= 60]
    return (recent[-1].rows - recent[0].rows) / (recent[-1].at - recent[0].at) if len(recent) > 1 else None


def _charts(samples: Sequence[Sample]) -> list[Chart]:
    rates = [(b.at, (b.rows - a.rows) / (b.at - a.at)) for a, b in pairwise(samples) if b.at > a.at]
    lags = [(sample.at, sample.lag) for sample in samples if sample.lag is not None]
    found = [
        _chart("Lag of the tables that continue", lags, duration_text),
        _chart("Rows a second", rates, lambda rate: f"{rate:,.0f}"),
    ]
    return [chart for chart in found if chart is not None]


def _chart(title: str, points: Sequence[tuple[float, float]], text: Callable[[float], str]) -> Chart | None:
    if len(points) < 2:
        return None
    first, last = points[0][0], points[-1][0]
    most = max(max(value for _, value in points), 1e-9)
    places = [((at - first) / (last - first) * WIDTH, HEIGHT - value / most * HEIGHT) for at, value in points]
    path = "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in places)
    return Chart(title, path, text(most), text(points[-1][1]), last, duration_text(last - first))


@cache
def _template() -> Template:
    from jinja2 import Environment, FileSystemLoader

    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent), autoescape=True, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters |= {
        "duration": duration_text,
        "size": size_text,
        "count": count_text,
        "visible": printable,
        "moment": time_text,
        "clock": lambda seconds: time_text_of(int(seconds * 1000)),
    }
    return environment.get_template("page.html")
