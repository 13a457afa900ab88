"""`--consistency`: how much one transaction has, tables that wait, and staged rows that are gone."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from consumer.errors import StagedRowsGone
from consumer.model.actions import Action
from consumer.sink.duckdb.sink import DuckDbSink
from consumer.sink.mysql.sink import MySqlSink
from tests.servers import SqlServer
from tests.support.feed import Feed, Replica, states
from tests.support.moments import every_state, two_accounts


@pytest.fixture
def feed(tmp_path: Path) -> Feed:
    return two_accounts(tmp_path / "storage")


def sent_again(feed: Feed, table: str) -> None:
    """A restart writes all rows again, and each file goes on from the same beginning."""
    rows = {ts: (ts % 7, str(ts)) for ts in range(100, 160)}
    for number in range(6):
        feed.puts(table, 10, dict(list(rows.items())[: 10 * (number + 1)]))


def test_rows_that_were_sent_again_are_published_a_few_at_a_time(
    feed: Feed, fresh_mariadb: SqlServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All files overlap, and together they have many times publish-bytes. No transaction of upstream does."""
    sent_again(feed, "d.a")
    replica = Replica(feed, fresh_mariadb.url())
    with every_state(fresh_mariadb, monkeypatch) as seen:
        result = replica.once(200, consistency="table", publish_bytes="4KiB")
    assert (result.exit_code, states(result)) == (0, {"d.a": "ok", "d.b": "ok"})
    rows = [dict(state).get("a", ()) for state in seen]
    assert rows[-1] == tuple(sorted((ts % 7, ts) for ts in range(153, 160)))
    assert len(set(rows)) > 6


def test_a_round_that_reads_little_bounds_no_transaction(feed: Feed, tmp_path: Path) -> None:
    """Files that overlap are more than round-bytes, and less than publish-bytes."""
    sent_again(feed, "d.a")
    replica = Replica(feed, f"duckdb:///{tmp_path}/replica.duckdb")
    assert states(replica.once(200, consistency="table", round_bytes="1KiB")) == {"d.a": "ok", "d.b": "ok"}


def test_a_table_that_is_behind_comes_to_the_others_a_few_rows_at_a_time(
    feed: Feed, fresh_mariadb: SqlServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    replica = Replica(feed, fresh_mariadb.url())
    damaged = feed.damaged("d.a", 10)
    assert replica.once(30, consistency="snapshot").exit_code == 3
    damaged.unlink()
    sent_again(feed, "d.a")
    feed.checkpoint(200)
    assert replica.once(consistency="row", tables=["d.b"]).exit_code == 0
    with every_state(fresh_mariadb, monkeypatch) as seen:
        assert replica.once(consistency="snapshot", publish_bytes="4KiB", accept_gap_in=["*.*"]).exit_code == 0
    assert len({dict(state).get("a", ()) for state in seen}) > 6


def test_a_table_that_waits_ends_no_round_of_others(feed: Feed, fresh_mariadb: SqlServer) -> None:
    """Its next transaction is too large, and behind a statement that waits for a stopped table."""
    replica = Replica(feed, fresh_mariadb.url())
    replica.once(25, consistency="snapshot")
    feed.damaged("d.b", 10)
    text = "RENAME TABLE `d`.`a` TO `d`.`c`, `d`.`b` TO `d`.`a`"
    feed.statement("d.c", 30, Action.RENAME_TABLES, text)
    feed.statement("d.a", 30, Action.RENAME_TABLES, text)
    feed.create("d.e", 31)
    assert replica.once(40, consistency="snapshot").exit_code == 3
    feed.file("d.c", 30, b"".join(feed._line("d.c", 45, key, "1") for key in range(40)))
    feed.puts("d.e", 31, {46: (1, "1")})
    result = replica.once(50, consistency="snapshot", publish_bytes="2KiB")
    assert result.exit_code == 3
    assert fresh_mariadb.execute("SELECT id, v FROM d.e") == [(1, 1)]


@pytest.mark.parametrize("kind", ["server", "file"])
def test_staged_rows_that_are_gone_end_the_round_at_once(
    feed: Feed, fresh_mariadb: SqlServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    a_server = kind == "server"
    sink, uri = (MySqlSink, fresh_mariadb.url()) if a_server else (DuckDbSink, f"duckdb:///{tmp_path}/replica.duckdb")
    replica = Replica(feed, uri)
    commit = sink.commit

    def gone(self: Any, outcomes: Sequence[Any], change: Any) -> Any:
        for outcome in outcomes:
            for receipt in outcome.receipts:
                folder, _, name = receipt.staged.rpartition("/")
                Path(f"{folder}.ended", name).unlink(missing_ok=True)
        return commit(self, outcomes, change)

    with monkeypatch.context() as patch:
        patch.setattr(sink, "commit", gone)
        with pytest.raises(StagedRowsGone, match="gone or damaged") as told:
            replica.once(25, consistency="snapshot", max_wait="60s")
    assert "run again" in told.value.hint
    assert [retry for retry in replica.seen.retries if "commit" in retry] == []
    assert replica.once(consistency="snapshot").exit_code == 0


def test_the_greatest_place_of_tables_that_are_not_new_and_empty_is_the_moment_that_a_reader_sees(
    feed: Feed, fresh_mariadb: SqlServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A CREATE TABLE runs early, before the rows in front of it."""
    replica = Replica(feed, fresh_mariadb.url())
    assert replica.once(25, consistency="snapshot").exit_code == 0
    times = range(30, 70)
    feed.puts("d.a", 10, {ts: (1, str(ts)) for ts in times})
    feed.create("d.c", 70)
    feed.puts("d.c", 70, {75: (1, "75")})
    seen: list[tuple[int, int, int]] = []
    places = "SELECT MAX(applied_ts), MAX(IF(`table` = 'd.c', 0, applied_ts)) FROM storage_consumer.replica"

    def looked(call: Any) -> Any:
        def around(*given: Any, **named: Any) -> Any:
            result = call(*given, **named)
            ((of_all, of_old),) = fresh_mariadb.execute(f"{places} WHERE state = 'ok'")
            ((newest,),) = fresh_mariadb.execute("SELECT v FROM d.a")
            seen.append((of_all, of_old, newest))
            return result

        return around

    for name in ("commit", "apply_ddls"):
        monkeypatch.setattr(MySqlSink, name, looked(getattr(MySqlSink, name)))
    assert replica.once(80, consistency="snapshot", publish_bytes="2KiB").exit_code == 0
    assert any(of_all == 70 and newest < 69 for of_all, _, newest in seen)
    assert [newest for *_, newest in seen] == [max(ts for ts in times if ts <= of_old) for _, of_old, _ in seen]
