"""Of every place that makes a hint: the test that does what the hint says and sees it help, or that there is none."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]

FOLLOWED = {
    "test_bad_input.py::test_a_gap_can_be_accepted": [
        "plan/gaps.py:find_gap",
    ],
    "test_bad_input.py::test_damage_stops_one_table_until_it_is_mended": [
        "codec/errors.py:bad_end",
        "layout/schema_file.py:_verified",
        "layout/schema_file.py:parse_schema_file",
        "plan/catalog.py:schema_missing",
    ],
    "test_bad_input.py::test_metadata_that_is_no_checkpoint_is_tried_again_later": [
        "layout/checkpoint_file.py:_corrupt",
    ],
    "test_bad_input.py::test_without_metadata_the_flag_is_named": [
        "storage/reader.py:checkpoint",
    ],
    "test_date_order.py::test_a_person_says_which_of_them_is_right": [
        "plan/date_order.py:_mixed",
    ],
    "test_ddl_policy.py": [
        "ddl/recover.py:not_kept_hint",
        "pipeline/statements.py:_ignore",
    ],
    "test_doubts.py::test_a_key_of_times_stops_its_table_unless_accepted": [
        "pipeline/load_notes.py:ambiguous_key",
    ],
    "test_hints.py::test_a_column_that_was_dropped_by_hand": [
        "sink/duckdb/tables/prepare.py:_drift",
    ],
    "test_hints.py::test_a_rename_that_names_no_table": [
        "plan/statement.py:lacks_old_name",
    ],
    "test_hints.py::test_a_row_that_was_taken_away_by_hand": [
        "sink/duckdb/rows/merge.py:_remove",
    ],
    "test_hints.py::test_a_statement_that_came_late": [
        "plan/late.py:_overdue",
    ],
    "test_hints.py::test_a_statement_that_the_policy_refuses": [
        "plan/statement.py:refused_by_policy",
    ],
    "test_hints.py::test_a_table_of_another_type_is_made_anew": [
        "cli/run_text.py:way_back",
        "sink/duckdb/rows/merge.py:publish",
    ],
    "test_hints.py::test_a_table_that_comes_back_goes_on": [
        "pipeline/gone.py:_dropped",
    ],
    "test_hints.py::test_a_table_that_was_dropped_by_hand_is_made_anew": [
        "pipeline/gone.py:_told",
    ],
    "test_hints_in_sql.py::test_a_table_with_no_key_gets_an_engine_with_transactions": [
        "sink/mysql/tables/prepare.py:_check_table",
    ],
    "test_hints_in_sql.py::test_on_a_file": [
        "sink/duckdb/rows/merge.py:_complete",
    ],
    "test_hints_in_sql.py::test_on_a_server": [
        "sink/mysql/rows/staged.py:_complete",
        "sink/mysql/tables/prepare.py:_check_types",
        "sink/mysql/tables/prepare.py:_handle_key",
        "sink/mysql/tables/unique_keys.py:_refuse_extra",
    ],
    "test_hints_of_rows.py::test_a_copy_from_upstream_goes_on_where_the_rows_are_whole": [
        "codec/csv/errors.py:drift",
        "codec/csv/errors.py:inexact",
        "codec/csv/layouts.py:csv_layouts",
        "codec/csv/values.py:_cast",
        "codec/errors.py:carrying",
        "codec/errors.py:key_lacking",
        "codec/errors.py:key_missing",
        "codec/errors.py:key_null",
        "codec/errors.py:no_commit_ts",
        "codec/errors.py:old_missing",
        "fold/keyed.py:_refuse_given_away",
        "fold/keyed.py:_refuse_timeless",
        "fold/keyed.py:_refuse_unordered",
        "fold/keyless.py:_written_again",
        "fold/side_by_side.py:_compare",
    ],
    "test_hints_of_servers.py::test_a_consumer_that_is_still_at_work": [
        "sink/mysql/progress/lease.py:_taken",
    ],
    "test_hints_of_servers.py::test_a_table_that_was_changed_by_hand": [
        "sink/mysql/tables/prepare.py:_drift",
        "sink/mysql/tables/prepare.py:_target",
    ],
    "test_hints_of_storages.py::test_a_damaged_file_that_nobody_can_restore": [
        "codec/errors.py:corrupt",
    ],
    "test_hints_of_storages.py::test_a_fifo_among_the_files": [
        "pipeline/unreadable.py:given_up",
    ],
    "test_hints_of_storages.py::test_a_link_that_leads_back": [
        "storage/local.py:_loop",
    ],
    "test_hints_of_storages.py::test_a_resync_of_a_table_whose_files_are_gone": [
        "pipeline/resync.py:_check_files",
    ],
    "test_hints_of_storages.py::test_a_resync_while_the_checkpoint_is_below_what_was_applied": [
        "pipeline/resync.py:_check_moment",
    ],
    "test_hints_of_storages.py::test_a_table_that_is_dropped_upstream_is_not_made_anew": [
        "pipeline/resync.py:_made_anew",
    ],
    "test_hints_of_storages.py::test_a_table_that_is_older_than_the_changefeed_is_not_made_anew": [
        "pipeline/resync.py:_birth",
    ],
    "test_hints_of_storages.py::test_an_older_table_is_created_as_the_hint_writes_it": [
        "sink/missing.py:table_missing",
    ],
    "test_hints_of_usage.py::test_a_backfill_of_a_target_that_is_not_empty": [
        "app/commands.py:backfill",
    ],
    "test_hints_of_usage.py::test_a_folder_without_its_scheme": [
        "storage/settings.py:_split",
    ],
    "test_hints_of_usage.py::test_a_machine_whose_zone_has_no_name": [
        "config/clocks.py:_own_zone",
    ],
    "test_hints_of_usage.py::test_a_range_that_is_not_there_yet": [
        "app/replay.py:replay",
    ],
    "test_hints_of_usage.py::test_a_replica_that_began_elsewhere": [
        "app/parts.py:start_of",
    ],
    "test_hints_of_usage.py::test_a_second_run_on_one_file": [
        "sink/columnar/lock.py:_lock",
    ],
    "test_hints_of_usage.py::test_a_secret_that_was_masked": [
        "config/load.py:_check_secrets",
    ],
    "test_hints_of_usage.py::test_a_target_that_is_another_file": [
        "sink/duckdb/connection.py:_another_file",
    ],
    "test_hints_of_usage.py::test_another_protocol_or_a_file_in_place_of_its_folder": [
        "plan/undecided.py:check_protocol",
        "storage/errors.py:translate",
    ],
    "test_hints_of_usage.py::test_another_zone_or_another_upstream": [
        "sink/progress_rows.py:check_time_zone",
        "sink/progress_rows.py:check_upstream",
    ],
    "test_hints_of_usage.py::test_as_the_hint_says": [
        "app/parts.py:checkpoint_of",
        "app/replay.py:_check",
        "app/replay.py:_name",
        "cli/forget.py:forget",
        "cli/status.py:_longest",
        "config/changefeed.py:_parse",
        "pipeline/repair.py:record_as_done",
        "pipeline/resync.py:_check_name",
        "sink/duckdb/settings.py:from_uri",
    ],
    "test_hints_of_usage.py::test_settings_that_are_not_there": [
        "config/load.py:_checked",
        "config/load.py:_environment",
    ],
    "test_late_files.py::test_late_rows_can_be_accepted_as_lost": [
        "codec/windows.py:refuse_late",
    ],
    "test_narrowed_rules.py": [
        "plan/statement.py:moves_left_out_rows",
    ],
    "test_never_split.py::test_it_stops_and_goes_on_once_the_setting_that_the_hint_names_is_set": [
        "fold/keyless.py:_refuse_shared",
    ],
    "test_refused_statements.py": [
        "sink/duckdb/statements/execute.py:_refused",
        "sink/mysql/statements/plan.py:refused",
    ],
    "test_retention.py::test_a_first_run_that_is_told_how_long_files_stay_goes_on": [
        "plan/retention.py:gap",
    ],
    "test_told.py::test_a_table_that_a_replay_stops_is_offered_no_resync": [
        "app/commands.py:resync",
    ],
    "test_two_names.py::test_a_name_is_forgotten_once_somebody_is_sure": [
        "app/commands.py:forget",
    ],
    "test_two_names.py::test_a_retired_name_is_forgotten": [
        "pipeline/others.py:belongs_to",
    ],
    "test_undecided_csv.py::test_what_inspect_prints_does_not_run_until_the_encoding_is_said": [
        "plan/undecided.py:check_decided",
    ],
}
"""By the test (or the file of tests) below tests/e2e, the places whose hints it follows."""

WORDS_ALONE = {
    "app/replay.py:_check_dialect", "cli/session.py:report_bug", "cli/starved.py:starved", "codec/csv/checks.py:check",
    "codec/csv/checks.py:key_loss", "codec/csv/errors.py:corrupt", "codec/csv/layouts.py:_check_labels",
    "codec/csv/values.py:_check_number", "codec/errors.py:lacking", "ddl/charsets.py:_stand_in",
    "ddl/resolve.py:_meant", "codec/errors.py:mislabelled", "ddl/rewrite_mysql.py:_refuse", "errors.py:__init__",
    "fold/keyless.py:_refuse_coarse", "model/progress.py:check", "observe/profiling.py:serving",
    "pipeline/load_notes.py:keyless_without_checkpoint", "pipeline/loads.py:_breaks_jobs",
    "pipeline/resync.py:_check_order", "pipeline/resync.py:_check_foreign_keys", "pipeline/resync.py:_check_statements",
    "plan/date_order.py:_came_late", "plan/date_order.py:_turned", "plan/gaps.py:find_lost_rest",
    "plan/standing.py:kept_by_policy", "sink/columnar/values.py:_refused", "sink/columnar/writer.py:_save",
    "sink/duckdb/connection.py:_translated", "sink/duckdb/progress/lease.py:check_epoch",
    "sink/duckdb/rows/merge.py:_staged_columns", "sink/duckdb/sink.py:_held", "sink/duckdb/tables/prepare.py:_answer",
    "sink/duckdb/too_large.py:merge_too_large", "sink/duckdb/too_large.py:statement_too_large",
    "sink/memory/statements.py:_check_free", "sink/memory/statements.py:execute",
    "sink/mysql/progress/epochs.py:gone_back", "sink/mysql/progress/epochs.py:taken_over",
    "sink/mysql/progress/migrate.py:_alone", "sink/mysql/rows/multiset.py:_remove",
    "sink/mysql/rows/replace.py:_refused", "sink/mysql/rows/staged.py:_check_computed",
    "sink/mysql/rows/staged.py:_collision", "sink/mysql/rows/values.py:_not_a_value",
    "sink/mysql/rows/values.py:form_of", "sink/mysql/server/connection.py:_translated",
    "sink/mysql/server/connection.py:check_session", "sink/mysql/server/errors.py:translate",
    "sink/mysql/server/wire.py:_read_load_local_packet", "sink/mysql/settings.py:from_uri",
    "sink/mysql/tables/own.py:_drift", "sink/mysql/tables/prepare.py:_check_labels",
    "sink/mysql/tables/rounded.py:refuse_indistinct", "sink/mysql/tables/session_times.py:_refused",
    "sink/progress_formats.py:check_format", "sink/progress_sql.py:register", "sink/progress_rows.py:begins_too_early",
    "sink/refused.py:refused_change", "spark/failures.py:told", "spark/session.py:_borrowed", "spark/session.py:_check",
    "spark/session.py:_why_not", "spark/tasks.py:_unexpected", "spark/waiting.py:add", "storage/files.py:changed",
    "storage/files.py:check_length", "storage/local.py:_open", "storage/reader.py:_unreadable",
    "storage/remote.py:_connected", "storage/settings.py:_check", "types/blobs.py:_not_encoded",
    "types/blobs.py:latin1_to_binary", "types/floats.py:_not_a_float", "types/labels.py:_each_distinct",
    "types/times.py:to_utc",
}  # fmt: skip
"""Places of whose hints only the words are checked (tests/unit/test_words_of_hints.py): they take a changefeed that is
changed and writes its files anew, a cloud, another release, a machine without memory or room, or a moment that no test
of the whole program can choose."""


def test_every_hint_is_followed_or_known_not_to_be() -> None:
    followed = [place for places in FOLLOWED.values() for place in places]
    assert len(followed) == len(set(followed))
    assert set(followed) | WORDS_ALONE == set(_places())
    assert not WORDS_ALONE & set(followed)


def test_the_tests_that_follow_them_are_there() -> None:
    for case in FOLLOWED:
        file, _, name = case.partition("::")
        assert f"def {name}" in (ROOT / "tests" / "e2e" / file).read_text(encoding="utf-8"), case


def _places() -> Iterator[str]:
    """``file:function`` of every keyword ``hint`` in the package, and of the functions that make commands for some."""
    for file in (ROOT / "consumer").rglob("*.py"):
        place = file.relative_to(ROOT / "consumer").as_posix()
        if place == "model/commands.py":
            continue
        for function in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(function, ast.FunctionDef):
                nodes = list(ast.walk(function))
                given = any(isinstance(node, ast.keyword) and node.arg == "hint" for node in nodes)
                called = {n.func.id for n in nodes if isinstance(n, ast.Call) and isinstance(n.func, ast.Name)}
                if given or called & {"resync_command", "skip_ddl_command", "refused_hint", "forget_command"}:
                    yield f"{place}:{function.name}"
