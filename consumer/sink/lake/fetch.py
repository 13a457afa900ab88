"""``python -m consumer.sink.lake.fetch [s3] [ARTIFACT ...]``: fetches the jars that lakes need, by Spark's own
resolver, into the folder in which the program looks for them. With `s3` it also fetches those for S3. Other artifacts
have Maven's names, for example the driver of a catalog's database. Does nothing if all jars are there."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pyspark

from consumer.sink.lake.jars import ARTIFACTS, FORMATS, jar_folder, jar_of


def main() -> int:
    named = dict.fromkeys([*FORMATS, *sys.argv[1:]])
    wanted, folder = [artifact for name in named for artifact in ARTIFACTS.get(name, (name,))], jar_folder()
    if all((folder / jar_of(artifact)).is_file() for artifact in wanted):
        _print_folder(folder)
        return 0
    with tempfile.TemporaryDirectory() as home:
        script = Path(home) / "nothing.py"
        script.write_text("pass\n", "utf-8")
        command = [f"{pyspark.__path__[0]}/bin/spark-submit", "--master", "local[1]", "--packages", ",".join(wanted)]
        properties = ["--conf", f"spark.jars.ivy={home}/ivy", "--conf", "spark.ui.enabled=false"]
        # A separate home: a Maven cache with descriptions but without jars misleads the resolver.
        variables = {"SPARK_SUBMIT_OPTS": f"-Duser.home={home}", "PYSPARK_PYTHON": sys.executable}
        done = subprocess.run(
            [*command, *properties, str(script)], env=os.environ | variables, capture_output=True, check=False
        )
        if done.returncode:
            print(done.stderr.decode(errors="replace")[-2000:], file=sys.stderr)
            return 1
        folder.mkdir(parents=True, exist_ok=True)
        for group in {artifact.partition(":")[0] for artifact in wanted}:  # Spark has the rest of what they need
            for jar in Path(home, "ivy", "jars").glob(f"{group}_*.jar"):
                copy = shutil.copy(jar, folder / f"{jar.name}.part")  # a process may have the old one open
                os.replace(copy, folder / jar.name.removeprefix(f"{group}_"))
    _print_folder(folder)
    return 0


def _print_folder(folder: Path) -> None:
    print(f"{len(list(folder.glob('*.jar')))} jars in {folder}")


if __name__ == "__main__":
    sys.exit(main())
