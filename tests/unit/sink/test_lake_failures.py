"""What a lake's command says where Spark or its JVM fails."""

from __future__ import annotations

from functools import partial

import pytest
from py4j.protocol import Py4JError, Py4JNetworkError

from consumer.errors import BadConfig, ConsumerError, JobBroken, SchemaDrift, TableError, TargetBusy, TargetUnavailable
from consumer.model.names import TableName
from consumer.sink.lake.failures import errors_translated, retried_once, unconvertible_values

TABLE = TableName("d", "t")


class OfADeadMachine(Py4JError):
    """Its text is in the JVM that it comes from."""

    def __str__(self) -> str:
        raise Py4JNetworkError("Answer from Java side is empty")


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (OfADeadMachine(), JobBroken),
        (Py4JNetworkError("Answer from Java side is empty"), JobBroken),
        (ConnectionRefusedError(111, "Connection refused"), JobBroken),
        (Py4JError("java.io.IOException: No space left on device"), TargetUnavailable),
        (Py4JError(": S3Exception: Slow down (Service: S3, Status Code: 503, Request ID: x)"), TargetUnavailable),
        (Py4JError(": UncheckedIOException: x\nCaused by: java.net.ConnectException: refused"), TargetUnavailable),
        (Py4JError(": SdkClientException: Unable to load region from any of the providers in the chain X"), BadConfig),
        (Py4JError(": SdkClientException: Unable to load credentials from any of the providers"), TargetUnavailable),
        (Py4JError(": UncheckedSQLException: no\nCaused by: No suitable driver found for jdbc:x"), BadConfig),
        (TargetBusy("another program is writing to d.t"), TargetBusy),
    ],
)
@pytest.mark.parametrize("table", [TABLE, None])
def test_a_failure_has_a_name(error: Exception, kind: type[ConsumerError], table: TableName | None) -> None:
    with pytest.raises(kind) as raised, errors_translated(table):
        raise error
    assert "None" not in f"{raised.value}{raised.value.table}"


def test_what_is_not_known_to_pass_stops_the_table_when_it_comes_twice() -> None:
    done = []

    def fails(times: int) -> str:
        with errors_translated(TABLE):
            done.append(times)
            if len(done) <= times:
                raise Py4JError("IllegalArgumentException: Cannot find field 1000")
        return "done"

    assert retried_once(partial(fails, 1)) == "done"
    done.clear()
    with pytest.raises(TableError, match="Cannot find field") as raised:
        retried_once(partial(fails, 9))
    assert len(done) == 2
    assert "resync" in raised.value.hint


def test_what_is_told_is_the_cause() -> None:
    """Java's own text begins with what failed because of it."""
    text = "An error occurred while calling o1.x.\n: RuntimeIOException: no\n\tat a.b\nCaused by: S3Exception: Denied"
    with pytest.raises(TargetUnavailable, match="used: S3Exception: Denied"), errors_translated():
        raise Py4JError(text)


@pytest.mark.parametrize(
    "text", ["NoSuchTableException: Table does not exist: d.t", "no error class 'DELTA_MERGE_UNRESOLVED_EXPRESSION'"]
)
def test_a_table_that_somebody_changed_is_not_tried_again(text: str) -> None:
    with pytest.raises(SchemaDrift) as raised, errors_translated(TABLE):
        raise Py4JError(f"An error occurred while calling o1.x.\n: {text}")
    assert "resync" in raised.value.hint


@pytest.mark.parametrize(
    ("last", "why"),
    [
        ("_duckdb.ConversionException: Conversion Error: Could not convert string", "Conversion Error: Could not"),
        ("pyarrow.lib.ArrowInvalid: Integer value 300 not in range", "Integer value 300"),
        ("MemoryError: no room", ""),
        ("_duckdb.OutOfMemoryException: Out of Memory Error: x", ""),
    ],
)
def test_values_of_which_a_statement_cannot_make_others(last: str, why: str) -> None:
    text = f"An exception was thrown from the Python worker.\nTraceback (most recent call last):\n  File x\n{last}\n"
    found = unconvertible_values(Py4JError(text))
    assert found.startswith(why)
    assert bool(found) == bool(why)
