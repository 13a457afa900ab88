"""Which line of Spark's message is told, of messages as Spark 4.1 gave them."""

from __future__ import annotations

import pytest

from consumer.errors import BadConfig, JobBroken
from consumer.spark.failures import error_of_job, first_cause
from consumer.spark.settings import SparkSettings

_HEAD = (
    "An error occurred while calling o66.collectToPython.\n: org.apache.spark.SparkException: Job aborted due to stage"
    " failure: "
)
_LOST = (
    "Task 0 in stage 0.0 failed 1 times, most recent failure: Lost task 0.0 in stage 0.0 (TID 0) (localhost executor"
    " driver): "
)
_FRAMES = (
    "\tat org.apache.spark.api.python.BasePythonRunner$ReaderIterator.handleException(PythonRunner.scala:599)\n"
    "\tat org.apache.spark.sql.execution.QueryExecution$.withInternalError(QueryExecution.scala:717)\n"
)
CRASHED = (
    f"{_HEAD}{_LOST}org.apache.spark.SparkException: Python worker exited unexpectedly (crashed).\n{_FRAMES}"
    f"Caused by: java.io.EOFException\n{_FRAMES}\t... 21 more\n\nDriver stacktrace:\n{_FRAMES}"
)
NO_PACKAGE = (
    f"{_HEAD}{_LOST}org.apache.spark.SparkException: \nError from python worker:\n"
    "  Traceback (most recent call last):\n"
    '    File "<frozen importlib.util>", line 94, in find_spec\n'
    "  ModuleNotFoundError: No module named 'pyspark'\n  \n"
    "  The above exception was the direct cause of the following exception:\n  \n"
    "  Traceback (most recent call last):\n"
    '    File "<frozen runpy>", line 140, in _get_module_details\n'
    "  ImportError: Error while finding module specification for 'pyspark.daemon'\n"
    f"PYTHONPATH was:\n  /usr/lib\n{_FRAMES}"
)
NO_PYTHON = (
    f'{_HEAD}{_LOST}java.io.IOException: Cannot run program "/usr/bin/python9": error=2, No such file or directory\n'
    f"{_FRAMES}Caused by: java.io.IOException: error=2, No such file or directory\n{_FRAMES}"
)
TOO_LARGE = (
    f"{_HEAD}Total size of serialized results of 1 tasks (2.7 KiB) is bigger than spark.driver.maxResultSize"
    f" (1024.0 B)\n{_FRAMES}"
)


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        (CRASHED, "Python worker exited unexpectedly (crashed)."),
        (NO_PACKAGE, "ModuleNotFoundError: No module named 'pyspark'"),
        (NO_PYTHON, 'Cannot run program "/usr/bin/python9": error=2, No such file or directory'),
        (
            TOO_LARGE,
            TOO_LARGE.removeprefix(_HEAD).partition("\n")[0],
        ),
        ("[Errno 111] Connection refused", "[Errno 111] Connection refused"),
        ("", ""),
    ],
)
def test_the_first_cause_is_error_of_job(text: str, cause: str) -> None:
    assert first_cause(text) == cause


@pytest.mark.parametrize("text", [NO_PACKAGE, NO_PYTHON, TOO_LARGE])
def test_what_no_other_try_changes_is_a_bad_setting(text: str) -> None:
    with pytest.raises(BadConfig) as caught:
        error_of_job(Exception(text), SparkSettings())
    assert caught.value.hint


@pytest.mark.parametrize(
    ("said", "hint"),
    [
        ("error=24, Too many open files", "ulimit -n"),
        ("error=11, Resource temporarily unavailable", "ulimit -u"),
        ("error=12, Cannot allocate memory", "more memory"),
    ],
)
def test_what_python_lacks_to_be_started(said: str, hint: str) -> None:
    text = f'{_HEAD}{_LOST}java.io.IOException: Cannot run program "/usr/bin/python3": {said}\n{_FRAMES}'
    with pytest.raises(BadConfig, match=said) as caught:
        error_of_job(RuntimeError(text), SparkSettings())
    assert hint in caught.value.hint


def test_a_package_that_does_not_fit_into_the_workers_memory() -> None:
    """What workers under `ulimit -v 150000` say."""
    said = "ImportError: /lib/_parquet.cpython-311-x86_64-linux-gnu.so: failed to map segment from shared object"
    with pytest.raises(BadConfig) as caught:
        error_of_job(
            Exception(NO_PACKAGE.replace("ModuleNotFoundError: No module named 'pyspark'", said)), SparkSettings()
        )
    assert said in caught.value.message
    assert "memory (ulimit -v)" in caught.value.hint


def test_what_may_pass_is_a_broken_job() -> None:
    assert isinstance(error_of_job(Exception(CRASHED), SparkSettings()), JobBroken)
