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


READ = """
import os, socket, sys
from consumer.spark.daemon import acknowledge_at_once

acknowledge_at_once()
with socket.create_server(("127.0.0.1", 0)) as server:
    ends = socket.create_connection(server.getsockname()), server.accept()[0]
pipe = os.pipe()
for into, out in (ends, socket.socketpair(), (open(pipe[1], "wb"), open(pipe[0], "rb"))):
    reader = os.fdopen(os.dup(out.fileno()), "rb", 16)
    for part in (b"x" * 5, b"y" * 30_000):
        (into.write if hasattr(into, "write") else into.sendall)(part)
        into.close() if part[:1] == b"y" else getattr(into, "flush", int)()
        assert reader.read(5) == part[:5]
    assert reader.read() == b"y" * 29_995
    print(type(reader.raw).__name__)
    reader.close()
"""


def test_what_is_read_over_tcp_is_acknowledged_at_once() -> None:
    done = subprocess.run([sys.executable, "-c", READ], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["_Acknowledging", "FileIO", "FileIO"]
