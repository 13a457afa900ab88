"""What is loaded when: executors stay light, and so does the command line until it knows what to do."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

WALK = """
import importlib, json, pkgutil, sys
for name in {names!r}:
    module = importlib.import_module(name)
    for found in pkgutil.walk_packages(getattr(module, "__path__", ()), name + "."):
        importlib.import_module(found.name)
print(json.dumps(sorted({{name.partition(".")[0] for name in sys.modules}})))
"""


def loaded_by(*names: str) -> set[str]:
    """Top-level packages in a fresh interpreter that imported `names` and everything below them."""
    done = subprocess.run([sys.executable, "-c", WALK.format(names=names)], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return set(json.loads(done.stdout))


@pytest.mark.parametrize(
    "last", ["consumer.sink.mysql.rows.writer", "consumer.sink.columnar.writer", "consumer.source.reading"]
)
def test_executors_stay_light(last: str) -> None:
    loaded = loaded_by("consumer.codec", "consumer.changes", last)
    assert "consumer" in loaded
    assert loaded & {"pyspark", "py4j", "typer", "fsspec", "botocore", "pydantic", "rich", "structlog"} == set()


def test_the_command_line_starts_light() -> None:
    loaded = loaded_by("consumer.cli.program")
    assert {"typer", "pydantic"} <= loaded
    assert loaded & {"pyspark", "pyarrow", "duckdb", "pymysql", "botocore", "fsspec", "numpy", "structlog"} == set()


def test_to_know_the_protocols_takes_no_arrow() -> None:
    done = "import json, sys, consumer.codec; print(json.dumps(sorted(sys.modules)))"
    loaded = set(json.loads(subprocess.check_output([sys.executable, "-c", done], text=True)))
    assert loaded & {"pyarrow", "numpy", "consumer.codec.rows", "consumer.ddl"} == set()


def test_a_round_with_nothing_new_needs_no_arrow() -> None:
    modules = ("consumer.app", "consumer.pipeline.manager", "consumer.sink.mysql.sink", "consumer.storage.s3")
    done = f"import json, sys, {', '.join(modules)}; print(json.dumps(sorted(sys.modules)))"
    loaded = set(json.loads(subprocess.check_output([sys.executable, "-c", done], text=True)))
    assert loaded >= set(modules)
    assert loaded & {"pyspark", "pyarrow", "pandas", "numpy", "duckdb"} == set()


def test_the_lowest_layers_need_python_alone() -> None:
    # What a fresh interpreter has by itself (site hooks of the environment) is not ours.
    ours = loaded_by("consumer.errors", "consumer.model", "consumer.ports") - loaded_by()
    assert ours - sys.stdlib_module_names == {"consumer"}
