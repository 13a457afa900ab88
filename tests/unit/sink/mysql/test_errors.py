from __future__ import annotations

import pymysql
import pytest

from consumer import errors
from consumer.sink.mysql.server.errors import ALREADY_DONE, ERRORS, Doing, server_error


def test_every_class_is_one_of_the_tree() -> None:
    assert all(getattr(errors, kind.__name__) is kind for kind in ERRORS.values())


@pytest.mark.parametrize(
    ("number", "doing", "kind"),
    [
        (2013, "rows", errors.TargetUnavailable),
        (2013, "ddl", errors.TargetUnavailable),
        (0, "rows", errors.TargetUnavailable),
        (1047, "rows", errors.TargetUnavailable),
        (1047, "ddl", errors.TargetUnavailable),
        (1213, "rows", errors.TargetBusy),
        (1205, "ddl", errors.TargetBusy),
        (1684, "ddl", errors.TargetBusy),
        (1684, "start", errors.TargetBusy),
        (9007, "rows", errors.TargetBusy),
        (8141, "rows", errors.TargetBusy),
        (1045, "start", errors.BadConfig),
        (1045, "ddl", errors.BadConfig),
        (1142, "start", errors.BadConfig),
        (1142, "ddl", errors.DdlRefused),
        (1406, "rows", errors.RowRefused),
        (1406, "ddl", errors.DdlRefused),
        (1146, "rows", errors.TableMissing),
        (1054, "rows", errors.SchemaDrift),
        (1064, "ddl", errors.DdlRefused),
    ],
)
def test_what_a_number_means(number: int, doing: Doing, kind: type[errors.ConsumerError]) -> None:
    assert type(server_error(pymysql.err.OperationalError(number, "text"), doing)) is kind


@pytest.mark.parametrize("doing", ["start", "rows", "ddl"])
@pytest.mark.parametrize("args", [(31999, "odd"), (2999, "odd"), (), ("just text",)])
def test_unknown_errors_become_ours(args: tuple[object, ...], doing: Doing) -> None:
    got = server_error(pymysql.MySQLError(*args), doing, table="d.t")
    assert isinstance(got, errors.Retryable | errors.Fatal)
    assert got.table == "d.t"


def test_the_servers_words_and_number_are_kept() -> None:
    got = server_error(pymysql.err.DataError(1406, "Data too long for column 'v'"))
    assert "Data too long for column 'v' (error 1406)" in got.message


def test_a_check_that_refuses_a_row_may_be_that_of_mariadbs_json() -> None:
    got = server_error(pymysql.err.OperationalError(4025, "CONSTRAINT `t.j` failed for `d`.`t`"))
    assert isinstance(got, errors.RowRefused)
    assert "31 levels" in got.message


def test_what_a_resumed_statement_may_meet_is_never_retryable() -> None:
    assert not [number for number in ALREADY_DONE if issubclass(ERRORS.get(number, errors.Fatal), errors.Retryable)]


@pytest.mark.parametrize("number", [1021, 1041, 1114, 3675])
def test_a_full_server_is_not_one_that_does_not_answer(number: int) -> None:
    found = server_error(pymysql.err.OperationalError(number, "full"), "rows")
    assert isinstance(found, errors.TargetUnavailable)
    assert found.message == f"the target has no room: full (error {number})"
    assert found.hint.startswith("make room")


@pytest.mark.parametrize("doing", ["start", "rows", "ddl"])
@pytest.mark.parametrize(
    ("number", "said"),
    [
        (3, "Error writing file './ddl_recovery.log' (Errcode: 28 \"No space left on device\")"),
        (1005, 'Can\'t create table `d`.`t` (errno: 28 "No space left on device")'),
        (1006, "Can't create database 'd' (errno: 28)"),
        (1030, "Got error 28 - 'No space left on device' from storage engine"),
        (1026, "Error writing file '/var/tmp/x' (OS errno 122 - Disk quota exceeded)"),
    ],
)
def test_a_file_that_cannot_be_written_tells_of_a_full_disk(number: int, said: str, doing: Doing) -> None:
    found = server_error(pymysql.err.OperationalError(number, said), doing)
    assert isinstance(found, errors.TargetUnavailable)
    assert found.message == f"the target has no room: {said} (error {number})"
    assert found.hint.startswith("make room")


def test_a_value_that_tells_of_a_full_disk_is_a_value() -> None:
    found = server_error(
        pymysql.err.IntegrityError(1062, "Duplicate entry 'No space left on device' for key 'u'"), "rows"
    )
    assert isinstance(found, errors.RowRefused)


@pytest.mark.parametrize(
    ("number", "said"),
    [
        (1030, 'Got error 168 "Unknown (generic) error from engine" from storage engine InnoDB'),
        (1878, "Temporary file write failure."),
    ],
)
def test_other_trouble_with_files_is_no_silence_and_no_refusal(number: int, said: str) -> None:
    found = server_error(pymysql.err.OperationalError(number, said), "ddl")
    assert isinstance(found, errors.TargetUnavailable)
    assert found.message.startswith(f"the target cannot use its files: {said}")
