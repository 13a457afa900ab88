"""Of every place that makes a hint: the test that does what it says and sees it help, or why there is none."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]

FOLLOWED = {
    "../contract/test_progress_formats.py::test_another_consumer_at_work_keeps_the_layout_as_it_is": [
        "sink/mysql/progress/migrate.py:_alone",
    ],
    "../integration/mysql/test_write_source.py::test_a_server_without_marks_is_named": [
        "sink/mysql/server/connection.py:session_of",
    ],
    "../integration/mysql/test_pooling_proxy.py::test_it_is_refused_and_nothing_is_wrong_behind_it": [
        "sink/mysql/server/connection.py:check_session",
    ],
    "../unit/storage/test_local.py::test_a_folder_that_is_away_while_it_is_listed": [
        "storage/local.py:_came_back",
    ],
    "test_starts.py::test_a_table_let_in_later_begins_at_its_snapshot": [
        "plan/starting.py:_refused",
    ],
    "test_starts.py::test_a_database_whose_drop_would_take_others_too": [
        "plan/starting.py:_last_drop",
    ],
    "test_starts_on_targets.py::test_rows_without_a_time_are_refused": [
        "app/parts.py:_check_times",
    ],
    "test_starts.py::test_an_exchange_before_the_moment": [
        "plan/starting.py:check_exchanged",
    ],
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
    "test_broken_jobs.py::test_a_table_that_breaks_every_job_stops_and_the_others_are_loaded": [
        "pipeline/loads.py:_breaks_jobs",
    ],
    "test_changed_before_a_statement.py::test_its_rows_do_not_come_behind_the_statement": [
        "plan/rewrites.py:check_places",
    ],
    "test_columns.py::test_rules_that_the_table_cannot_follow_stop_it": [
        "plan/table_modes.py:_check_chosen",
    ],
    "test_columns.py::test_rows_that_lack_columns_are_not_for_a_rule": [
        "pipeline/version_consumer.py:_check_chosen",
    ],
    "test_date_order.py::test_a_date_separator_that_was_changed_leaves_no_order_but_that_of_the_times": [
        "plan/date_order.py:_mixed",
    ],
    "test_date_order.py::test_a_file_of_an_earlier_date_that_came_late_stops_its_table": [
        "plan/date_order.py:_came_late",
    ],
    "test_date_order.py::test_a_person_says_which_of_them_is_right": [
        "plan/date_order.py:_turned",
    ],
    "test_ddl_policy.py::test_a_foreign_table_under_the_trash_name_is_neither_lost_nor_taken_for_the_kept_one": [
        "sink/memory/statements.py:_check_free",
    ],
    "test_ddl_policy.py::test_a_table_that_the_target_did_not_keep_stops_by_name": [
        "ddl/recover.py:not_kept_hint",
        "sink/memory/statements.py:execute",
    ],
    "test_ddl_policy.py::test_the_name_of_a_table_whose_drop_was_ignored_is_not_used_again": [
        "pipeline/statements.py:_ignore",
    ],
    "test_doubtful_keys.py::test_twins_stop_a_restored_table": [
        "sink/mysql/rows/staged.py:_collision",
    ],
    "test_doubts.py::test_a_key_of_times_stops_its_table_unless_accepted": [
        "pipeline/load_notes.py:ambiguous_key",
    ],
    "test_fail_over.py::test_nothing_is_lost_whenever_it_comes": [
        "sink/mysql/progress/epochs.py:gone_back",
    ],
    "test_hints.py::test_a_column_that_was_dropped_by_hand": [
        "sink/duckdb/tables/prepare.py:_drift",
    ],
    "test_hints.py::test_a_rename_that_names_no_table": [
        "plan/ddl_step.py:lacks_old_name",
    ],
    "test_hints.py::test_a_row_that_was_taken_away_by_hand": [
        "sink/duckdb/rows/merge.py:_remove",
    ],
    "test_hints.py::test_a_statement_that_came_late": [
        "plan/late.py:_overdue",
    ],
    "test_hints.py::test_a_statement_that_the_policy_refuses": [
        "plan/ddl_step.py:refused_by_policy",
    ],
    "test_hints.py::test_a_table_of_another_type_is_made_anew": [
        "cli/run_text.py:way_back",
        "sink/duckdb/rows/merge.py:publish",
    ],
    "test_hints.py::test_a_table_that_comes_back_goes_on": [
        "pipeline/gone.py:_dropped",
    ],
    "test_hints.py::test_a_table_that_start_ts_says_is_there_and_is_not": [
        "pipeline/gone.py:_not_there_at_start",
    ],
    "test_hints.py::test_a_table_that_was_dropped_by_hand_is_made_anew": [
        "pipeline/gone.py:_told",
    ],
    "test_hints_in_sql.py::test_a_table_with_no_key_gets_an_engine_with_transactions": [
        "sink/mysql/tables/checks.py:check_engine",
    ],
    "test_hints_in_sql.py::test_on_a_file": [
        "sink/duckdb/rows/merge.py:_complete",
    ],
    "test_hints_in_sql.py::test_on_a_server": [
        "sink/mysql/rows/staged.py:_complete",
        "sink/mysql/tables/checks.py:check_types",
        "sink/mysql/tables/prepare.py:_handle_key",
        "sink/mysql/tables/unique_keys.py:_refuse_extra",
    ],
    "test_hints_of_csv.py::test_a_damaged_file_is_taken_away": [
        "codec/csv/values.py:_check_number",
    ],
    "test_hints_of_csv.py::test_a_range_of_rows_that_have_no_time": [
        "app/replay.py:_check_dialect",
    ],
    "test_hints_of_csv.py::test_a_time_that_the_clocks_of_the_zone_never_showed": [
        "types/times.py:to_utc",
    ],
    "test_hints_of_csv.py::test_an_option_that_the_storage_does_not_show": [
        "codec/csv/checks.py:check",
    ],
    "test_hints_of_csv.py::test_labels_that_nothing_in_the_storage_tells": [
        "codec/csv/layouts.py:_check_labels",
    ],
    "test_hints_of_csv.py::test_old_keys_that_are_lost": [
        "codec/csv/checks.py:key_loss",
    ],
    "test_hints_of_csv.py::test_the_setting_that_the_hint_names": [
        "codec/csv/errors.py:corrupt",
        "types/blobs.py:_not_encoded",
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
    "test_hints_of_servers.py::test_a_server_that_does_not_let_us_in": [
        "sink/mysql/server/connection.py:_translated",
        "sink/mysql/settings.py:from_uri",
    ],
    "test_hints_of_servers.py::test_a_server_that_takes_no_writes": [
        "sink/mysql/server/errors.py:translate",
    ],
    "test_hints_of_servers.py::test_a_table_that_was_changed_by_hand": [
        "sink/mysql/tables/checks.py:check_table",
        "sink/mysql/tables/prepare.py:_table_of",
    ],
    "test_hints_of_storages.py::test_a_checkpoint_that_is_a_fifo": [
        "storage/local.py:_open",
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
    "test_hints_of_storages.py::test_a_link_that_leads_out": ["storage/local.py:_leads_out"],
    "test_hints_of_servers.py::test_a_password_command_that_cannot_be_run": [
        "sink/mysql/server/password.py:password_of",
        "sink/mysql/server/password.py:_failed",
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
    "test_hints_of_storages.py::test_a_value_that_is_none_of_its_type": [
        "sink/columnar/values.py:_refused",
        "sink/mysql/rows/values.py:_not_a_value",
        "types/blobs.py:latin1_to_binary",
        "types/floats.py:_not_a_float",
    ],
    "test_hints_of_storages.py::test_an_older_table_is_created_as_the_hint_writes_it": [
        "sink/missing.py:table_missing",
    ],
    "test_hints_of_tables.py::test_a_row_with_no_key_that_was_taken_away_by_hand": [
        "sink/mysql/rows/multiset.py:_remove",
    ],
    "test_hints_of_tables.py::test_a_table_is_made_to_fit": [
        "codec/errors.py:mislabelled",
        "sink/mysql/rows/replace.py:_refused",
        "sink/mysql/rows/staged.py:_check_computed",
        "sink/mysql/rows/values.py:_written",
        "sink/mysql/rows/values.py:form_of",
        "sink/mysql/tables/own.py:drift",
        "sink/mysql/tables/checks.py:check_labels",
        "sink/mysql/tables/rounded.py:refuse_indistinct",
        "sink/mysql/tables/session_times.py:_refused",
        "types/labels.py:_each_distinct",
    ],
    "test_hints_of_usage.py::test_a_backfill_of_a_target_that_is_not_empty": [
        "app/commands.py:backfill",
    ],
    "test_hints_of_usage.py::test_a_bug": [
        "cli/session.py:report_bug",
    ],
    "test_hints_of_usage.py::test_a_folder_without_its_scheme": [
        "storage/settings.py:_split",
    ],
    "test_hints_of_usage.py::test_a_machine_whose_zone_has_no_name": [
        "config/clocks.py:_own_zone",
    ],
    "test_hints_of_usage.py::test_a_port_that_another_process_has": [
        "observe/profiling.py:serving",
    ],
    "test_forms_by_hand.py::test_a_clash_goes_away_with_another_name": [
        "plan/table_modes.py:form_columns",
        "plan/table_modes.py:formed",
    ],
    "test_forms_by_hand.py::test_a_form_stays_as_it_was_for_a_table_that_has_begun": [
        "plan/table_modes.py:check_modes"
    ],
    "test_history.py::test_a_column_of_the_form_that_the_target_computes_stops_its_table_by_name": [
        "pipeline/version_consumer.py:_check_written"
    ],
    "test_forms_by_hand.py::test_csv_without_commit_ts_is_refused_by_name": ["pipeline/version_consumer.py:_formed"],
    "test_forms_by_hand.py::test_rows_that_do_not_say_enough_stop_their_table": [
        "codec/errors.py:delete_lacking",
        "codec/errors.py:event_without_ts",
    ],
    "test_forms_by_hand.py::test_statements_of_others_that_name_the_table_are_refused": [
        "plan/table_modes.py:check_beside"
    ],
    "test_hints_of_usage.py::test_a_range_that_is_not_there_yet": [
        "app/replay.py:replay",
    ],
    "test_hints_of_usage.py::test_a_replica_that_began_elsewhere": [
        "app/parts.py:start_of",
    ],
    "test_merged_in_words.py::test_a_rule_about_forms_and_one_that_merges_exclude_one_another": [
        "config/settings.py:_form_of",
    ],
    "test_merged_routes.py::test_a_column_that_all_have_otherwise_by_now_is_changed_by_hand": [
        "plan/table_modes.py:_check_columns",
    ],
    "test_merged_routes.py::test_a_rename_can_be_done_by_hand": ["plan/table_modes.py:_check_merged"],
    "test_merged_routes.py::test_a_table_that_does_not_fit_can_be_left_out": ["sink/merging.py:conflict"],
    "test_merged_routes.py::test_rows_of_a_table_that_went_under_a_name_that_is_left_out_are_not_emptied_with_those_of"
    "_others": [
        "plan/let_in.py:_empty",
    ],
    "test_merged_routes.py::test_rows_that_an_ignored_drop_left_are_not_taken_for_those_of_a_new_table": [
        "sink/merging.py:rows_there",
    ],
    "test_merged_routes.py::test_what_began_from_a_snapshot_is_not_merged_later": [
        "plan/routing.py:check_begun",
    ],
    "test_nothing_left.py::test_a_folder_that_nobody_may_write_to_is_told_at_once": [
        "sink/columnar/lock.py:_not_written",
    ],
    "test_hints_of_usage.py::test_a_second_run_on_one_file": [
        "sink/columnar/lock.py:_lock",
    ],
    "test_hints_of_usage.py::test_a_secret_that_was_masked": [
        "config/load.py:_check_secrets",
    ],
    "test_hints_of_usage.py::test_a_table_with_no_key_before_the_checkpoint_is_written": [
        "pipeline/load_notes.py:keyless_without_checkpoint",
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
        "pipeline/resync.py:check_name",
        "sink/duckdb/settings.py:_file",
        "sink/duckdb/settings.py:from_uri",
    ],
    "test_event_filters.py::test_a_delete_with_its_key_alone_cannot_be_judged_by_other_columns": [
        "codec/errors.py:not_told",
    ],
    "test_hints_of_usage.py::test_settings_that_are_not_there": [
        "config/load.py:_checked",
        "config/load.py:_environment",
    ],
    "test_late_files.py::test_late_rows_can_be_accepted_as_lost": [
        "codec/windows.py:refuse_late",
    ],
    "test_left_out_renames.py::test_a_table_that_cannot_be_made_any_more_stops_and_follows_again_by_its_hint": [
        "plan/ddl_step.py:moves_rows_not_read",
    ],
    "test_left_out_renames.py::test_what_is_left_of_a_table_stops_while_a_policy_keeps_it": [
        "plan/standing.py:kept_by_policy",
    ],
    "test_little_room.py::test_a_disk_that_takes_no_more": [
        "sink/duckdb/connection.py:_translated",
    ],
    "test_little_room.py::test_a_statement_that_it_cannot_run": [
        "sink/duckdb/too_large.py:statement_too_large",
    ],
    "test_little_room.py::test_rows_that_it_cannot_merge": [
        "sink/duckdb/too_large.py:merge_too_large",
    ],
    "test_never_split.py::test_it_stops_and_goes_on_once_the_setting_that_the_hint_names_is_set": [
        "fold/keyless.py:_refuse_shared",
    ],
    "test_other_names.py::test_a_statement_that_cannot_be_said_in_the_targets_names_stops_its_tables": [
        "plan/ddl_step.py:cannot_be_executed",
    ],
    "test_progress_by_hand.py::test_it_is_named_until_it_is_put_back": [
        "sink/progress_formats.py:damaged",
    ],
    "test_quarantine.py::test_a_folder_for_the_rows_must_be_named": [
        "config/load.py:_settings",
    ],
    "test_several.py::test_a_name_to_forget_is_of_one_target": [
        "config/several.py:_under",
    ],
    "test_several.py::test_upstreams_of_flags_have_names": [
        "config/several.py:_of_flags",
    ],
    "test_several.py::test_what_is_refused_goes_on_as_the_hint_says": [
        "cli/session.py:_for_one",
        "config/several.py:_check_names",
        "config/several.py:_check_uris",
        "config/several.py:_chosen",
        "config/several.py:_entry",
        "config/several.py:check_pairs",
        "config/several.py:several_of",
    ],
    "test_together.py::test_what_needs_moments_is_refused_without": [
        "config/several.py:together",
    ],
    "test_together_at_once.py::test_none_of_them_goes_by_itself": [
        "app/parts.py:goes_with_others",
        "sink/__init__.py:commit_together_for",
    ],
    "test_quarantine.py::test_more_than_may_be_stop_the_table": [
        "model/bad_rows.py:too_many",
    ],
    "test_quarantine_moves.py::test_a_folder_inside_of_the_storage": [
        "storage/dead_letters.py:check",
    ],
    "test_refused_statements.py::test_a_refused_statement_that_was_seen_to_by_hand_is_skipped": [
        "sink/duckdb/statements/operations.py:refused",
        "sink/mysql/statements/plan.py:refused",
    ],
    "test_resync.py::test_a_table_stays_whose_foreign_key_does_not_fit_the_other_table_any_more": [
        "pipeline/resync.py:_check_foreign_keys",
    ],
    "test_resync.py::test_a_table_that_the_target_does_not_have_yet_waits_for_the_one_before_it": [
        "pipeline/resync.py:_check_order",
    ],
    "test_resync.py::test_a_table_whose_create_was_recorded_by_hand_stays": [
        "pipeline/resync.py:_check_statements",
    ],
    "test_retention.py::test_a_file_that_was_read_in_part_must_stay": [
        "plan/gaps.py:find_lost_rest",
    ],
    "test_retention.py::test_a_first_run_that_is_told_how_long_files_stay_goes_on": [
        "plan/retention.py:gap",
    ],
    "test_routes.py::test_a_database_is_not_dropped_with_tables_of_another": [
        "plan/routing.py:_drops_others",
    ],
    "test_routes.py::test_a_database_is_not_dropped_with_tables_that_the_storage_does_not_tell_of": [
        "pipeline/others.py:drops_unknown",
    ],
    "test_routes.py::test_a_route_can_be_given_to_a_table_that_never_began": [
        "plan/routing.py:error",
    ],
    "test_routes.py::test_routes_that_move_a_table_are_refused_until_they_are_as_before": [
        "plan/routing.py:check_routes",
    ],
    "test_row_filters.py::test_a_table_with_a_form_has_no_filters": [
        "pipeline/options.py:check_rules",
    ],
    "test_row_filters.py::test_a_rule_that_does_not_fit_the_columns_stops_the_table": [
        "shaping/rules.py:_refused",
    ],
    "test_row_filters.py::test_a_value_that_cannot_be_judged_stops_the_table": [
        "shaping/collations.py:checked",
        "shaping/compiler.py:holds",
    ],
    "test_row_filters.py::test_other_rules_for_a_table_that_has_begun_are_refused": [
        "plan/shaping.py:check_shaping",
    ],
    "test_row_filters.py::test_statements_that_would_change_which_rows_fit_stop": [
        "plan/shaping.py:_refused",
    ],
    "test_s3.py::test_a_role_is_not_asked_for_and_its_keys_are_taken": [
        "storage/settings.py:_check",
    ],
    "test_taken_away.py::test_a_table_whose_folder_is_gone_stops_and_goes_on_when_it_is_back": [
        "plan/catalog.py:schemas_gone",
    ],
    "test_told.py::test_a_table_that_a_replay_stops_is_offered_no_resync": [
        "app/commands.py:resync",
    ],
    "test_replay.py::test_what_a_replay_has_applied_is_not_applied_twice": ["pipeline/others.py:goes_twice"],
    "test_tables_of_others.py::test_a_database_with_tables_of_two_names_is_dropped_by_the_last": [
        "pipeline/others.py:drops_database_of",
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
    "test_unsettled_files.py::test_a_file_that_cannot_be_read_stops_its_table_alone": [
        "storage/reader.py:_unreadable",
    ],
    "test_unsettled_files.py::test_a_file_that_is_written_while_it_is_read_is_left_to_the_next_round": [
        "storage/files.py:changed",
    ],
    "test_reading_copy.py::test_another_file_is_not_replaced": ["sink/duckdb/reading_copy.py:_ask"],
    "test_reading_copy.py::test_the_copy_of_another_replica_is_not_replaced": ["sink/duckdb/reading_copy.py:take"],
    "test_reading_copy.py::test_without_a_checkpoint_there_is_no_one_moment": ["sink/duckdb/reading_copy.py:check"],
    "test_consistency.py::test_levels_that_need_times": [
        "pipeline/together.py:check_times",
        "pipeline/together.py:check_rows",
    ],
    "test_consistency.py::test_a_transaction_that_is_too_large": ["pipeline/together.py:end_of_parts"],
    "test_consistency.py::test_a_table_whose_transaction_is_too_large_stops_alone": [
        "pipeline/together.py:too_much",
    ],
    "test_consistency.py::test_a_transaction_that_the_server_does_not_take": [
        "sink/mysql/rows/publish.py:_too_large",
        "pipeline/together.py:refused_together",
    ],
    "test_consistency.py::test_rows_are_staged_in_a_folder": ["sink/mysql/settings.py:_folder"],
    "test_consistency.py::test_a_staging_folder_that_is_removed_under_a_run": [
        "sink/mysql/waiting_room.py:_unavailable",
    ],
    "test_consistency.py::test_what_a_killed_run_left_is_removed": ["sink/mysql/waiting_room.py:__init__"],
    "test_verify.py::test_what_was_changed_by_hand_is_named_and_mended": ["model/check.py:verdict"],
    "test_verify.py::test_nothing_was_applied_yet": ["app/verify.py:_check_name"],
    "test_verify.py::test_a_file_of_statements_that_cannot_be_written": ["verify/mend.py:writing"],
    "test_verify.py::test_a_checkpoint_that_went_back": ["verify/verify.py:compared"],
    "test_verify_against.py::test_a_statement_that_the_other_server_may_have_run_is_waited_for": [
        "verify/against.py:_check_nothing_pending",
    ],
    "test_verify_against.py::test_a_table_that_only_the_other_server_has_is_an_error": [
        "verify/against.py:_alone",
    ],
    "test_verify_against.py::test_filtered_rows_are_refused": [
        "verify/against.py:_check_comparable",
    ],
    "test_verify_against.py::test_tables_that_are_no_mirrors_are_refused": [
        "verify/against.py:incomparable",
    ],
    "test_verify_against.py::test_other_tables_of_one_name_are_an_error": [
        "verify/against.py:_check_keys",
        "verify/against.py:compared",
        "verify/against.py:_told",
    ],
    "test_verify_against.py::test_repair_needs_a_server_with_a_past": [
        "app/verify.py:_against",
    ],
    "test_verify_not_compared.py::test_a_table_whose_resync_was_ended": [
        "verify/verify.py:told_of_none",
    ],
    "test_quarantine_commands.py::test_what_is_told_until_they_are_in": [
        "app/retry.py:retry",
    ],
    "test_computed_columns.py::test_values_that_the_target_computes_and_keeps_are_not_those_of_the_rows": [
        "sink/mysql/tables/checks.py:check_stored",
    ],
    "test_computed_columns.py::test_so_do_those_of_a_table_with_a_form": [
        "sink/mysql/tables/checks.py:computed_when_read",
    ],
    "test_verify_resume.py::test_another_file_is_refused_and_stays": [
        "verify/resume.py:resumed",
    ],
    "test_verify_against.py::test_the_command_never_prints_the_password": [
        "config/other_server.py:other_server",
    ],
}
"""By the test (or the file of tests) below tests/e2e, the places whose hints it follows as they are printed."""

ADVICE = {
    "cli/starved.py:starved", "sink/staging.py:save", "sink/staging.py:_without", "sink/duckdb/rows/compare.py:held",
    "sink/duckdb/reading_copy.py:_copy", "sink/duckdb/tables/prepare.py:_answer",
    "sink/mysql/rows/multiset.py:_execute",
    "sink/progress_formats.py:check_format", "sink/progress_sql.py:register", "sink/refused.py:refused_change",
    "spark/executors.py:with_executors",
    "spark/failures.py:told", "spark/session.py:_check", "spark/session.py:_why_not",
    "spark/waiting.py:cannot_be_written",
    "storage/files.py:check_length", "storage/remote.py:_connected",
}  # fmt: skip
"""Nothing to paste: another release, the machine, the network, or Spark's own settings."""

MOMENT = {
    "codec/errors.py:lacking", "errors.py:by", "fold/keyless.py:_refuse_coarse", "model/progress.py:check",
    "sink/duckdb/progress/lease.py:check_epoch", "sink/duckdb/rows/merge.py:_staged_columns",
    "sink/duckdb/sink.py:_held", "sink/mysql/other.py:in_its_words", "sink/mysql/progress/epochs.py:taken_over",
    "sink/mysql/rows/waiting.py:waiting",
    "sink/mysql/server/statement_sessions.py:wait_for_listening",
    "sink/mysql/server/wire.py:_process_auth",
    "sink/mysql/server/wire.py:_read_load_local_packet", "sink/progress_rows.py:begins_too_early",
    "spark/session.py:_borrowed", "spark/tasks.py:_unexpected", "verify/verify.py:tables",
}  # fmt: skip
"""Not to be provoked from outside: a race, a bug in a task, a hostile server, or a guard behind another check."""


def test_every_hint_is_followed_or_known_not_to_be() -> None:
    kinds = [[place for places in FOLLOWED.values() for place in places], list(ADVICE), list(MOMENT)]
    known = [place for kind in kinds for place in kind]
    assert len(known) == len(set(known)), "each has one kind"
    assert set(known) == set(_places())


def test_the_tests_that_follow_them_are_there() -> None:
    for case in FOLLOWED:
        file, _, name = case.partition("::")
        assert f"def {name}" in (ROOT / "tests" / "e2e" / file).read_text(encoding="utf-8"), case


def _places() -> Iterator[str]:
    """``file:function`` of every keyword ``hint`` in the package, and of the functions that make commands for some."""
    for file in (ROOT / "consumer").rglob("*.py"):
        place = file.relative_to(ROOT / "consumer").as_posix()
        if place == "model/hints.py":
            continue
        for function in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(function, ast.FunctionDef):
                nodes = list(ast.walk(function))
                given = any(isinstance(node, ast.keyword) and node.arg == "hint" for node in nodes)
                called = {n.func.id for n in nodes if isinstance(n, ast.Call) and isinstance(n.func, ast.Name)}
                if given or called & {"resync_command", "skip_ddl_command", "refused_hint", "forget_command"}:
                    yield f"{place}:{function.name}"
