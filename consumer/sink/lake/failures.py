"""Translates failures of Spark and of the format to the consumer's errors."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from consumer.errors import (
    BadConfig,
    Code,
    ConsumerError,
    JobBroken,
    RowRefused,
    SchemaDrift,
    StagedRowsGone,
    TableError,
    TargetBusy,
    TargetUnavailable,
)
from consumer.model.hints import REFUSED_ROW, about_table, load_again, resync_command
from consumer.model.names import TableName
from consumer.model.texts import shortened
from consumer.sink.progress_layout import SCHEMA, damaged

log = logging.getLogger(__name__)

_Done = TypeVar("_Done")

_VALUES = ("CONSTRAINT", "NOT_NULL", "CAST_OVERFLOW", "NUMERIC_VALUE_OUT_OF_RANGE", "USER_RAISED")
"""Parts of the error class if a value does not fit its column."""
_CHANGED = ("NoSuchTableException", "UNRESOLVED_EXPRESSION")
"""Parts of the message if a table is gone or lacks a column, and Spark has no class for the error."""
_MADE = re.compile(
    r"^(?:_?duckdb\.(?:\w+\.)?(?:Conversion|OutOfRange|InvalidInput)Exception|pyarrow\.lib\.ArrowInvalid): (.+)", re.M
)
"""The message of an executor about values that a statement cannot convert."""
_NOT_CONVERTED = re.compile(r"^consumer\.errors\.RowRefused: (.+)", re.M)
"""The message of an executor about a value of which nobody knows what upstream made."""
_PASSES = re.compile(
    "ConnectException|SocketException|SocketTimeout|UnknownHost|NoRouteToHost|TimeoutException|SSLException|NoHttpResponse"
    "|[Cc]onnection (?:reset|refused|closed|is closed)|Unable to execute HTTP|Status Code: (?:403|429|5)|SlowDown"
    "|[Tt]hrottl|ServiceUnavailable|ServiceFailure|RESTException|NotAuthorized|Forbidden|CommitStateUnknown"
    "|SQLTransient|SQLNonTransientConnection|SQLRecoverable|SQLITE_BUSY|database is locked|OutOfMemoryError"
    "|No space left|quota exceeded|Too many open files|AccessDenied|Access ?[Dd]enied|Permission denied|Read-only file"
    "|Input/output error|SparkContext was shut down|stopped SparkContext|ExecutorLostFailure|[Ll]ost executor"
    "|worker exited|End of File Exception|SSL peer shut down|ConnectionClosed|Operation not permitted"
)
"""What is not of one table, or passes: a network, rooms and rights, locks, a Spark that is lost."""
_CAUSE = "Caused by: "
_CONDITION = re.compile(r"\[([A-Z][A-Z_.]+)\]")


@contextmanager
def errors_translated(table: TableName | None = None, staged: str = "") -> Iterator[None]:
    """Wraps work on a table of upstream, or on the progress. `staged` is the folder of rows that are merged into it."""
    try:
        yield
    except TargetBusy as busy:
        raise (busy if table is None else busy.about(str(table))) from busy
    except SchemaDrift as drift:
        if drift.table:
            raise
        if table is None:
            raise damaged(drift.message) from drift
        raise SchemaDrift(drift.message, hint=_by_hand(table), table=str(table)) from drift
    except ConsumerError:
        raise
    except Exception as error:
        if not (is_of_spark(error) or isinstance(error, OSError)):  # this process writes some files itself
            raise
        raise _translated(error, table, staged) from error


def is_of_spark(error: Exception) -> bool:
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    return isinstance(error, (Py4JError, PySparkException, ConnectionError))


def may_pass(error: Exception) -> bool:
    """Returns whether the same action may succeed later, or once somebody has repaired something that other tables
    need, too."""
    from py4j.protocol import Py4JError, Py4JNetworkError

    if isinstance(error, (Py4JNetworkError, ConnectionError)):
        return True
    try:
        return _PASSES.search(str(error)) is not None
    except (Py4JError, ConnectionError):  # the message was in the JVM
        return True


def is_lasting(error: Exception) -> bool:
    """Returns whether Spark or the format failed, and the same action will fail again."""
    return is_of_spark(error) and not may_pass(error)


def retried_once(do: Callable[[], _Done]) -> _Done:
    """Returns the result of `do`. Repeats it once if it failed for a reason that may pass, as far as is known. A second
    failure stops its table."""
    try:
        return do()
    except TableError as error:
        if error.code is not Code.TARGET_TABLE:
            raise
        log.warning("%s; it is tried once more", error.sentence())
        return do()


def is_refusal(error: Exception) -> bool:
    """Returns whether Spark or the table rejects the statement itself, so that it is useless to execute it again."""
    from pyspark.errors import AnalysisException, IllegalArgumentException, UnsupportedOperationException

    return isinstance(error, (AnalysisException, IllegalArgumentException, UnsupportedOperationException))


def unconvertible_values(error: Exception) -> str:
    """Returns which values a statement cannot convert; "" if it failed for another reason."""
    return _said(_MADE, error)


def unknown_conversion(error: Exception) -> str:
    """Returns why an executor did not convert a value; "" if it failed for another reason."""
    return _said(_NOT_CONVERTED, error)


def _said(form: re.Pattern[str], error: Exception) -> str:
    match = form.search(str(error)) if is_of_spark(error) else None
    return shortened(match[1].strip()) if match is not None else ""


def cause_text(error: Exception) -> str:
    """Returns the root cause of an error, or the first line with content."""
    lines = [line.strip(" :") for line in str(error).splitlines()]
    causes = [line.removeprefix(_CAUSE) for line in lines if line.startswith(_CAUSE)]
    first = (line for line in lines if line and not line.startswith("An error occurred"))
    return shortened(causes[-1] if causes else next(first, "") or "no reason given")


def _translated(error: Exception, table: TableName | None, staged: str) -> ConsumerError:
    from py4j.protocol import Py4JError, Py4JNetworkError

    try:
        text, full_text = cause_text(error), str(error)
    except (Py4JError, ConnectionError) as lost:  # the message was in the JVM
        return _translated(lost, table, staged)
    if isinstance(error, (Py4JNetworkError, ConnectionError)):
        return JobBroken(f"Spark has ended: {text}", hint="run again", table=str(table or ""))
    if "No suitable driver" in full_text:
        hint = "fetch it by `python -m consumer.sink.lake.fetch GROUP:NAME:RELEASE`, as Maven names it"
        return BadConfig("no jar has the driver of the database that is the lake's catalog", hint=hint)
    if "Unable to load region" in full_text:
        return BadConfig("no region of S3 is given", hint="add client.region=.. to the URI, or set AWS_REGION")
    if "Unable to load credentials" in full_text:
        hint = "add s3.access-key-id=.. and s3.secret-access-key=.. to the URI; docs/lakes.md has other places"
        return TargetUnavailable("no credentials of S3 are given, nor found where AWS's tools look", hint=hint)
    if table is None:
        if may_pass(error):
            return TargetUnavailable(f"the lake cannot be reached: {text}", hint="try again; nothing is lost")
        hint = f"try again; if it fails in the same way, put {SCHEMA} and the tables back as they were at one moment"
        return TargetUnavailable(f"the lake cannot be used: {text}", hint=hint)
    if staged and staged in full_text and "FileNotFound" in full_text:
        hint = "run again: nothing was published, and the rows are staged again"
        return StagedRowsGone(f"its staged rows are gone: {text}", hint=hint, table=str(table))
    match = _CONDITION.search(full_text)
    if match is not None and any(word in match[1] for word in _VALUES):
        hint = about_table(REFUSED_ROW, table)
        return RowRefused(f"the table refuses rows: {text}", hint=hint, table=str(table), of_data=False)
    if is_refusal(error) or any(word in full_text for word in _CHANGED):
        return SchemaDrift(f"the table is not as this program left it: {text}", hint=_by_hand(table), table=str(table))
    if may_pass(error):
        hint = "try again; nothing is lost"
        return TargetUnavailable(f"the lake cannot be written: {text}", hint=hint, table=str(table))
    hint = "correct what is said, or " + load_again(table)
    return TableError(f"the table fails: {text}", hint=hint, table=str(table), code=Code.TARGET_TABLE)


def _by_hand(table: TableName) -> str:
    return "was it changed by hand? Load it again from the storage: " + resync_command(table)
