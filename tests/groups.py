"""Which tests `make test` runs, and in which group of `make proof` each of the others is: this table alone says so.

A test belongs to the group that names it most exactly: by its own name, its file or its folder. One that needs a server
that not everybody has (a MySQL, an emulator of a cloud) belongs to the group of that server. All others are those of
`make test`.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache

import pytest

TEST = "test"
_QUICK_PROPERTIES = (
    "alike_lines",
    "bad_lines",
    "codec",
    "csv_codec",
    "expressions",
    "fold",
    "fold_keyless",
    "milliseconds",
    "paths",
)
"""Those that `make test` tries too, with fewer examples."""
_FOR_OLDEST = (
    "tests/unit",
    "tests/contract",
    "tests/e2e/test_compare_duckdb.py",
    "tests/e2e/test_spark_docs.py",
    "tests/e2e/test_spark_source.py",
    # What they compare is as the locked pydantic writes it, and the locked rich draws it.
    *("--deselect", "tests/unit/test_results.py::test_the_committed_schema_is_of_these_models"),
    *("--deselect", "tests/unit/cli/test_terminal.py::test_no_word_is_broken_on_a_terminal"),
)
KEPT = (
    "e2e/test_check.py::test_a_storage_and_a_target_that_are_in_order",
    "e2e/test_load_export.py::test_a_file_holds_every_value",
    "e2e/test_load_export.py::test_killed_anywhere_nothing_is_lost_or_doubled",
    "e2e/test_load_export.py::test_the_command_line",
    "e2e/test_load_export.py::test_the_rows_of_the_export_then_the_changes_above_it",
    "e2e/test_load_export.py::test_what_is_no_whole_export_is_refused",
    "e2e/test_resync_beside.py::test_killed_anywhere_the_table_is_whole_before_and_after",
    "e2e/test_refused_statements.py::test_a_refused_statement_follows_the_policy_of_the_next_run",
    "e2e/test_several.py::test_the_examples_of_the_docs",
    "e2e/test_several.py::test_two_upstreams_fill_one_target",
    "e2e/test_together.py::test_none_goes_further_than_the_lowest_checkpoint",
    "e2e/test_two_names.py::test_a_second_consumer_is_kept_from_the_tables_of_the_first",
    "e2e/test_verify.py::test_what_was_changed_by_hand_is_named_and_mended",
)
"""Tests that `make test` runs, of files that are a group's."""


@dataclass(frozen=True)
class Group:
    """`minutes`: its usual time on two quiet cores."""

    what: str
    minutes: int
    paths: tuple[str, ...] = ()
    """Folders, files and single tests (``file.py::test_name``) below ``tests``."""
    programs: tuple[tuple[str, ...], ...] = ()
    """Modules to run, with their flags, behind the tests. Flags of `make proof` come after these."""
    python: str = sys.executable
    """Which Python runs them."""
    tools: tuple[str, ...] = ()
    """What is installed first: ``mysql``, ``azurite``, ``chromium``."""
    environment: dict[str, str] = field(default_factory=dict)


GROUPS = {
    "mysql9": Group(
        "the tests of servers once more, on a MySQL 9.7",
        15,
        paths=(
            "e2e/test_coarse_keys.py::test_a_server_with_gtids_that_logs_statements_takes_staged_rows",
            "e2e/test_syncpoints.py::test_without_gtids_the_position_is_that_of_the_binary_log",
        ),
        tools=("mysql",),
    ),
    "tidb": Group(
        "contracts, statements, table modes, recorded changefeeds once more on a TiDB; `verify`; exports of a Dumpling;"
        " random statements that a TiDB runs as upstream; kills",
        45,
        programs=(
            ("tests.e2e.corpus_report", "--target", "tidb"),
            ("tests.support.random_ddl", "--minutes", "10", "--target", "tidb"),
            ("tests.faults", "--runs", "1", "--targets", "tidb"),
        ),
        tools=("tidb",),
    ),
    "clouds": Group(
        "S3 over a bad network, the emulators of Google Cloud Storage and of Azure",
        3,
        paths=("e2e/test_s3.py", "e2e/test_clouds.py", "unit/storage/test_clouds.py"),
        tools=("azurite",),
    ),
    "cluster": Group(
        "Spark as a cluster, its start from an archive, its failures, a data source; a Galera cluster as the target",
        6,
        paths=(
            "integration/spark",
            "integration/mysql/test_galera.py",
            "e2e/test_archived_start.py",
            "e2e/test_memory_limit.py",
            "e2e/test_spark_docs.py::test_all_examples_and_the_notebook_run_as_they_stand",
            "e2e/test_spark_source.py",
            "unit/spark/test_archive.py",
        ),
    ),
    "processes": Group(
        "the program as a process: signals, terminals, closed streams, several at once, compose.yaml",
        6,
        paths=(
            "e2e/test_compose.py",
            "e2e/test_process.py",
            "e2e/test_several_processes.py",
            "e2e/test_signals.py",
            "e2e/test_terminal.py",
            "e2e/test_waiting.py",
            "e2e/test_busy_tables.py",
            "e2e/test_several.py",
            "e2e/test_together.py",
        ),
    ),
    "page": Group(
        "the page of `run --http` in headless Chromium, with thousands of tables",
        1,
        paths=("e2e/test_page.py",),
        tools=("chromium",),
    ),
    "airflow": Group(
        "the DAGs of examples/ in a real Airflow",
        3,
        paths=("e2e/test_airflow.py",),
        tools=("airflow",),
    ),
    "corpus": Group(
        "the recorded changefeeds through Spark on every target, whole and step by step, and in every table mode",
        8,
        paths=("e2e/test_compare_duckdb.py", "e2e/test_forms.py", "e2e/test_spark_source_corpus.py"),
        programs=(("tests.e2e.corpus_report",),),
        tools=("mysql",),
    ),
    "lakes": Group(
        "lakes as targets, also on S3: recorded changefeeds, random statements, kills, readers beside a live `run`",
        120,
        paths=("lakes",),
        programs=(
            ("tests.e2e.corpus_report", "--target", "delta,iceberg"),
            ("tests.support.random_ddl", "--minutes", "15", "--target", "delta,iceberg"),
            ("tests.faults", "--runs", "1", "--targets", "delta,iceberg", "--points", "rows are being published"),
            ("tests.faults", "--runs", "1", "--targets", "delta,iceberg", "--spark", "--kinds", "worker"),
        ),
        tools=("lakes",),
    ),
    "verify": Group(
        "every difference that `verify` must find, and make right: on servers, in every table mode, in a million rows",
        12,
        paths=(
            "e2e/test_eras.py",
            "e2e/test_verify_forms.py",
            "e2e/test_verify_histories.py",
            "e2e/test_verify_lost_files.py",
            "e2e/test_verify_repair.py",
            "e2e/test_verify_servers.py",
            "e2e/test_verify_types.py",
            "e2e/test_verify.py",
            "e2e/test_verify_not_compared.py",
        ),
        programs=(("tests.bench.differences",),),
    ),
    "quarantine": Group(
        "bad rows that are quarantined, in every place, through every statement, by every protocol",
        6,
        paths=(
            "e2e/test_quarantine.py",
            "e2e/test_quarantine_moves.py",
            "e2e/test_quarantine_refused.py",
            "e2e/test_quarantine_retry.py",
            "e2e/test_quarantine_commands.py",
            "e2e/test_refused_rows.py::test_the_newest_line_of_the_row",
        ),
    ),
    "shaping": Group(
        "columns, filters, masks, merged tables and table modes: exact situations, kills at any moment",
        8,
        paths=(
            "e2e/test_columns.py",
            "e2e/test_event_filters.py",
            "e2e/test_forms_at_every_statement.py",
            "e2e/test_forms_by_hand.py",
            "e2e/test_history.py",
            "e2e/test_kept_columns.py",
            "e2e/test_masks.py",
            "e2e/test_merged_routes.py",
            "e2e/test_row_filters.py",
        ),
    ),
    "statements": Group(
        "policies, foreign and refused statements, names that move, are exchanged or left out",
        5,
        paths=(
            "e2e/test_ddl_policy.py",
            "e2e/test_dropped_under_another_name.py",
            "e2e/test_foreign_statements.py",
            "e2e/test_left_out_renames.py",
            "e2e/test_narrowed_rules.py",
            "e2e/test_statement_text.py",
            "e2e/test_swapped_names.py",
            "e2e/test_changed_before_a_statement.py",
            "e2e/test_refused_statements.py",
            "e2e/test_two_names.py",
        ),
    ),
    "moments": Group(
        "tables that begin at a moment, older ones, exports, replays, reloads that die, retention, a copy for readers",
        9,
        paths=(
            "e2e/test_load_export.py",
            "e2e/test_resync_beside.py",
            "e2e/test_older_tables.py",
            "e2e/test_reading_copy.py",
            "e2e/test_replay.py",
            "e2e/test_retention.py",
            "e2e/test_starts.py",
            "e2e/test_starts_lose_nothing.py",
            "e2e/test_starts_on_targets.py",
            "e2e/test_written_anew.py::test_without_commit_ts_a_file_that_was_only_copied_is_what_was_read",
        ),
    ),
    "tables": Group(
        "what tables of a target can be like: types, labels, keys, computed columns, defaults of servers, hands",
        5,
        paths=(
            "e2e/test_computed_columns.py",
            "e2e/test_computed_keys.py",
            "e2e/test_labels.py",
            "e2e/test_narrow_types.py",
            "e2e/test_nulls_in_the_target.py",
            "e2e/test_progress_by_hand.py",
            "e2e/test_server_defaults.py",
            "unit/sink/duckdb/test_types.py::test_keys_of_every_kind_are_found_again",
            "e2e/test_doubtful_keys.py::test_texts_that_differ_in_blanks_only",
            "e2e/test_doubtful_keys.py::test_twins_stop_a_restored_table",
        ),
    ),
    "hints": Group(
        "what hints say, done as it is printed",
        3,
        paths=(
            "e2e/test_hints.py",
            "e2e/test_hints_of_csv.py",
            "e2e/test_hints_of_rows.py",
            "e2e/test_hints_of_owners.py",
            "e2e/test_hints_of_servers.py",
            "e2e/test_bad_input.py::test_damage_stops_one_table_until_it_is_mended",
            "e2e/test_check.py",
            "e2e/test_losses.py::test_the_command_that_accepts_a_loss_names_the_table",
        ),
    ),
    "readers": Group(
        "what readers see: consistency levels, moments, syncpoints beside a live `run`; older releases of DuckDB; which"
        " readers of lakes and files read which targets",
        15,
        paths=(
            "e2e/test_consistency.py",
            "e2e/test_consistency_parts.py",
            "e2e/test_older_duckdb.py",
            "e2e/test_syncpoints.py",
        ),
        programs=(("tests.e2e.readers_report",),),
        tools=("older DuckDB", "lakes"),
    ),
    "oldest": Group(
        "units, contracts, the corpus on DuckDB and the data source with the oldest releases that pyproject.toml"
        " admits, PySpark 4.0 among them",
        15,
        programs=(("pytest", "-n", "2", "--dist", "loadfile", "-W", "ignore::DeprecationWarning", *_FOR_OLDEST),),
        python="build/oldest/bin/python",
        tools=("oldest releases",),
    ),
    "properties": Group(
        "random histories, files and statements: those that take long, and ten times the examples of the others",
        30,
        paths=(
            "property/test_forms.py",
            "property/test_fuzzed_files.py",
            "e2e/test_growth.py",
            "property/test_history.py",
            "property/test_listing.py",
            "property/test_hostile_names.py",
            "property/test_merged_tables.py",
            "property/test_moments.py",
            "property/test_other_names.py",
            "property/test_partition_rows.py",
            "property/test_pipeline.py",
            "property/test_random_ddl.py",
            "property/test_random_ddl_duckdb.py",
            "property/test_rules_and_policies.py",
            "property/test_spark_source.py",
            "property/test_table_rules.py",
            "property/test_unique_keys.py",
            "property/test_values.py",
            "property/test_verify.py",
            "property/test_verify_ddl.py",
        ),
        programs=(
            ("pytest", "tests/e2e/test_rounds.py", *(f"tests/property/test_{name}.py" for name in _QUICK_PROPERTIES)),
        ),
        environment={"EXAMPLES": "10"},
        tools=("mysql",),
    ),
    "histories": Group(
        "random statements on every target, from new seeds",
        11,
        programs=(("tests.support.random_ddl", "--minutes", "10"),),
        tools=("mysql",),
    ),
    "simulate": Group(
        "random histories against the driver and all readers (`verify` and its repair, the state, changes, a stream,"
        " `undo`) in a simulated world, from new seeds; each mend undone, of the driver or of a reader, is seen",
        20,
        paths=(
            "simulate/test_simulate.py::test_it_is_the_same_in_processes_side_by_side",
            "simulate/test_simulate.py::test_more_histories_end_in_the_state_of_upstream",
            "simulate/test_simulate.py::test_histories_of_rows_that_are_seen_together",
        ),
        programs=(
            ("tests.simulate", "--minutes", "5"),
            ("tests.simulate", "--minutes", "2", "--consistency", "table"),
            ("tests.simulate", "--minutes", "2", "--consistency", "snapshot"),
            ("tests.simulate", "--minutes", "2", "--lake"),
            ("tests.simulate", "--minutes", "5", "--readers"),
            ("tests.simulate.mutants",),
        ),
    ),
    "faults": Group(
        "kills, freezes, cuts and fail-overs at each named point of a round, on every target; full disks",
        30,
        paths=(
            "faults/test_faults.py::test_a_server_of_snapshots_is_right_after_it",
            "faults/test_faults.py::test_a_file_is_right_after_it",
            "e2e/test_fail_over.py",
            "e2e/test_full_disk.py",
            "e2e/test_kill.py",
            "integration/mysql/test_trash.py::test_a_death_before_any_statement_ends_the_same",
            "e2e/test_rounds.py::test_rows_of_tables_with_no_key_count_once_whenever_a_run_dies",
            "e2e/test_little_room.py",
            "e2e/test_rounds.py::test_a_backlog_in_many_small_rounds_ends_equal",
        ),
        programs=(
            ("tests.faults", "--runs", "1"),
            ("tests.faults", "--runs", "1", "--spark", "--targets", "mysql"),
        ),
        environment={"EXAMPLES": "3"},
        tools=("mysql",),
    ),
    "soak": Group(
        "half an hour beside a live changefeed: killed again and again, watched for what grows",
        32,
        paths=("soak/test_soak.py::test_a_leak_and_a_wrong_row_are_seen",),
        programs=(("tests.soak", "--minutes", "30"),),
    ),
}


@cache
def _by_path() -> dict[str, str]:
    found = {path: name for name, group in GROUPS.items() for path in group.paths}
    return found | dict.fromkeys(KEPT, TEST)


def group_of(item: pytest.Item) -> str:
    """`TEST`, or the name of the group of proof that a test belongs to."""
    place = item.nodeid.removeprefix("tests/").partition("[")[0]
    needed = set() if place.startswith("unit/ddl/") else set(_needed(item))
    if needed & {"mysql", "fresh_mysql", "staged_mysql"}:
        return "mysql9"
    if needed & {"tidb", "fresh_tidb", "staged_tidb"}:
        return "tidb"
    if needed & {"lake_spark", "delta", "iceberg"}:
        return "lakes"
    if needed & {"gcs", "azure"}:
        return "clouds"
    return group_of_path(place)


def group_of_path(place: str) -> str:
    """By ``folder/file.py::test_name``."""
    while place:
        if place in _by_path():
            return _by_path()[place]
        place = place.rpartition("::")[0] or os.path.dirname(place)
    return TEST


def has_none_of_test(place: str) -> bool:
    """Whether all tests of a file or folder belong to groups."""
    return group_of_path(place) != TEST and not any(kept.startswith(place) for kept in KEPT)


def _needed(item: pytest.Item) -> Iterator[str]:
    """The fixtures that a test asks for, also those that a parameter names."""
    yield from getattr(item, "fixturenames", ())
    for value in getattr(getattr(item, "callspec", None), "params", {}).values():
        for word in value if isinstance(value, tuple) else (value,):
            if isinstance(word, str):
                yield word.lower()
