"""What docs/spark.md and the notebook show, run as a user does: by PySpark alone, which finds the format by itself."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
AFTER = """
assert changes.count() == 24, changes.count()
assert {row.id: row.v for row in earlier.collect()} == {1: 10, 2: 22, 4: 4, 20: 3}
assert spark.read.parquet(out + "/changes").count() == 24
assert everything.count() == 33
assert some.columns[-1] == "id"
assert some.where("_commit_ts > 470611620450271234").count() == changes.where("_commit_ts > 470611620450271234").count()
assert spark.read.parquet(out + "/batches/*").count() == 6
assert spark.read.format("ticdc").schema("id int, _op string").option("table", "du.t").load(uri).count() == 24
said = ""
try:
    ticdc(table="du.x")
except Exception as error:
    said = str(error)
assert "TableMissing: du.x: the storage has no such table up to this moment; did you mean du.t?" in said, said
print("done")
"""


FIRST = """
assert changes.count() == 24, changes.count()
print("done")
"""


def examples() -> list[str]:
    found = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "spark.md").read_text(encoding="utf-8"), re.DOTALL)
    assert [block.partition(".")[0] for block in found[1:]] == [f"# {number}" for number in range(1, 11)]
    return found


def notebook() -> Iterator[str]:
    cells = json.loads((ROOT / "examples" / "spark.ipynb").read_text(encoding="utf-8"))["cells"]
    yield from ("".join(cell["source"]) + "\n" for cell in cells if cell["cell_type"] == "code")
    yield "print('done again')"


def run(blocks: Iterable[str], folder: Path) -> str:
    script = folder / "examples.py"
    script.write_text("\n".join(blocks), encoding="utf-8")
    environment = {
        **os.environ,
        "PYSPARK_PYTHON": sys.executable,
        "PYTHONPATH": str(ROOT),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYSPARK_SUBMIT_ARGS": (
            "--master local[2] --conf spark.ui.enabled=false --conf spark.sql.shuffle.partitions=2 pyspark-shell"
        ),
    }
    done = subprocess.run(
        [sys.executable, str(script)], cwd=ROOT, env=environment, capture_output=True, text=True, timeout=500
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return done.stdout


def test_a_first_example_runs_as_it_stands(tmp_path: Path) -> None:
    session, changes, *_ = examples()
    assert "done" in run([session, changes, FIRST], tmp_path)


def test_all_examples_and_the_notebook_run_as_they_stand(tmp_path: Path) -> None:
    assert "done again" in run([*examples(), AFTER, *notebook()], tmp_path)
