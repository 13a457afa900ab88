"""Turns failures of Spark into errors of the consumer: the first cause of a broken job, whether a retry can help, and a
folder that takes no more temporary files."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterable

from consumer.errors import BadConfig, ConsumerError, JobBroken, Retryable, TargetUnavailable
from consumer.model.process import new_folder
from consumer.spark.settings import SparkSettings

_PYTHON_HINT = (
    "Spark's workers run the Python that PYSPARK_PYTHON (or spark.pyspark.python) names: it must be of this one's"
    " version, with the consumer and its packages installed"
)
MORE_FILES = "allow more open files: ulimit -n 1024"
_SETTINGS = (
    (("failed to map segment from shared object",), "give Spark's workers more memory (ulimit -v)"),
    (("ModuleNotFoundError", "ImportError"), _PYTHON_HINT),
    (("Too many open files",), MORE_FILES),
    (("error=11,",), "allow this user more processes (ulimit -u), then run again"),
    (("error=12,",), "give this machine more memory, then run again"),
    (("Cannot run program",), _PYTHON_HINT),
    (("PYTHON_VERSION_MISMATCH",), _PYTHON_HINT),
    (("spark.driver.maxResultSize",), "leave spark.driver.maxResultSize out of the Spark properties"),
    (("Failed to create local dir", "Failed to create a temp directory"), "check spark.local.dir"),
)
"""Causes that a retry does not change: words of the first cause, and what to do."""

_LOST_TASK = re.compile(r"^Lost task \S+ in stage \S+ \(TID \d+\) \([^)]*\): ")
_CLASS = re.compile(r"^(?:[a-z_][\w$]*\.)+[A-Z]\w*(?:Exception|Error)(?::\s*|$)")
_RAISED = re.compile(r"^\s*([\w.]*(?:Error|Exception)(?:: .*)?)$")
_SHOWN = 500


def error_of_job(error: Exception, settings: SparkSettings) -> ConsumerError:
    """Returns the error of every task of a job that ended with `error`. Raises BadConfig if no job can succeed."""
    cause = first_cause(str(error)) or type(error).__name__
    for words, hint in _SETTINGS:
        if any(word in cause for word in words):
            raise BadConfig(f"Spark cannot run a job on {settings.master}: {cause}", hint=hint) from error
    return JobBroken(f"Spark's job ended early: {cause}", hint="run again; nothing is lost")


def first_error(results: Iterable[object]) -> ConsumerError | None:
    """Returns the error to report: one that may pass counts before others, which may only follow from it."""
    errors = [result for result in results if isinstance(result, ConsumerError)]
    return min(errors, key=lambda error: not isinstance(error, Retryable), default=None)


def first_cause(text: str) -> str:
    """Returns the line of Spark's message with what happened first, without stack frames and without what is wrapped
    around it; "" if there is none."""
    _, found, rest = text.partition("most recent failure: ")
    lines = (rest if found else text).splitlines()
    return (_raised_in_python(lines) or next(filter(None, map(_bare, lines)), ""))[:_SHOWN]


def _raised_in_python(lines: list[str]) -> str:
    """Returns the end of the first Python traceback, "" if there is none."""
    begun = False
    for line in lines:
        begun = begun or "Traceback (most recent call last)" in line
        if begun and (found := _RAISED.match(line)):
            return found[1]
    return ""


def _bare(line: str) -> str:
    """Returns the line without its task and the class of the exception; "" for a frame."""
    if line.lstrip().startswith(("at ", "... ", "Caused by", "Driver stacktrace", "An error occurred while calling")):
        return ""
    words = _LOST_TASK.sub("", line.strip().removeprefix(": "))
    while found := _CLASS.match(words):
        words = words[found.end() :]
    return words.removeprefix("Job aborted due to stage failure: ")


def own_room() -> tuple[str, int]:
    """Returns a new folder of this process, and its lock, as `new_folder`. Raises TargetUnavailable."""
    try:
        return new_folder("spark")
    except OSError as error:
        raise cannot_be_written(error) from error


def cannot_be_written(error: OSError | str, folder: str | None = None) -> TargetUnavailable:
    """Returns the error for a folder for temporary files that takes no more; without `folder` it is the one where all
    of them are, if there is one."""
    named = folder or tempfile.tempdir
    return TargetUnavailable(
        f"the folder for temporary files{f' {named}' if named else ''} cannot be written: {error}",
        hint="make room, or set TMPDIR to another folder, then run again",
    )
