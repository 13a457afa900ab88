"""What metrics and the page say after some events, in Prometheus's own reading of it."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from consumer.errors import BadConfig, StorageUnavailable, TargetBusy, TargetUnavailable
from consumer.model.bad_rows import BadRow
from consumer.model.events import (
    CheckpointRead,
    ConsumerFailed,
    Idle,
    Note,
    NoteKind,
    NowDoing,
    Recorded,
    Retrying,
    RetryPassed,
    RoundFinished,
    RoundStarted,
    StepFinished,
    WorkEnded,
    WorkStarted,
    WorkUnit,
)
from consumer.model.hints import Hint, resync_command
from consumer.model.losses import Loss
from consumer.model.names import TableName
from consumer.model.progress import AuditRow, Progress, State, TableProgress
from consumer.model.times import ms_to_tso
from consumer.observe.live import SAMPLE_SECONDS, Identity, Live
from consumer.observe.metrics import METRICS, PREFIX, exposition, table, write
from consumer.observe.page import html, site

NOW = 1_800_000_000.0
A, B, C = TableName("shop", "a"), TableName("shop", "b"), TableName("<b>", 'x"\n\x1b\u202e')
DOCS = Path(__file__).parents[3] / "docs"


class Clock:
    now = NOW

    def __call__(self) -> float:
        return self.now


def ago(seconds: float) -> int:
    return ms_to_tso(int((NOW - seconds) * 1000))


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def live(clock: Clock) -> Live:
    return Live(Identity("prod", "s3://b/c?secret=***", "mysql://h/", "--name prod", [("tz", "UTC")]), clock)


def a_round(live: Live) -> None:
    """Table b is stopped, table a lacks accepted rows, 30 rows of a were written by 12 seconds of load."""
    live.tell(RoundStarted(ago(4), 1, 2, 1000, [A, B, C]))
    work = WorkUnit((A,), 2, 1000)
    live.tell(WorkStarted(work))
    live.tell(WorkEnded(work))
    live.tell(StepFinished(AuditRow("load", A, 0, ago(4), changes=40, puts=25, deletes=5, dropped_rows=3), 12.0, 1000))
    live.tell(StepFinished(AuditRow("ddl", A, 0, ago(9), statement="DROP TABLE `<i>`"), 0.5))
    stopped = TableProgress(ago(100), State.STOPPED, "a bad line", Hint(resync_command(B)))
    lost = Loss("files are missing", "shop/a/1", ago(60), ago(50))
    live.tell(Recorded(Progress("s3://b/c", ago(6), {B: stopped}, losses={A: {"1": lost}}, time_zone="UTC")))
    live.tell(RoundFinished(ago(4), 13.0, 1, 0))
    live.tell(Idle(ago(6)))


def shown_page(live: Live, query: Mapping[str, str], ready_lag: float = 600) -> str:
    return html([live], query, ready_lag)


def metrics(live: Live) -> Mapping[str, float]:
    found = {}
    for family in text_string_to_metric_families(exposition([live]).decode()):
        for sample in family.samples:
            labels = {key: value for key, value in sample.labels.items() if key not in ("consumer", "upstream")}
            found[" ".join([sample.name.removeprefix(PREFIX), *labels.values()])] = sample.value
    return found


def test_metrics_of_a_round(live: Live) -> None:
    a_round(live)
    found = metrics(live)
    expected = {
        "up": 1,
        "lag_seconds": 100,
        "checkpoint_age_seconds": 4,
        "behind_checkpoint_seconds": 96,
        "checkpoint_timestamp_seconds": NOW - 4,
        "applied_timestamp_seconds": NOW - 100,
        "table_lag_seconds shop a": 6,
        "table_lag_seconds shop b": 100,
        'table_lag_seconds <b> x"\n\x1b\u202e': 6,
        "tables ok": 2,
        "tables stopped": 1,
        "tables waits": 0,
        "table_stopped shop b": 1,
        "accepted_losses shop a": 1,
        "rows_total shop put a": 25,
        "rows_total shop delete a": 5,
        "changes_total": 40,
        "dropped_rows_total": 3,
        "read_bytes_total": 1000,
        "files_total": 2,
        "steps_total load": 1,
        "steps_total ddl": 1,
        "step_seconds_total load": 12,
        "step_seconds_total ddl": 0.5,
        "rounds_total": 1,
        "round_seconds_total": 13,
        "last_round_timestamp_seconds": NOW,
        "retries_total": 0,
        "warnings_total": 0,
        "running_loads": 0,
        "round_bytes": 1000,
        "round_done_bytes": 1000,
    }
    assert {name: found.get(name) for name in expected} == pytest.approx(expected)
    assert "table_stopped shop a" not in found
    assert found["info mysql://h/"] == 1
    assert found["process_resident_memory_bytes"] > 1 << 20


def test_before_the_first_round_nothing_is_said_of_lag(live: Live) -> None:
    found = metrics(live)
    assert "lag_seconds" not in found
    assert "tables ok" not in found


@pytest.mark.parametrize("example", ["alerts.yml", "grafana.json"])
def test_examples_name_metrics_that_there_are(example: str) -> None:
    named = set(re.findall(rf"{PREFIX}\w+", (DOCS.parent / "examples" / example).read_text(encoding="utf-8")))
    known = {PREFIX + metric.name + ("_total" if metric.kind == "counter" else "") for metric in METRICS}
    assert named
    assert named <= known


def test_alerts_show_labels_that_all_their_metrics_have() -> None:
    known = {PREFIX + metric.name: {"consumer", "instance", *metric.labels} for metric in METRICS}
    (group,) = yaml.safe_load((DOCS.parent / "examples" / "alerts.yml").read_text(encoding="utf-8"))["groups"]
    for rule in group["rules"]:
        of_metrics = [known[name] for name in re.findall(rf"{PREFIX}\w+", rule["expr"])]
        shown = set(re.findall(r"\$labels\.(\w+)", rule["annotations"]["summary"]))
        assert shown <= set.intersection(*of_metrics), rule["alert"]


def test_the_dashboard_shows_labels_and_asks_for_variables_that_there_are() -> None:
    known = {PREFIX + metric.name: {"consumer", *metric.labels} for metric in METRICS}
    board = json.loads((DOCS.parent / "examples" / "grafana.json").read_text(encoding="utf-8"))
    variables, places = {one["name"] for one in board["templating"]["list"]}, list[tuple[int, int]]()
    for panel in board["panels"]:
        assert panel["datasource"]["uid"].strip("${}") in variables
        at = panel["gridPos"]
        places += [(at["x"] + x, at["y"] + y) for x in range(at["w"]) for y in range(at["h"])]
        for target in panel["targets"]:
            (metric,) = re.findall(rf"{PREFIX}\w+", target["expr"])
            labels = known[metric.removesuffix("_total")]
            assert set(re.findall(r"{{(\w+)}}", target["legendFormat"])) <= labels, target
            assert set(re.findall(r"\$(\w+)", target["expr"])) <= variables
    assert len(places) == len(set(places)), "panels do not lie over one another"


def test_every_metric_is_in_the_docs() -> None:
    assert table() in (DOCS / "monitoring.md").read_text(encoding="utf-8")
    assert len({metric.name for metric in METRICS}) == len(METRICS)


def test_trouble_is_shown_until_it_is_over(live: Live) -> None:
    a_round(live)
    live.tell(Retrying("write", TargetBusy("a lock is held"), 10.0))
    live.tell(Note(NoteKind.STATEMENT, "a note"))
    assert "write: a lock is held" in shown_page(live, {})
    live.tell(RetryPassed("write"))
    assert "a lock is held" not in shown_page(live, {})
    assert (metrics(live)["retries_total"], metrics(live)["warnings_total"]) == (1, 1)


def answered(live: Live) -> tuple[object, ...]:
    """What `/status.json` says of what keeps the consumer from going on."""
    body = json.loads(site([live], 600, "").routes["/status.json"]({}).body)
    return body["exit_code"], body["code"], body["error"]


def test_an_outage_is_no_trouble_of_the_changefeed(live: Live, clock: Clock) -> None:
    a_round(live)
    clock.now += 900
    live.tell(Retrying("round", TargetUnavailable("no connection"), None))
    live.tell(CheckpointRead(ago(-900)))
    found = metrics(live)
    assert (found["target_up"], found["storage_up"], found["checkpoint_age_seconds"]) == (0, 1, 0)
    texts = Texts(shown_page(live, {})).texts
    assert "Down" in texts
    assert "the target does not answer, 1 table stopped, 1 table lacks rows, 16 min 40 s behind" in texts
    live.tell(Retrying("read the checkpoint", StorageUnavailable("no route"), None))
    assert (metrics(live)["target_up"], metrics(live)["storage_up"]) == (0, 0)
    clock.now += 60
    (tile,) = [text for text in Texts(shown_page(live, {})).texts if text.startswith("old: ")]
    assert tile == "old: TiCDC's, as the storage had it 60.0 s ago"
    assert answered(live) == (4, "target-unavailable", "no connection")
    live.tell(Recorded(Progress("s3://b/c", ago(-900))))
    assert answered(live) == (4, "storage-unavailable", "no route")
    live.tell(CheckpointRead(ago(-900)))
    assert answered(live) == (0, None, None)
    live.tell(Recorded(Progress("s3://b/c", ago(-900))))
    assert (metrics(live)["target_up"], metrics(live)["storage_up"]) == (1, 1)


def test_a_command_that_the_target_has_ended_says_so(live: Live) -> None:
    live.ended(4, TargetUnavailable("no connection"))
    assert (metrics(live)["target_up"], metrics(live)["exit_code"]) == (0, 4)


@pytest.mark.parametrize(
    ("tables", "ready_lag", "health"),
    [
        ({}, 600, "Healthy"),
        ({}, 5, "Behind"),
        ({B: TableProgress(9 << 18, State.WAITS)}, 600, "Degraded"),
        ({B: TableProgress(9 << 18, State.STOPPED)}, 600, "Degraded"),
    ],
)
def test_the_state_of_all_in_a_word(
    tables: Mapping[TableName, TableProgress], ready_lag: float, health: str, live: Live
) -> None:
    assert "Starting" in Texts(shown_page(live, {})).texts
    live.tell(RoundStarted(ago(4), 0, 0, 0, [A, B]))
    live.tell(Recorded(Progress("s3://b/c", ago(6), tables)))
    live.tell(RoundFinished(ago(4), 1.0, 0, 0))
    assert health in Texts(shown_page(live, {}, ready_lag)).texts
    ready = site([live], ready_lag, "").routes["/readyz"]({}).status
    assert health != "Healthy" or ready == 200
    assert health != "Behind" or ready == 503


def test_one_that_has_failed_is_not_healthy_until_it_is_at_work_again(live: Live) -> None:
    routes = site([live], 60, "").routes
    live.tell(ConsumerFailed(BadConfig("no such file"), 60.0))
    assert (routes["/healthz"]({}).status, metrics(live)["up"]) == (503, 0)
    assert "no such file" in shown_page(live, {})
    assert answered(live) == (2, "bad-config", "no such file")
    live.tell(RoundStarted(ago(4), 0, 0, 0))
    assert (routes["/healthz"]({}).status, metrics(live)["up"]) == (200, 1)
    assert answered(live) == (0, None, None)
    live.tell(ConsumerFailed(KeyError("x"), 60.0))
    assert answered(live) == (1, "bug", "'x'")


@pytest.mark.parametrize(("ready_lag", "status"), [(101, 200), (99, 503)])
def test_ready_while_the_slowest_table_is_not_too_far_behind(live: Live, ready_lag: float, status: int) -> None:
    ready = site([live], ready_lag, "").routes["/readyz"]
    assert ready({}).body == b"prod: nothing is known to be applied yet\n"
    a_round(live)
    assert ready({}).status == status


def test_before_the_first_listing_nothing_is_made_up(live: Live) -> None:
    texts = Texts(shown_page(live, {})).texts
    assert {"nothing applied yet", "TiCDC's, not read yet", "starts"} <= set(texts)


def test_what_is_in_hand_stands_instead_of_what_was_done_before(live: Live) -> None:
    live.tell(RoundStarted(ago(4), 1, 2, 1000, [A]))
    live.tell(NowDoing("prepares loads"))
    assert "prepares loads" in Texts(shown_page(live, {})).texts
    live.tell(WorkStarted(WorkUnit((A,), 2, 1000)))
    (text,) = [text for text in Texts(shown_page(live, {})).texts if "load" in text]
    assert text.startswith("1 load, 0 statements; for longest load of shop.a, ")


def test_what_takes_long_stands_with_its_time(live: Live, clock: Clock) -> None:
    live.tell(NowDoing("looks for new files"))
    clock.now += 30
    assert "looks for new files, 30.0 s" in Texts(shown_page(live, {})).texts
    live.tell(Idle(ago(6)))
    clock.now += 30
    assert "waits for new files" in Texts(shown_page(live, {})).texts


def test_a_quarantined_row_stands_with_the_command_that_takes_it_in(live: Live) -> None:
    bad = BadRow("1", "no number", "a/1.json", 7)
    live.tell(Recorded(Progress("s3://b/c", ago(6), bad_rows={A: {"1": bad}}, time_zone="UTC")))
    texts = Texts(shown_page(live, {})).texts
    assert "storage-consumer retry --table shop.a --name prod" in texts
    (text,) = [text for text in texts if "quarantined row" in text]
    assert text.startswith("1 quarantined row; the first: ")


class Texts(HTMLParser):
    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.texts: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.tags.add(tag)

    def handle_data(self, data: str) -> None:
        self.texts.append(data.strip())


def test_names_and_statements_of_others_stay_texts(live: Live) -> None:
    a_round(live)
    page = Texts(shown_page(live, {"q": "<"}))
    assert not page.tags & {"b>", "i", "script"}
    assert '<b>.x"\\n\\x1b\\u202e' in page.texts
    assert "DROP TABLE `<i>`" in page.texts


def test_the_plan_is_what_the_last_listing_found(live: Live) -> None:
    assert "Plan" not in Texts(shown_page(live, {})).texts
    live.tell(
        RoundStarted(ago(4), 2, 3, 3 << 20, [A, B], [(A, 2, 2 << 20), (B, 1, 1 << 20)], 1, [(B, 7, "DROP `<i>`")])
    )
    page = Texts(shown_page(live, {}))
    assert "i" not in page.tags
    for text in ("Plan", "DROP `<i>`", "load 2 files", "2.0 MiB", "storage-consumer plan"):
        assert text in page.texts, page.texts
    live.tell(RoundStarted(ago(2), 0, 0, 0, [A, B]))
    assert "Plan" not in Texts(shown_page(live, {})).texts


def test_a_stopped_table_stands_with_its_reason_and_the_command(live: Live) -> None:
    a_round(live)
    page = Texts(shown_page(live, {}))
    assert {
        "1 table stopped, 1 table lacks rows",
        "Degraded",
        "a bad line",
        "storage-consumer resync --table shop.b --name prod",
    } <= set(page.texts)


@pytest.mark.parametrize(
    ("query", "shown"),
    [
        ({}, ["shop.a", "shop.b"]),
        ({"q": "P.B"}, ["shop.b"]),
        ({"state": "stopped"}, ["shop.b"]),
        ({"state": "not healthy"}, ["shop.a", "shop.b"]),
        ({"state": "waits"}, []),
        ({"state": "lacks rows"}, ["shop.a"]),
        ({"state": "ok", "q": "shop"}, []),
        ({"page": "0"}, ["shop.a", "shop.b"]),
        ({"page": "99999999"}, ["shop.a", "shop.b"]),
        ({"page": "x", "consumer": "nobody"}, ["shop.a", "shop.b"]),
    ],
)
def test_tables_are_searched(live: Live, query: Mapping[str, str], shown: list[str]) -> None:
    a_round(live)
    rows = shown_page(live, query).partition("<tbody>")[2].partition("</tbody>")[0]
    assert [text for text in Texts(rows).texts if text.startswith("shop.")] == shown


def test_thousands_of_tables_stand_on_pages(live: Live) -> None:
    names = [TableName("db", f"t{number:04}") for number in range(5000)]
    live.tell(RoundStarted(ago(4), 0, 0, 0, names))
    live.tell(Recorded(Progress("s3://b/c", ago(6))))
    last = shown_page(live, {"page": "50"})
    assert ("db.t4999" in last, "db.t4899" in last, "page 50 of 50" in last) == (True, False, True)


def test_charts_have_a_point_every_so_often(live: Live, clock: Clock) -> None:
    live.tell(Recorded(Progress("s3://b/c", ago(6))))
    for _ in range(100):
        clock.now += SAMPLE_SECONDS / 4
        live.tell(StepFinished(AuditRow("load", A, 0, 1, puts=10), 1.0))
        live.beat()
    samples = live.view().samples
    assert len(samples) == 25
    assert [b.rows - a.rows for a, b in pairwise(samples)] == [40] * 24
    assert samples[-1].at < clock.now
    assert "3 (11.2 s ago), at most 3" in shown_page(live, {})  # 40 rows in 15 seconds


def test_a_command_that_is_over_leaves_a_file(live: Live, tmp_path: Path) -> None:
    a_round(live)
    live.ended(3)
    write([live], str(tmp_path / "metrics.prom"))
    assert [path.name for path in tmp_path.iterdir()] == ["metrics.prom"]
    text = (tmp_path / "metrics.prom").read_text(encoding="utf-8")
    assert f'{PREFIX}exit_code{{consumer="prod"}} 3.0' in text
