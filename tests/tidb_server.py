"""The TiDB that scripts/tidb.sh builds, on a store of its own, and the tests that do not run on it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.servers import SqlServer

NO_TIDB = "no TiDB is built: bash scripts/tidb.sh says why"

_ROOT = Path(__file__).parents[1] / "build" / "tidb"
DUMPLING = _ROOT / "dumpling"

_LOG, _TRIGGER = "a TiDB has no table of the statements that it got", "a TiDB has no triggers"
_BY_ITSELF = "a TiDB converts values by itself: test_tidb.py has what the session of the statement decided"
_WHO = "a TiDB does not tell which other session has a lock"
_KEYS = ("test_a_key_of_one_column", "test_a_key_of_two_columns_goes_by_its_index")
LEFT_OUT = {
    "contract/test_statements.py::test_values_of_which_nobody_can_tell_are_refused": _BY_ITSELF,
    "e2e/test_consistency.py::test_a_table_without_transactions": "all tables of a TiDB have transactions",
    "e2e/test_verify_repair.py::test_columns_that_the_storage_does_not_tell_keep_their_values": (
        "a TiDB takes no such default: no statement of an upstream has it"
    ),
    "e2e/test_verify_servers.py::test_a_stored_column_that_the_server_computes_is_compared": (
        "a TiDB adds no STORED column to a table"
    ),
    "e2e/test_verify_servers.py::test_a_table_that_cannot_be_compared_because_of_the_target_is_an_error"
    "[tidb-by_hand0]": "a clustered key stays",
    "integration/mysql/test_conversions.py": _BY_ITSELF,
    "integration/mysql/test_ddl.py::test_a_bare_timestamp_can_be_null": "one is, and no variable has it otherwise",
    "integration/mysql/test_ddl.py::test_a_statement_that_the_server_still_runs_is_waited_for": (
        "a TiDB has no LOCK TABLES: test_tidb.py has a job that it runs"
    ),
    "integration/mysql/test_ddl.py::test_five_hundred_creates": "they take more than a minute there",
    "integration/mysql/test_ddl.py::test_hidden_columns_of_the_rows_are_plain_ones": "releases before SOFTDELETE",
    "integration/mysql/test_ddl.py::test_what_is_too_long_as_utf8mb4_runs_once_the_table_is_latin1_as_upstream": (
        "a latin1 column of a TiDB stays one"
    ),
    "integration/mysql/test_hash_partitions.py": "rows are in the partitions that they have upstream",
    "integration/mysql/test_prepare.py::test_five_hundred_tables": "they take more than a minute there",
    "integration/mysql/test_prepare.py::test_labels_that_the_server_cannot_show_stay_unknown": "it shows all labels",
    "integration/mysql/test_prepare.py::test_no_key_needs_transactions": "all tables of a TiDB have transactions",
    "integration/mysql/test_prepare.py::test_odd_names": "two names of a TiDB do not differ in case alone",
    "integration/mysql/test_prepare.py::test_triggers_and_views_stop_the_table": _TRIGGER,
    "integration/mysql/test_preview.py::test_a_database_goes_to_the_trash_as_earlier_steps_leave_it": _LOG,
    "integration/mysql/test_preview.py::test_a_database_that_is_there_is_altered_as_shown": _LOG,
    "integration/mysql/test_preview.py::test_a_truncated_table_comes_to_the_trash_and_back_as_shown": _LOG,
    "integration/mysql/test_statement_connections.py::test_a_session_that_is_left_is_waited_for_while_it_listens"
    "[tidb-True]": _WHO,
    "integration/mysql/test_statement_connections.py::test_each_of_many_sessions_has_a_mark": _WHO,
    "integration/mysql/test_time_zone.py::test_the_sessions_zone_is_set_only_for_a_statement_in_another": _LOG,
    "integration/mysql/test_trash.py::test_a_truncated_table_keeps_all_that_hangs_on_it[tidb-trigger]": _TRIGGER,
    "integration/mysql/test_writer_together.py::test_where_one_row_is_refused_nothing_of_any_is_written"
    "[tidb-load data]": "small tables go to a TiDB by statements",
    "integration/mysql/test_writer_together.py::test_a_table_without_transactions_keeps_what_it_got_and_gets_it_again"
    "[tidb]": "all tables of a TiDB have transactions",
    **dict.fromkeys(
        [
            f"integration/mysql/test_writer_waits.py::{test}"
            for test in (
                "test_a_session_writes_without_locks_of_gaps",
                "test_new_rows_beside_a_delete_of_a_row_that_is_not_there[tidb-False]",
            )
        ],
        "a TiDB locks no gaps at any level",
    ),
    **dict.fromkeys(
        [f"integration/mysql/test_writer_deletes.py::{test}[tidb-set64]" for test in _KEYS],
        "a TiDB does not look a SET of 64 members up by its number: such a table stops",
    ),
    "integration/mysql/test_unrecorded_statements.py::test_a_statement_that_cannot_be_proven_is_not_refused": _TRIGGER,
}
"""Tests that ask for every kind of server and do not run on a TiDB, and why: files and single tests below ``tests``,
or one of a test's, with its parameters."""


class TiDb(SqlServer):
    """A tidb-server. It has the zones of its machine."""

    name = "TiDB"
    integer = "int"
    nopad_collation = "utf8mb4_0900_bin"

    def _program(self) -> Sequence[str]:
        return [str(_ROOT / "tidb-server"), "-store", "unistore", "-host", "127.0.0.1", "-socket", "", "-L", "warn"]

    def _zone_reader(self) -> Sequence[str]:
        raise NotImplementedError("it has the zones of its machine")

    def _command(self, data: Path) -> list[str]:
        config, temporary = self.folder / "config", self._own_tmpdir()
        config.write_text(f'tmp-storage-path = "{temporary}"\n')
        places = ["-path", str(data), "-temp-dir", str(temporary), "-config", str(config)]
        places += ["-log-slow-query", str(self.folder / "slow")]
        return [*self._program(), "-P", str(self.port), "-report-status=false", *places, *self._options]


@contextmanager
def checks_hold(server: SqlServer) -> Iterator[SqlServer]:
    """The server, which refuses what a CHECK does: a TiDB does so only where it is told to."""
    own = isinstance(server, TiDb)
    try:
        if own:
            server.execute("SET GLOBAL tidb_enable_check_constraint = 1")
        yield server
    finally:
        if own:
            server.execute("SET GLOBAL tidb_enable_check_constraint = 0")


def has_tidb() -> bool:
    return _ROOT.exists()


def why_left_out(nodeid: str) -> str | None:
    """By what pytest calls a test."""
    place = nodeid.removeprefix("tests/")
    named, file = place.partition("[")[0], place.partition("::")[0]
    return next((LEFT_OUT[one] for one in (place, named, file) if one in LEFT_OUT), None)
