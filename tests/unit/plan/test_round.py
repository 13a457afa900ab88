"""One round, played through: what runs in which wave, and what holds what up."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from consumer.codec.csv.options import CsvFormat
from consumer.errors import ConsumerError, RowRefused
from consumer.layout.schema_file import VIEW_COLUMN_TYPE
from consumer.model.actions import Action
from consumer.model.columns import Column
from consumer.model.files import Bounds, DataFile, Listing, SchemaFile
from consumer.model.load import Dialect
from consumer.model.names import TableName
from consumer.model.progress import DdlRecord, DdlState, Progress
from consumer.model.rules import Consistency
from consumer.model.steps import Window, ddl_id
from consumer.model.table_rules import Batches
from consumer.plan.assembly import Assembly
from consumer.plan.options import FileOptions
from consumer.plan.round import Round
from consumer.plan.unread import TableInRound, unread_files
from tests.support.build import data_file, schema_file

FILES, TIMELESS = FileOptions(Dialect()), FileOptions(Dialect("csv", options=CsvFormat()))

Rows = Mapping[str, Sequence[int]]
"""Table -> commit-ts: each stands for one file with one row, in the folder of version 10."""


@dataclass
class Game:
    """Plays a round in which everything goes through but the loads of `stopped` tables."""

    round: Round
    stopped: Mapping[str, ConsumerError]
    bounds: Mapping[str, Bounds]
    waves: list[list[str]] = field(default_factory=list)

    def play(self) -> Game:
        while wave := self._statements() or self._loads():
            self.waves.append([step for step in wave if step])
        return self

    def _statements(self) -> list[str]:
        ready = self.round.ready_statements()
        for statement in ready:
            self.round.applied(statement)
        return [f"{statement.file.name}@{statement.version}" for statement in ready]

    def _loads(self) -> list[str]:
        wanted = self.round.wants_bounds()
        self.round.learned({file.path: self.bounds[file.path] for file in wanted})
        before = {name: state.position for name, state in self.round.tables.items()}
        steps = []
        for load in self.round.ready_loads():
            error = self.stopped.get(str(load.table))
            if error is not None:
                self.round.stopped(load.table, error)
                steps.append(f"{load.table} stops")
            else:
                self.round.loaded(load, {planned.file.path: 0 for planned in load.files})
                steps.append(f"{load.table}:{len(load.files)} to {load.window.end}")
        moved = before != {name: state.position for name, state in self.round.tables.items()}
        return steps or ([""] if moved else [])

    @property
    def barriers(self) -> list[tuple[str, str]]:
        return [(f"{b.file.name}@{b.file.version}", b.waits_for) for b in self.round.barriers()]


def prepared(
    schemas: Sequence[SchemaFile],
    rows: Rows | None = None,
    stopped: Sequence[str] = (),
    wanted: Callable[[TableName], bool] = lambda name: True,
    checkpoint: int = 100,
    timeless: Sequence[DataFile] = (),
    most: int = 1 << 30,
) -> Game:
    """`most`: bytes of a round, and of a transaction in which rows are published."""
    files: dict[str, list[DataFile]] = {}
    bounds: dict[str, Bounds] = {}
    for table, moments in (rows or {}).items():
        root = table.replace(".", "/")
        files[root] = [data_file(number, root) for number in range(1, len(moments) + 1)]
        bounds |= {file.path: Bounds(ts, ts, True) for file, ts in zip(files[root], moments, strict=True)}
    for file in timeless:
        files.setdefault(file.folder.root, []).append(file)
    assembly = Assembly.of(Listing(checkpoint, schemas, files), Progress(), wanted)
    states = {
        name: TableInRound(name, 0, unread_files(assembly.files.get(name, ()), {}), most) for name in assembly.tables
    }
    errors = dict.fromkeys(stopped, RowRefused("the row is bad"))
    batches = Batches(most, consistency=Consistency.SNAPSHOT, publish_bytes=most)
    return Game(assembly.round(states, TIMELESS if timeless else FILES, batches), errors, bounds)


def play(schemas: Sequence[SchemaFile], rows: Rows | None = None, **others: Any) -> Game:
    return prepared(schemas, rows, **others).play()


def created(*names: str) -> list[SchemaFile]:
    return [schema_file(name, 10) for name in names]


def comment(name: str, version: int) -> SchemaFile:
    table = name.partition(".")[2]
    return schema_file(name, version, Action.MODIFY_TABLE_COMMENT, f"ALTER TABLE `{table}` COMMENT 'x'")


def truncated(name: str, version: int) -> SchemaFile:
    return schema_file(name, version, Action.TRUNCATE_TABLE, f"TRUNCATE TABLE `{name.partition('.')[2]}`")


def test_all_ready_statements_go_together_and_then_all_ready_loads() -> None:
    game = play([*created("d.a", "d.b"), comment("d.a", 20)], {"d.a": [15, 25], "d.b": [12, 90]})
    assert game.waves == [
        ["d.a@10", "d.b@10"],
        ["d.a:1 to 20", "d.b:2 to 100"],
        ["d.a@20"],
        ["d.a:1 to 100"],
    ]


def test_old_files_under_the_name_of_a_view_are_no_rows_of_its() -> None:
    shown = (Column("id", VIEW_COLUMN_TYPE),)
    view = schema_file("d.a", 30, Action.CREATE_VIEW, "CREATE VIEW `a` AS SELECT 1", shown)
    drop = schema_file("d.a", 20, Action.DROP_TABLE, "DROP TABLE `d`.`a`")
    again = schema_file("d.a", 50, Action.CREATE_TABLE)
    gone = schema_file("d.a", 40, Action.DROP_VIEW, "DROP VIEW `d`.`a`", shown)
    assert play([*created("d.a"), drop, view], {"d.a": [15, 25]}).waves[-1] == []
    waves = play([*created("d.a"), drop, view, gone, again], {"d.a": [15, 60]}).waves
    assert waves[1] == ["d.a:1 to 20"]
    assert waves[-1] == ["d.a:1 to 100"]


def test_a_statement_waits_for_the_rows_below_it_and_not_for_those_above() -> None:
    game = play([*created("d.a"), comment("d.a", 20), comment("d.a", 30)], {"d.a": [25, 35]})
    assert game.waves == [
        ["d.a@10"],
        [],
        ["d.a@20"],
        ["d.a:1 to 30"],
        ["d.a@30"],
        ["d.a:1 to 100"],
    ]


BARRIERS = {
    "rename": schema_file("d.n", 20, Action.RENAME_TABLE, "RENAME TABLE `d`.`a` TO `d`.`n`"),
    "exchange": schema_file(
        "d.p", 20, Action.EXCHANGE_PARTITION, "ALTER TABLE `d`.`p` EXCHANGE PARTITION `x` WITH TABLE `d`.`a`"
    ),
    "create like": schema_file("d.n", 20, Action.CREATE_TABLE, "CREATE TABLE `n` LIKE `a`"),
    "create view": schema_file("d.n", 20, Action.CREATE_VIEW, "CREATE VIEW `n` AS SELECT 1 FROM `p` JOIN `a`"),
    "foreign key": schema_file(
        "d.p", 20, Action.ADD_FOREIGN_KEY, "ALTER TABLE `p` ADD CONSTRAINT `f` FOREIGN KEY (`v`) REFERENCES `a`(`id`)"
    ),
    "drop database": schema_file("d", 20, Action.DROP_SCHEMA, "DROP DATABASE `d`"),
}


@pytest.mark.parametrize("kind", BARRIERS)
def test_a_statement_waits_for_every_table_it_names_and_for_no_other(kind: str) -> None:
    barrier = BARRIERS[kind]
    label = f"{barrier.name}@20"
    schemas = [*created("d.a", "d.p", "e.other"), barrier, comment("e.other", 15)]
    rows = {"d.a": [12], "d.p": [13], "e.other": [14, 16]}
    waves = play(schemas, rows).waves
    assert waves[1] == ["d.a:1 to 20", "d.p:1 to 20" if kind not in ("rename", "create like") else "d.p:1 to 100",
                        "e.other:1 to 15"]  # fmt: skip
    assert label in waves[2]
    assert "e.other@15" in waves[2]
    # Where the other table cannot be loaded, the statement stays behind it, and says why.
    game = play(schemas, rows, stopped=["d.a"])
    if kind == "drop database":
        assert game.barriers == []
    else:
        assert game.barriers == [(label, "d.a: the row is bad")]
        assert "e.other:1 to 100" in game.waves[-1]


def test_tables_behind_a_barrier_go_up_to_it_and_no_further() -> None:
    schemas = [*created("d.a", "d.p"), BARRIERS["foreign key"], comment("d.p", 30)]
    game = play(schemas, {"d.a": [12], "d.p": [13, 25]}, stopped=["d.a"])
    assert game.round.tables[TableName("d", "p")].position == 20
    assert game.barriers == [("d.p@20", "d.a: the row is bad"), ("d.p@30", "d.a: the row is bad")]


def test_statements_of_one_table_run_one_after_the_other() -> None:
    game = play([*created("d.a"), comment("d.a", 20), comment("d.a", 30)])
    assert game.waves == [["d.a@10"], ["d.a@20"], ["d.a@30"], []]


RENAMED = schema_file("d.b", 35, Action.RENAME_TABLE, "RENAME TABLE `d`.`a` TO `d`.`b`")
CHARSET = schema_file("d", 25, Action.MODIFY_SCHEMA_CHARSET, "ALTER DATABASE `d` CHARACTER SET = utf8mb4")


@pytest.mark.parametrize(
    ("between", "rows", "behind"),
    [
        ([], [], [30, 40, 50]),
        ([], [5, 60], [30, 40, 50]),
        ([], [35], [30]),
        ([truncated("d.a", 35)], [], [30]),
        ([RENAMED], [], [30]),
        ([CHARSET], [], []),
    ],
)
def test_what_only_alters_the_same_table_can_run_right_behind(
    between: list[SchemaFile], rows: list[int], behind: list[int]
) -> None:
    schemas = sorted([*(comment("d.a", 10 * n) for n in range(2, 6)), *between], key=lambda file: file.version)
    game = prepared([*created("d.a"), *schemas], {"d.a": rows})
    game.round.applied(*game.round.ready_statements())
    while not (ready := game.round.ready_statements()):
        game._loads()
    first = next(statement for statement in ready if statement.file.table)
    found = game.round.followers_of(first, 9)
    assert [statement.version for statement in found] == behind
    for statement in found:  # none of them ran
        game.round.requeue(statement)
    assert game.round.ready_statements() == []
    game.round.applied(first)
    game._loads()
    assert [s.version for s in game.round.ready_statements() if s.file.table == "a"] == behind[:1]


def test_rows_of_more_than_one_transaction_lie_between_though_the_next_part_ends_in_front_of_them() -> None:
    game = prepared([*created("d.a"), comment("d.a", 20), comment("d.a", 60)], {"d.a": [50, 50]}, most=50)
    game.round.applied(*game.round.ready_statements())
    while not (ready := game.round.ready_statements()):
        game._loads()
    assert [statement.version for statement in ready] == [20]
    assert game.round.followers_of(ready[0], 9) == []


def test_a_database_comes_before_its_tables_and_goes_after_them() -> None:
    schemas = [
        schema_file("d", 5, Action.CREATE_SCHEMA, "CREATE DATABASE `d`"),
        *created("d.a"),
        schema_file("d", 20, Action.DROP_SCHEMA, "DROP DATABASE `d`"),
        schema_file("d", 21, Action.CREATE_SCHEMA, "CREATE DATABASE `d`"),
        schema_file("d.a", 22),
    ]
    game = play(schemas, {"d.a": [12, 23]})
    assert game.waves == [["d@5"], ["d.a@10"], ["d.a:1 to 20"], ["d@20"], ["d@21"], ["d.a@22"], ["d.a:1 to 100"]]


def test_a_stopped_table_does_not_hold_up_its_database() -> None:
    alter = schema_file("d", 30, Action.MODIFY_SCHEMA_CHARSET, "ALTER DATABASE `d` COLLATE = utf8mb4_bin")
    game = play([*created("d.a"), comment("d.a", 20), alter, schema_file("d.b", 40)], {"d.a": [12]}, stopped=["d.a"])
    assert game.barriers == [("d.a@20", "d.a: the row is bad")]
    assert ["d@30"] in game.waves
    assert ["d.b@40"] in game.waves


def test_a_healing_statement_waits_for_healthy_tables_and_overtakes_stuck_statements() -> None:
    drop = schema_file("d", 40, Action.DROP_SCHEMA, "DROP DATABASE `d`")
    schemas = [*created("d.a", "d.b"), comment("d.a", 20), comment("d.b", 30), drop]
    game = play(schemas, {"d.a": [12], "d.b": [13, 35]}, stopped=["d.a"])
    assert game.waves == [
        ["d.a@10", "d.b@10"],
        ["d.a stops", "d.b:1 to 30"],
        ["d.b@30"],
        ["d.b:1 to 40"],
        ["d@40"],
    ]
    assert game.round.pending == []
    assert game.round.live == set()


def test_a_database_is_not_dropped_while_a_table_of_its_has_yet_to_move_out() -> None:
    move = schema_file("e.n", 20, Action.RENAME_TABLE, "RENAME TABLE `d`.`a` TO `e`.`n`")
    drop = schema_file("d", 30, Action.DROP_SCHEMA, "DROP DATABASE `d`")
    game = play([*created("d.a"), comment("d.a", 15), move, drop], {"d.a": [12]}, stopped=["d.a"])
    assert game.barriers == [
        ("d.a@15", "d.a: the row is bad"),
        ("e.n@20", "d.a: the row is bad"),
        ("d@30", "d.a: the row is bad"),
    ]


def test_a_healing_statement_does_not_overtake_a_barrier_with_another_table() -> None:
    like = schema_file("d.n", 20, Action.CREATE_TABLE, "CREATE TABLE `n` LIKE `a`")
    drop = schema_file("d.n", 30, Action.DROP_TABLE, "DROP TABLE `d`.`n`")
    game = play([*created("d.a"), like, drop], {"d.a": [12]}, stopped=["d.a"])
    assert game.barriers == [("d.n@20", "d.a: the row is bad"), ("d.n@30", "d.a: the row is bad")]


def test_what_the_filter_leaves_out_is_neither_loaded_nor_waited_for() -> None:
    like = schema_file("d.n", 20, Action.CREATE_TABLE, "CREATE TABLE `n` LIKE `a`")
    game = play([*created("d.a"), like], {"d.a": [12]}, wanted=lambda name: name != TableName("d", "a"))
    assert game.waves == [["d.n@20"], []]


def test_at_the_checkpoint_only_statements_of_one_file_run() -> None:
    rename = schema_file("d.n", 100, Action.RENAME_TABLE, "RENAME TABLE `d`.`a` TO `d`.`n`")
    exchange = schema_file(
        "d.p", 100, Action.EXCHANGE_PARTITION, "ALTER TABLE `d`.`p` EXCHANGE PARTITION `x` WITH TABLE `d`.`q`"
    )
    several = schema_file("d.m", 100, Action.CREATE_TABLES, "CREATE TABLE `m` (`id` INT PRIMARY KEY);")
    renames = schema_file("d.o", 100, Action.RENAME_TABLES, "RENAME TABLE `d`.`b` TO `d`.`o`")
    schemas = [*created("d.a", "d.b", "d.p", "d.q"), rename, renames, exchange, several, comment("d.q", 100)]
    rows = {"d.a": [12, 100], "d.q": [13]}
    at = play(schemas, rows)
    assert [wave for wave in at.waves if any("@100" in step for step in wave)] == [["d.q@100"]]
    assert "d.a:2 to 100" in at.waves[1]
    past = play(schemas, rows, checkpoint=101)
    assert sorted(step for wave in past.waves for step in wave if "@100" in step) == [
        "d.m@100",
        "d.n@100",
        "d.o@100",
        "d.p@100",
        "d.q@100",
    ]


def test_rows_without_time_go_by_their_folders_and_need_no_bounds() -> None:
    files = [data_file(1, "d/a", version) for version in (10, 20, 30, 100, 110)]
    game = play([*created("d.a"), comment("d.a", 20), truncated("d.a", 30)], timeless=files)
    assert game.waves == [
        ["d.a@10"],
        ["d.a:1 to 20"],
        ["d.a@20"],
        ["d.a:1 to 30"],
        ["d.a@30"],
        ["d.a:2 to 100"],
    ]


def test_rows_without_time_from_before_a_tables_beginning_stay_unread() -> None:
    """In a later round, files come to light that are older than the TRUNCATE, and one that is older than an ALTER."""
    schemas = [*created("d.a"), truncated("d.a", 30), comment("d.a", 40)]
    files = [data_file(number, "d/a", version) for number, version in ((1, 10), (1, 30), (2, 30))]
    done = [DdlRecord(ddl_id(schema), DdlState.DONE) for schema in schemas]
    progress = Progress("u", 50, ddls={record.id: record for record in done})
    assembly = Assembly.of(Listing(100, schemas, {"d/a": files}), progress, lambda name: True)
    state = TableInRound(TableName("d", "a"), 50, unread_files(files, {}), 1)
    (load,) = assembly.round({state.name: state}, TIMELESS, Batches(1)).ready_loads()
    assert [planned.file for planned in load.files] == files[1:]
    assert load.window == Window(50, 100)
