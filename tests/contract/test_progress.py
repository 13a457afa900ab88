"""What ports.Sink promises of the progress, asked of every implementation."""

from __future__ import annotations

import duckdb
import pytest

from consumer.errors import BadConfig, Code, LeaseHeld, ProgressMoved, WrongUpstream
from consumer.model.bad_rows import BadRow
from consumer.model.files import Folder
from consumer.model.hints import AS_FILES_SHOW, Hint, skip_ddl_command
from consumer.model.losses import Loss
from consumer.model.names import TableName
from consumer.model.naming import naming_of, routes_of
from consumer.model.progress import (
    AuditRow,
    DdlId,
    DdlKind,
    DdlRecord,
    DdlState,
    FolderProgress,
    OpenFile,
    Owned,
    Progress,
    ProgressChange,
    State,
    TableProgress,
)
from consumer.target import Sink
from tests.contract.acts import (
    LOG,
    SHOP,
    UPSTREAM,
)
from tests.contract.targets import DuckDb, Server, Target

NEW = TableName("shop", "new")
FOLDER = Folder("shop/item", 2, "7", "2026-11-21", "12345")
LONG_ROOT = "数据库🙂" * 200 + "/t"

CHANGE = ProgressChange(
    applied_ts=470611625733521409,
    tables={
        SHOP: TableProgress(1 << 62, State.STOPPED, "it's \\ broken\nhere", "resync `x` — 数据", Code.ROW_REFUSED),
        LOG: TableProgress(7, State.EXCLUDED),
        TableName("shop", "Gone"): TableProgress(9, State.DROPPED),
        TableName("shop", "gone"): TableProgress(2, State.DROPPED),
        TableName("é`b", "x y"): TableProgress((1 << 63) - 1, State.EXCLUDED),
    },
    folders={
        FOLDER: FolderProgress(
            12,
            5_000_000_000,
            '"etag"',
            (OpenFile(14, 470611625733521410, 3, "s", 4_294_967_295),),
            '"of the index"',
            7,
            1 << 62,
            1 << 61,
            4_294_967_294,
        ),
        Folder("shop/log", 2): FolderProgress(),
        Folder(LONG_ROOT, (1 << 63) - 1, "", "2024-01-02"): FolderProgress(1, 2, "é"),
        Folder(LONG_ROOT + "2", 1): FolderProgress(3),
    },
    ddls=(
        DdlRecord(DdlId("shop", "item", 2, 4_294_967_295), DdlState.SKIPPED, "before", "overtaken", DdlKind.BY_HAND),
        DdlRecord(DdlId("shop", "", 1, 0), DdlState.INTENT, "{}"),
        DdlRecord(DdlId("shop", "", 1, 0), DdlState.DONE),
    ),
    audit=(AuditRow("load", SHOP, 1, 2, 3, 4, 5, 6, "text"),),
    start_ts=470611625733521408,
    starts={SHOP: 470611625733521409, LOG: 1 << 62},
    late=True,
    quarantined={
        SHOP: {
            "a" * 32: BadRow(
                "a" * 32, "it's \\ no\nrow — 数据", "shop/item/2/CDC1.json", 7, 5_000_000_000, 2, 1 << 62, "c/l"
            ),
            "b" * 32: BadRow("b" * 32, "refused", raw=b"no part of the progress"),
        },
        LOG: {"a" * 32: BadRow("a" * 32, "why")},
    },
)


def test_progress_is_empty_before_the_first_run(target: Target) -> None:
    assert target.sink().progress() == Progress()


def test_every_field_of_progress_survives(target: Target, sink: Sink) -> None:
    sink.record(CHANGE)
    wanted = Progress(upstream=UPSTREAM).after(CHANGE)
    assert sink.progress() == wanted
    sink.close()
    again = target.sink()
    assert again.progress() == wanted
    assert again.acquire(UPSTREAM) == wanted
    again.close()


def test_every_kind_of_statement_and_every_code_of_a_table_survives(sink: Sink) -> None:
    ddls = [DdlRecord(DdlId("shop", "t", n, 0), DdlState.SKIPPED, kind=kind) for n, kind in enumerate(DdlKind)]
    places = {TableName("shop", code): TableProgress(7, State.STOPPED, code=code) for code in Code}
    sink.record(ProgressChange(ddls=tuple(ddls), tables=places))
    found = sink.progress()
    assert (found.ddls, found.tables) == ({record.id: record for record in ddls}, places)


def test_a_hint_survives_with_its_commands(sink: Sink) -> None:
    hint = "it's \\ no\nmatter: " + skip_ddl_command(TableName("é`b", "x y"), 7) + "; or " + AS_FILES_SHOW
    sink.record(ProgressChange(tables={SHOP: TableProgress(7, State.STOPPED, "why", hint)}))
    found = sink.progress().tables[SHOP].hint
    assert isinstance(found, Hint)
    assert (found, found.parts) == (hint, hint.parts)


def test_later_progress_replaces_and_removes(sink: Sink) -> None:
    sink.record(CHANGE)
    second = ProgressChange(
        applied_ts=1 << 62,
        tables={SHOP: None, LOG: TableProgress(8), TableName("shop", "gone"): None},
        folders={FOLDER: None, Folder(LONG_ROOT + "2", 1): None, Folder("shop/log", 2): FolderProgress(1, 2, "x")},
        ddls=(DdlRecord(DdlId("shop", "item", 2, 1), DdlState.DONE),),
        forget_ddls=(DdlId("shop", "", 1, 0),),
        quarantined={SHOP: {"b" * 32: BadRow("b" * 32, "again", line=3)}},
        taken_in={SHOP: ["a" * 32, "c" * 32]},
        late=False,
    )
    sink.record(second)
    assert sink.progress() == Progress(upstream=UPSTREAM).after(CHANGE).after(second)


@pytest.mark.parametrize(
    "moves",
    [
        {SHOP: ()},
        {SHOP: (LOG,)},
        {SHOP: (LOG,), LOG: (SHOP,)},
        {LOG: (TableName("shop", "new"),), SHOP: (LOG,)},
        {SHOP: (), LOG: (SHOP,)},
        {SHOP: (LOG, SHOP), LOG: (LOG, SHOP)},
    ],
)
def test_what_a_table_lacks_goes_with_their_table(sink: Sink, moves: dict[TableName, tuple[TableName, ...]]) -> None:
    rows = {SHOP: {"a" * 32: BadRow("a" * 32, "1")}, LOG: {"b" * 32: BadRow("b" * 32, "2")}}
    sink.record(ProgressChange(quarantined=rows, losses={SHOP: {LOSS.id: LOSS}}))
    sink.record(ProgressChange(moved_lacks=moves))
    wanted: dict[TableName, dict[str, BadRow]] = {}
    for name, found in rows.items():
        for to in moves.get(name, (name,)):
            wanted[to] = wanted.get(to, {}) | found
    assert sink.progress().bad_rows == wanted
    assert sink.progress().losses == {name: {LOSS.id: LOSS} for name in moves.get(SHOP, (SHOP,))}


LOSS = Loss("file number 3 is missing before number 4", "shop/item/17/CDC000004.json", 20, 30)


def test_an_accepted_loss_keeps_a_name_from_one_moment(sink: Sink) -> None:
    sink.record(ProgressChange(applied_ts=30))
    assert sink.progress().at_one_moment
    sink.record(ProgressChange(losses={SHOP: {LOSS.id: LOSS}}))
    assert not sink.progress().at_one_moment


def test_consumer_names_keep_progress_apart(target: Target, sink: Sink) -> None:
    sink.record(ProgressChange(applied_ts=5))
    sink.close()
    other = target.sink("other")
    assert other.acquire("file:///elsewhere") == Progress(upstream="file:///elsewhere")
    other.close()


def test_the_names_that_there_are_need_no_lease(target: Target, sink: Sink) -> None:
    sink.record(CHANGE)
    sink.close()
    other = target.sink("another")
    assert other.consumers().keys() == {"c"}
    other.acquire("file:///elsewhere")
    assert other.consumers() == {"another": 0, "c": 0}
    other.close()


def test_another_upstream_is_refused(target: Target, sink: Sink) -> None:
    sink.record(ProgressChange(applied_ts=1))  # a file in which nothing is recorded may go with its consumer
    sink.close()
    other = target.sink()
    with pytest.raises(WrongUpstream):
        other.acquire("s3://bucket/another")
    other.close()
    again = target.sink()
    assert again.acquire(UPSTREAM).upstream == UPSTREAM
    again.close()


def test_another_time_zone_is_refused(target: Target, sink: Sink) -> None:
    sink.record(ProgressChange(applied_ts=1))
    assert sink.progress().time_zone == "UTC"
    sink.close()
    other = target.sink(zone="+08:00")
    with pytest.raises(BadConfig, match="--tz"):
        other.acquire(UPSTREAM)
    other.close()


@pytest.mark.parametrize(
    "change",
    [
        ProgressChange(applied_ts=29),
        ProgressChange(applied_ts=31, tables={SHOP: TableProgress(39, State.STOPPED, "why")}),
        ProgressChange(tables={LOG: TableProgress(29, State.STOPPED, "why")}),
        ProgressChange(tables={SHOP: None}),
    ],
    ids=["the replica", "a table with a place", "a table without one", "a table that would lose its place"],
)
def test_nothing_of_a_change_is_recorded_that_would_move_a_table_back(sink: Sink, change: ProgressChange) -> None:
    sink.record(ProgressChange(applied_ts=30, tables={SHOP: TableProgress(40)}))
    before = sink.progress()
    more = ProgressChange(folders={FOLDER: FolderProgress(1, 2, "x")})
    with pytest.raises(ProgressMoved):
        sink.record(more.merged(change))
    assert sink.progress() == before


def test_a_rewind_moves_a_table_back(sink: Sink) -> None:
    sink.record(ProgressChange(applied_ts=30, tables={SHOP: TableProgress(40)}))
    sink.empty_table(SHOP, ProgressChange(tables={SHOP: TableProgress(7)}, rewind=True))
    assert sink.progress().table(SHOP) == TableProgress(7)


def test_what_loads_have_read_is_added_up(target: Target, sink: Sink) -> None:
    sink.record(ProgressChange(audit=(AuditRow("load", SHOP, 1, 2, 3, puts=2), AuditRow("ddl", SHOP, 2, 2, 9, puts=9))))
    sink.record(ProgressChange(audit=(AuditRow("load", SHOP, 2, 3, 4, puts=1, deletes=2), AuditRow("load", LOG, 1, 2))))
    assert sink.loaded() == {SHOP: (7, 3), LOG: (0, 0)}


def test_old_audit_rows_go_when_a_round_ends(target: Target, sink: Sink) -> None:
    if not isinstance(target, Server | DuckDb):
        pytest.skip("its audit is no table of SQL")
    sink.record(ProgressChange(audit=(AuditRow("load", SHOP, 1, 2), AuditRow("load", LOG, 1, 2))))
    long_ago = "UPDATE storage_consumer.audit SET finished = TIMESTAMP '2001-01-01 00:00:00' WHERE table_name = 'log'"
    if isinstance(target, Server):
        target.server.execute(long_ago)
    else:
        with duckdb.connect(str(target.path)) as connection:
            connection.execute(long_ago)
    sink.record(ProgressChange(applied_ts=5))
    assert target.rows(TableName("storage_consumer", "audit"))[0].count("item") == 1
    assert len(target.rows(TableName("storage_consumer", "audit"))) == 1


def test_a_table_belongs_to_the_name_that_took_it_first(target: Target, sink: Sink) -> None:
    assert sink.of_others() == {}
    assert sink.take({SHOP: None, LOG: 4}) == {}
    sink.record(ProgressChange(applied_ts=5, tables={SHOP: TableProgress(4, State.STOPPED, "it is there")}))
    assert sink.of_others().is_own(SHOP)
    sink.close()
    other = target.sink("another")
    assert other.of_others() == {SHOP: Owned("c", 4), LOG: Owned("c", 5)}
    other.acquire("file:///elsewhere")
    owned = other.take({SHOP: None, LOG: 4, NEW: None})
    assert owned == {SHOP: Owned("c", 4), LOG: Owned("c", 5)}
    assert (owned.is_own(NEW), owned.is_own(LOG)) == (True, False)
    assert other.take({LOG: 5}) == {SHOP: Owned("c", 4)}, "it begins where the other one has left it"
    other.close()
    assert sink.of_others() == {NEW: Owned("another", 0), LOG: Owned("another", 0)}


@pytest.mark.parametrize("state", [State.DROPPED, State.EXCLUDED])
def test_a_table_that_is_gone_or_left_out_is_nobodys(target: Target, sink: Sink, state: State) -> None:
    sink.take({SHOP: None, LOG: None})
    sink.record(ProgressChange(tables={SHOP: TableProgress(4), LOG: TableProgress(4)}))
    sink.record(ProgressChange(tables={SHOP: TableProgress(5, state)}))
    sink.record(ProgressChange(tables={LOG: TableProgress(5, State.STOPPED, "why")}))
    assert _own(sink) == [LOG]
    sink.take({SHOP: None})
    sink.record(ProgressChange(tables={SHOP: TableProgress(5, state)}))
    assert _own(sink) == [SHOP, LOG], "what is recorded again is about the table that was there before"
    sink.close()
    sink.forget()
    sink.close()
    assert _own(target.sink()) == []


def _own(sink: Sink) -> list[TableName]:
    owned = sink.of_others()
    return [table for table in (SHOP, LOG) if owned.is_own(table)]


def test_a_table_with_rows_of_several_stays_while_one_of_them_is_there(target: Target, sink: Sink) -> None:
    routes = ("shop.item -> shop.log merge src", "shop.new -> shop.log merge src")
    sink.take({LOG: None})
    sink.record(ProgressChange(routes=naming_of(routes_of(routes)).routes, tables={SHOP: TableProgress(4)}))
    sink.record(ProgressChange(tables={NEW: TableProgress(4)}))
    sink.record(ProgressChange(tables={SHOP: TableProgress(5, State.EXCLUDED)}))
    assert _own(sink) == [LOG], "the other one has rows there"
    sink.record(ProgressChange(tables={NEW: TableProgress(5, State.DROPPED)}))
    assert _own(sink) == [LOG], "the target's table is there"
    sink.record(ProgressChange(tables={NEW: TableProgress(6)}))
    sink.record(ProgressChange(tables={NEW: TableProgress(7, State.EXCLUDED)}))
    assert _own(sink) == []


def test_a_name_that_is_forgotten_leaves_nothing_but_the_tables(target: Target, sink: Sink) -> None:
    sink.record(CHANGE)
    other = target.sink("c")
    with pytest.raises(LeaseHeld):
        other.forget()
    sink.close()
    another = target.sink("another")
    another.acquire(UPSTREAM)
    another.record(CHANGE)
    kept = another.progress()
    another.close()
    other.forget()
    other.close()
    assert other.progress() == Progress()
    assert other.consumers().keys() == {"another"}
    assert another.progress() == kept
    again = target.sink("c")
    assert again.acquire("file:///elsewhere") == Progress(upstream="file:///elsewhere")
    again.close()


def test_a_replay_leaves_its_tables_to_who_begins_where_it_ended(target: Target, sink: Sink) -> None:
    sink.close()
    replay, later = target.sink("c.0-5"), target.sink("c.5-9")
    replay.acquire(UPSTREAM)
    replay.take({SHOP: None, LOG: 0})
    replay.record(ProgressChange(applied_ts=5, tables={SHOP: TableProgress(5)}))
    replay.close()
    later.acquire(UPSTREAM)
    assert later.take({SHOP: 4}) == {SHOP: Owned("c.0-5", 5), LOG: Owned("c.0-5", 5)}
    assert later.take({SHOP: 5}) == {LOG: Owned("c.0-5", 5)}
    later.close()
    again = target.sink("d")
    again.acquire(UPSTREAM)
    assert again.take({SHOP: None}).keys() == {LOG}, "it is made again"
    again.record(ProgressChange(applied_ts=5))
    again.close()
    late = target.sink("e.5-9")
    late.acquire(UPSTREAM)
    assert late.take({SHOP: 9}).keys() == {LOG, SHOP}, "a replay takes nothing from who continues with it"
    late.close()
