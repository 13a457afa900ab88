"""Which table has a name, and had it, behind statements that move tables."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from consumer.history.history import History
from consumer.history.incarnations import Incarnation
from consumer.history.target_tables import TargetTables, is_left_undone, was_executed
from consumer.model.actions import Action
from consumer.model.files import SchemaFile
from consumer.model.names import TableName
from consumer.model.progress import (
    LEFT_UNDONE,
    DdlKind,
    DdlRecord,
    DdlState,
    Progress,
    ProgressChange,
    State,
    TableProgress,
)
from consumer.model.steps import ddl_id
from tests.support.build import schema_file

NOTHING = Progress()
A, B, X = (TableName("d", name) for name in "abx")


def history_of(*files: SchemaFile) -> History:
    """The files are in upstream's order."""
    history = History()
    for file in files:
        history.follow(file, history.look(file))
    history.reach_checkpoint()
    return history


def made(table: str, version: int) -> SchemaFile:
    query = f"CREATE TABLE `{table}` (`id` INT PRIMARY KEY)"
    return schema_file(f"d.{table}", version, Action.CREATE_TABLE, query)


def renamed(old: str, new: str, version: int) -> SchemaFile:
    query = f"RENAME TABLE `d`.`{old}` TO `d`.`{new}`"
    return schema_file(f"d.{new}", version, Action.RENAME_TABLE, query)


def dropped(table: str, version: int) -> SchemaFile:
    return schema_file(f"d.{table}", version, Action.DROP_TABLE, f"DROP TABLE `d`.`{table}`")


def shown(table: str, version: int) -> SchemaFile:
    return schema_file(f"d.{table}", version, query="")


def there(history: History, *waiting: SchemaFile, progress: Progress = NOTHING) -> dict[TableName, Incarnation]:
    """What the target has where these have not run."""
    not_run = {file.path for file in waiting}
    return TargetTables(history, lambda file: file.path not in not_run).followed_tables(progress)


def told(tables: dict[TableName, Incarnation]) -> dict[TableName, tuple[SchemaFile | None, list[TableName]]]:
    return {name: (table.birth, table.names) for name, table in tables.items()}


def test_tables_that_change_names_in_one_statement_stay_what_they_are_though_no_statement_names_one_before() -> None:
    first = made("a", 10)
    moves = [renamed("a", "b", 12), renamed("b", "a", 12)]
    for order in (moves, moves[::-1]):
        found = history_of(first, *order).alive
        assert told({**found}) == {B: (first, [A, B]), A: (None, [B, A])}


def test_a_table_that_passes_through_another_name_in_one_statement_stays_what_it_is() -> None:
    one, other = made("a", 10), made("b", 11)
    found = history_of(one, other, renamed("a", "x", 12), renamed("b", "a", 12), renamed("x", "b", 12))
    assert told({**found.alive}) == {A: (other, [B, A]), B: (one, [A, X, B])}


def test_copies_and_renames_know_where_they_come_from() -> None:
    files = [
        schema_file("d.old", 20),
        schema_file("e.far", 21, Action.CREATE_TABLE, "CREATE TABLE `e`.`far` LIKE `OLD`"),
        schema_file("e.near", 22, Action.CREATE_TABLE, "CREATE TABLE `near` LIKE `far`"),
        schema_file("e.old", 23, Action.CREATE_TABLE, "CREATE TABLE `e`.`old` LIKE `nowhere`"),
        schema_file("d.two", 24, Action.CREATE_TABLE, "CREATE TABLE `two` LIKE `old`"),
        schema_file("d.new", 40, Action.RENAME_TABLE, "RENAME TABLE `d`.`old` TO `d`.`new`"),
    ]
    old, far = TableName("d", "old"), TableName("e", "far")
    assert list(origins(files)) == [None, old, far, None, old, old]


def origins(files: Iterable[SchemaFile]) -> Iterable[TableName | None]:
    history = History()
    for file in files:
        event = history.look(file)
        yield None if event is None else event.old_name or event.copied
        history.follow(file, event)


def test_a_name_has_had_one_table_after_the_other() -> None:
    files = [made("a", 10), renamed("a", "b", 20), made("a", 30), dropped("a", 40), shown("a", 50)]
    history = history_of(*files)
    one, two, three = history.incarnations
    assert [history.at(A, ts) for ts in (9, 10, 20, 29, 30, 40, 49, 50)] == [
        None, one, None, None, two, None, None, three
    ]  # fmt: skip
    assert [history.at(B, ts) for ts in (19, 20, 99)] == [None, one, one]
    assert (history.tables_named(A, 9), history.tables_named(A, 29), history.tables_named(A, 35)) == (
        [three],
        [one, three],
        [one, two, three],
    )
    assert (two.end, three.birth, three.files) == (files[3], None, [files[4]])


def test_a_table_that_is_told_of_later_was_there_all_along_unless_that_made_it() -> None:
    history = history_of(shown("a", 50), made("b", 60))
    assert history.at(A, 1) is history.alive[A]
    assert history.at(B, 1) is None


def test_the_target_has_what_statements_that_wait_leave_there() -> None:
    files = [made("a", 10), renamed("a", "b", 20), dropped("b", 30), made("b", 40)]
    history = history_of(*files)
    assert told(there(history)) == {B: (files[3], [B])}
    assert told(there(history, *files[3:])) == {}
    assert told(there(history, *files[2:])) == {B: (files[0], [A, B])}
    assert told(there(history, *files[1:])) == {A: (files[0], [A])}
    assert told(there(history, *files)) == {}
    assert [table.files for table in there(history, *files[1:]).values()] == [files[:1]]


def test_files_above_the_checkpoint_change_no_table_and_tell_what_they_declare() -> None:
    history = history_of(made("a", 10))
    later = schema_file("d.a", 20, Action.ADD_COLUMN, "ALTER TABLE `a` ADD COLUMN `v` INT")
    for file in (later, renamed("a", "b", 30), dropped("b", 40)):
        history.follow(file, history.look(file))
    (table,) = history.incarnations
    assert (history.alive, table.names, table.end, len(table.files)) == ({A: table}, [A], None, 1)
    assert (history.at(A, 99), len(history.followed_files)) == (table, 1)
    assert "v" in history.shape(later).columns


def test_a_table_whose_end_nobody_tells_does_not_come_back_when_the_next_one_of_its_name_is_gone() -> None:
    history = history_of(made("a", 10), made("a", 20), dropped("a", 30))
    assert told(there(history)) == {}
    assert told(there(history, history.followed_files[2].file)) == {A: (history.followed_files[1].file, [A])}


def test_a_table_that_waits_for_a_new_name_is_not_what_became_of_it_under_that() -> None:
    """Of a name that the table rules leave out nothing waits, and nothing runs."""
    files = [made("a", 10), renamed("a", "b", 20), shown("b", 25), dropped("b", 30)]
    found = there(history_of(*files), files[1], files[3])
    assert told(found) == {A: (files[0], [A])}
    assert (found[A].files, found[A].end) == (files[:1], None)


def test_a_table_that_was_passed_over_has_not_taken_the_name_of_one_that_waits_for_another() -> None:
    files = [made("a", 10), renamed("a", "b", 20), made("a", 30)]
    found = there(history_of(*files), *files[1:])
    assert told(found) == {A: (files[0], [A])}
    assert found[A].files == files[:1]


def test_the_target_does_not_go_on_from_a_table_whose_end_was_passed_over() -> None:
    """What was left of it there was taken away."""
    files = [made("a", 10), dropped("a", 20)]
    record = DdlRecord.skipped(ddl_id(files[1]), DdlKind.PASSED_OVER, "")
    progress = Progress().after(ProgressChange(ddls=(record,)))
    assert told(there(history_of(*files), files[1])) == {A: (files[0], [A])}
    assert told(there(history_of(*files), files[1], progress=progress)) == {}


@pytest.mark.parametrize(
    ("kind", "ran", "undone"),
    [
        (DdlKind.EXECUTED, True, False),
        (DdlKind.BY_HAND, True, False),
        (DdlKind.GIVEN, True, False),
        (DdlKind.IGNORED, True, False),
        (DdlKind.KEPT, True, False),
        (DdlKind.NO_ROWS, True, False),
        (DdlKind.LEFT, True, False),
        (DdlKind.OVERTAKEN, False, False),
        (DdlKind.PASSED_OVER, False, True),
        (DdlKind.NOT_MADE, False, True),
    ],
)
def test_what_became_of_a_statement_is_its_kind_whatever_somebody_gave_as_the_reason(
    kind: DdlKind, ran: bool, undone: bool
) -> None:
    file = dropped("a", 20)
    state = DdlState.DONE if kind is DdlKind.EXECUTED else DdlState.SKIPPED
    reasons = (
        "done by hand",
        "overtaken by DROP TABLE `d`.`a`",
        "the target was given its table as of --start-ts 5",
        "the policy for drop-table is ignore",
        *LEFT_UNDONE.values(),
    )
    for reason in reasons:
        record = DdlRecord(ddl_id(file), state, reason=reason, kind=kind)
        progress = Progress(ddls={record.id: record}, tables={A: TableProgress(20, State.DROPPED)})
        assert (was_executed(file, progress), is_left_undone(file, progress)) == (ran, undone)
        assert progress.was_preloaded(record.id) is (kind is DdlKind.GIVEN)
        assert progress.was_ignored(record.id) is (kind in (DdlKind.IGNORED, DdlKind.KEPT))
        assert progress.kept_tables == ({A} if kind is DdlKind.KEPT else set())


def test_a_table_to_which_a_rename_gives_its_first_known_name_is_not_there_before_it() -> None:
    files = [schema_file("d.b", 20, Action.RENAME_TABLE, "RENAME TABLE `gone` TO `b`"), shown("b", 25)]
    history = history_of(*files)
    assert B not in there(history, files[0])
    assert B in there(history)


def test_a_table_that_got_its_name_by_hand_has_all_that_came_before_it() -> None:
    files = [made("a", 10), renamed("a", "b", 20), made("a", 30)]
    found = there(history_of(*files), files[0])
    assert told(found) == {B: (files[0], [A, B]), A: (files[2], [A])}
    assert found[B].files == files[:2]


def test_a_name_that_upstream_gave_to_another_table_below_the_watermark_is_known() -> None:
    files = [made("a", 10), renamed("a", "b", 20), made("a", 30)]
    history = history_of(*files)
    own = there(history, *files[1:])[A]
    assert [history.next_named(A, own, end) for end in (20, 30, 31, 99)] == [0, 0, 30, 30]
    assert history.next_named(A, there(history)[A], 99) == 0
