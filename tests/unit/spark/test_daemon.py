"""What Spark's Python daemon does before workers are forked."""

from __future__ import annotations

import subprocess
import sys

SCRIPT = """
import sys
import pyarrow
from consumer.spark.daemon import import_no_pandas

import_no_pandas()
pyarrow.array(["x"])
assert "pandas" not in sys.modules
import pandas
assert pyarrow.array(pandas.DataFrame({"a": [1]})["a"].tolist()).to_pylist() == [1]
"""


def test_pyarrow_does_without_pandas_and_others_find_it() -> None:
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
