"""Which statements are pending, and which tables exist in the target meanwhile."""

from collections.abc import Iterable, Sequence

from consumer.model.actions import Action
from consumer.model.columns import Column
from consumer.model.ddl_policy import DdlPolicy
from consumer.model.files import SchemaFile
from consumer.model.names import TableName
from consumer.model.progress import DdlRecord, DdlState, Progress, State, TableProgress
from consumer.model.steps import ddl_id
from consumer.plan.catalog import Catalog
from consumer.plan.ddl_step import ddl_step, statement_refusal
from consumer.plan.timeline import Timeline, build_timeline
from tests.support.build import schema_file

STOPPED, OLD, NEW = TableName("d", "stopped"), TableName("d", "old"), TableName("d", "new")
CREATE_STOPPED = schema_file("d.stopped", 10)
CREATE_OLD = schema_file("d.old", 20)
REFUSED = schema_file("d.stopped", 30, Action.TRUNCATE_PARTITION, "ALTER TABLE `stopped` TRUNCATE PARTITION `p0`")
RENAME = schema_file("d.new", 40, Action.RENAME_TABLE, "RENAME TABLE `d`.`old` TO `d`.`new`")
DESCRIBED = schema_file("d.stopped", 50, query="")


def timeline(files: Sequence[SchemaFile], done: Sequence[SchemaFile] = (), **tables: TableProgress) -> Timeline:
    ddls = {ddl_id(file): DdlRecord(ddl_id(file), DdlState.DONE) for file in done}
    places = {TableName("d", name): place for name, place in tables.items()}
    progress = Progress("u", 60 if done else 0, places, {}, ddls)
    return build_timeline(Catalog.of(files), progress, 100, lambda name: True)


def test_before_the_first_statement_nothing_exists() -> None:
    found = timeline([CREATE_STOPPED, CREATE_OLD, RENAME, DESCRIBED])
    assert [statement.version for statement in found.pending] == [10, 20, 40]
    assert set(found.live) == set()


def test_a_rename_of_a_table_to_itself_is_refused_for_what_it_is() -> None:
    itself = schema_file("d.new", 40, Action.RENAME_TABLE, "RENAME TABLE `d`.`new` TO `d`.`new`")
    (_, statement) = timeline([CREATE_OLD, itself]).pending
    error = statement_refusal(statement)
    assert error is not None
    assert "renamed to d.new: the statement renames it to itself, as TiCDC has lost the old name" in error.message


def test_what_ran_after_a_refused_statement_of_another_table_counts() -> None:
    found = timeline(
        [CREATE_STOPPED, CREATE_OLD, REFUSED, RENAME, DESCRIBED],
        done=[CREATE_STOPPED, CREATE_OLD, RENAME],
        stopped=TableProgress(30, State.STOPPED),
        old=TableProgress(40, State.DROPPED),
    )
    assert [statement.file for statement in found.pending] == [REFUSED]
    assert set(found.live) == {STOPPED, NEW}


def test_a_pending_rename_finds_the_name_that_a_pending_create_gives() -> None:
    found = timeline([CREATE_OLD, RENAME])
    assert [statement.old_name for statement in found.pending] == [None, OLD]


def rename(old: str, new: str, version: int) -> SchemaFile:
    return schema_file(f"d.{new}", version, Action.RENAME_TABLE, f"RENAME TABLE `d`.`{old}` TO `d`.`{new}`")


def moves(found: Timeline) -> list[tuple[str, str, int]]:
    return [(s.old_name.table, s.file.table, s.version) for s in found.pending if s.old_name is not None]


def names(tables: Iterable[TableName]) -> set[str]:
    return {name.table for name in tables}


def test_a_name_left_and_taken_again() -> None:
    found = timeline([schema_file("d.a", 10), rename("a", "b", 20), rename("b", "a", 30), rename("a", "b", 40)])
    assert moves(found) == [("a", "b", 20), ("b", "a", 30), ("a", "b", 40)]
    assert names(found.history.alive) == {"b"}


def test_names_exchanged_through_a_third_one() -> None:
    created = [schema_file("d.a", 10), schema_file("d.b", 11)]
    found = timeline([*created, rename("a", "x", 20), rename("b", "a", 21), rename("x", "b", 22)])
    assert moves(found) == [("a", "x", 20), ("b", "a", 21), ("x", "b", 22)]
    assert names(found.history.alive) == {"a", "b"}
    assert [names(statement.drops) for statement in found.pending[2:]] == [{"a"}, {"b"}, {"x"}]


def test_renames_of_one_version_run_in_the_order_in_which_names_become_free() -> None:
    created = [schema_file(f"d.{name}", 10) for name in "abc"]
    found = timeline([*created, rename("a", "b", 20), rename("b", "c", 20), rename("c", "z", 20)])
    assert moves(found) == [("c", "z", 20), ("b", "c", 20), ("a", "b", 20)]
    assert names(found.history.alive) == {"b", "c", "z"}


def test_a_table_dropped_and_made_again_lives_once() -> None:
    drop = schema_file("d.old", 30, Action.DROP_TABLE, "DROP TABLE `d`.`old`")
    again = schema_file("d.old", 40)
    found = timeline([CREATE_OLD, drop, again], done=[CREATE_OLD, drop], old=TableProgress(30, State.DROPPED))
    assert [statement.file for statement in found.pending] == [again]
    assert names(found.live) == set()
    assert names(found.history.alive) == {"old"}


def test_a_database_dropped_takes_all_of_its_tables() -> None:
    drop = schema_file("d", 30, Action.DROP_SCHEMA, "DROP DATABASE `d`")
    found = timeline([CREATE_STOPPED, CREATE_OLD, schema_file("e.t", 25), drop, rename("x", "new", 40)])
    statement = next(s for s in found.pending if s.file is drop)
    assert set(statement.touches) == {TableName("d", ""), STOPPED, OLD}
    assert set(statement.drops) == {STOPPED, OLD}
    assert set(found.history.alive) == {TableName("e", "t"), NEW}


def test_a_table_older_than_the_changefeed_lives_before_its_first_statement() -> None:
    alter = schema_file("d.old", 20, Action.MODIFY_TABLE_COMMENT, "ALTER TABLE `old` COMMENT 'x'")
    found = timeline([alter, rename("gone", "new", 30)])
    assert set(found.live) == {OLD, TableName("d", "gone")}
    assert names(found.history.alive) == {"old", "new"}


def test_a_table_older_than_the_changefeed_is_waited_for_by_what_names_it_before_its_first_schema_file() -> None:
    view = schema_file("d.v", 30, Action.CREATE_VIEW, "CREATE VIEW `v` AS SELECT `id` FROM `e`.`Old` JOIN `stopped`")
    drop = schema_file("e.old", 40, Action.DROP_TABLE, "DROP TABLE `e`.`old`")
    shown = schema_file("e.old", 40, query="")
    for last in (drop, shown):
        found = timeline([CREATE_STOPPED, view, last])
        assert found.pending[1].touches == (STOPPED, TableName("d", "v"), TableName("e", "old"))


def test_a_statement_older_than_the_progress_is_told_of_and_not_executed() -> None:
    found = timeline([CREATE_OLD, RENAME], done=[CREATE_OLD], new=TableProgress(50))
    assert found.pending == ()
    assert found.overdue == (RENAME,)


def test_a_statement_whose_intent_is_open_is_pending_whatever_the_progress_says() -> None:
    intent = {ddl_id(RENAME): DdlRecord(ddl_id(RENAME), DdlState.INTENT, "before")}
    progress = Progress("u", 90, {}, {}, {ddl_id(CREATE_OLD): DdlRecord(ddl_id(CREATE_OLD), DdlState.DONE)} | intent)
    found = build_timeline(Catalog.of([CREATE_OLD, RENAME]), progress, 100, lambda name: True)
    assert [statement.file for statement in found.pending] == [RENAME]


def test_what_the_filter_leaves_out_is_not_executed_but_renaming_a_wanted_table_away_is() -> None:
    files = [schema_file("d.a", 10), schema_file("d.b", 11), rename("a", "c", 20), rename("b", "e", 21)]
    found = build_timeline(Catalog.of(files), Progress(), 100, lambda name: name.table in ("", "a"))
    assert [statement.version for statement in found.pending] == [10, 20]
    assert names(found.live) == {"e"}
    assert names(found.history.alive) == {"c", "e"}


def test_a_statement_moves_what_it_touches_and_leaves_what_is_further() -> None:
    like = schema_file("d.new", 40, Action.CREATE_TABLE, "CREATE TABLE `new` LIKE `old`")
    done = {ddl_id(CREATE_OLD): DdlRecord(ddl_id(CREATE_OLD), DdlState.DONE)}
    progress = Progress("u", 0, {OLD: TableProgress(70)}, {}, done)
    found = build_timeline(Catalog.of([CREATE_OLD, like]), progress, 100, lambda name: True)
    statement = found.pending[0]
    assert statement.before(progress).tables == {NEW: TableProgress(40)}
    assert statement.after().tables == {NEW: TableProgress(40)}
    assert statement.touches == (NEW, OLD)


def test_a_recovery_comes_behind_the_last_statement_that_took_its_table() -> None:
    first = schema_file("d.old", 25, Action.TRUNCATE_TABLE, "TRUNCATE TABLE `old`")
    drop = schema_file("d.old", 30, Action.DROP_TABLE, "DROP TABLE `d`.`old`")
    recover = schema_file("d.new", 70, Action.RECOVER_TABLE, "FLASHBACK TABLE `OLD` TO `new`")
    for done in ([], [CREATE_OLD, first, drop]):
        found = timeline([CREATE_OLD, first, drop, recover], done=done)
        assert found.pending[-1].touches == (NEW, OLD)
        assert found.pending[-1].trash == TableName("d", "__trash_30_old")
        tombstone = Progress("u", 60, {OLD: TableProgress(30, State.DROPPED)})
        assert set(found.pending[-1].before(tombstone).tables) == {NEW}


def test_a_policy_decides_what_heals_and_where_the_table_goes() -> None:
    drop = schema_file("d.old", 30, Action.DROP_TABLE, "DROP TABLE `d`.`old`")
    for policy in DdlPolicy:
        heals = policy in (DdlPolicy.EVOLVE, DdlPolicy.RENAME)
        found = build_timeline(
            Catalog.of([CREATE_OLD, drop]),
            Progress(),
            100,
            lambda name: True,
            lambda action, name, query="", to=policy: to,
        )
        statement = found.pending[-1]
        assert (statement.policy, statement.heals) == (policy, heals)
        assert (ddl_step(statement).trash is not None) is (policy is DdlPolicy.RENAME)


def test_where_the_checkpoint_went_back_a_name_has_what_the_target_has() -> None:
    view = (Column("id", "UNSPECIFIED"),)
    made = schema_file("d.old", 50, Action.CREATE_VIEW, "CREATE VIEW `old` AS SELECT 1", columns=view)
    ran = [CREATE_OLD, RENAME, made]
    ddls = {ddl_id(file): DdlRecord(ddl_id(file), DdlState.DONE) for file in ran}
    for place, expected in ((TableProgress(60), {OLD: view}), (TableProgress(50, State.DROPPED), {})):
        found = build_timeline(Catalog.of(ran), Progress("u", 60, {OLD: place}, {}, ddls), 30, lambda _: True)
        assert (found.pending, found.live) == ((), expected)
