"""``python -m tests.proof [GROUP ...] [-- FLAGS]``: run groups of tests/groups.py one after the other, all of them if
none is named, and say at the end which failed. FLAGS go to the programs of the groups, behind their own."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time

from tests.groups import GROUPS, Group

TOOLS = {
    # Its own versions come first, what it lacks is the project's.
    "airflow": "[ -d build/airflow ] || { .venv/bin/python -m venv build/airflow && build/airflow/bin/pip install -q"
    " apache-airflow==3.3.2 && .venv/bin/python -c 'import sysconfig; print(sysconfig.get_path(\"purelib\"))'"
    " >$(echo build/airflow/lib/python*/site-packages)/consumer.pth; } || rm -rf build/airflow",
    "lakes": ".venv/bin/python -m consumer.sink.lake.fetch s3 org.xerial:sqlite-jdbc:3.54.1.0; [ -d build/moto ] ||"
    " { .venv/bin/python -m venv build/moto && build/moto/bin/pip install -q 'moto[glue,server]>=5.2,<6'; } || rm -rf"
    " build/moto",
    "mysql": "bash scripts/mysql.sh",
    "older DuckDB": "for release in 1.2.2 1.4.4; do [ -d build/duckdb-$release ] || .venv/bin/python -m pip install -q"
    " --no-deps --target build/duckdb-$release duckdb==$release || true; done",
    # What they lack, as pytest, is the project's.
    "oldest releases": "[ -d build/oldest ] || { .venv/bin/python -m venv build/oldest"
    ' && .venv/bin/python -c \'import re, tomllib; named = tomllib.load(open("pyproject.toml", "rb"))["project"];'
    ' print(*(re.sub(">=([0-9.]+).*", r"==\\1", one) for one in named["dependencies"]), sep="\\n")\''
    " >build/oldest/pins && build/oldest/bin/pip install -q -r build/oldest/pins"
    " && .venv/bin/python -c 'import sysconfig; print(sysconfig.get_path(\"purelib\"))'"
    " >$(echo build/oldest/lib/python*/site-packages)/consumer.pth"
    " && ln -s ../../../.venv/bin/weed build/oldest/bin/weed; } || rm -rf build/oldest",
    "chromium": "command -v chromium chromium-browser google-chrome >/dev/null || { as=; [ $(id -u) = 0 ] || as=sudo;"
    " $as apt-get install -y -q chromium >/dev/null; } || true",
    "tidb": "bash scripts/tidb.sh",
    "azurite": "command -v npm >/dev/null && [ ! -d build/azurite ] && npm install --silent --no-fund --no-audit"
    " --prefix build/azurite azurite || true",
}
NO_TESTS = 5
"""What pytest ends with where a group has none."""


def main() -> int:
    parser = argparse.ArgumentParser(
        allow_abbrev=False, prog="python -m tests.proof", description=__doc__.split("\n\n")[0]
    )
    parser.add_argument("groups", nargs="*", metavar="GROUP", help=f"of {', '.join(GROUPS)} (all)")
    parser.add_argument("--jobs", type=int, default=2, help="processes of pytest (2)")
    parser.add_argument("--list", action="store_true", help="say what there is, and how long it takes")
    given, flags = parser.parse_known_args()
    if unknown := set(given.groups) - set(GROUPS):
        parser.error(f"no such group: {', '.join(sorted(unknown))}; there are {', '.join(GROUPS)}")
    if given.list:
        print("\n".join(f"{name:12} {group.minutes:4} min  {group.what}" for name, group in GROUPS.items()))
        return 0
    outcomes = []
    for name in given.groups or GROUPS:
        began = time.monotonic()
        print(f"\n== {name}: {GROUPS[name].what}", flush=True)
        passed = all([_tests(name, given.jobs), *_programs(GROUPS[name], [flag for flag in flags if flag != "--"])])
        outcomes.append(f"{'ok' if passed else 'FAILED':7} {name:12} {(time.monotonic() - began) / 60:5.1f} min")
    print("", *outcomes, sep="\n")
    return 1 if any(line.startswith("FAILED") for line in outcomes) else 0


def _tests(name: str, jobs: int) -> bool:
    group = GROUPS[name]
    for tool in group.tools:
        subprocess.run(["bash", "-c", TOOLS[tool]], check=True)
    command = [sys.executable, "-m", "pytest", "--group", name, "-n", str(jobs), "--dist", "loadfile"]
    return subprocess.run(command, env=os.environ | group.environment, check=False).returncode in (0, NO_TESTS)


def _programs(group: Group, flags: list[str]) -> list[bool]:
    """Whether each of the group's programs found nothing wrong."""
    commands = [[group.python, "-m", *program, *flags] for program in group.programs]
    environment = os.environ | group.environment
    return [subprocess.run(command, env=environment, check=False).returncode == 0 for command in commands]


if __name__ == "__main__":
    sys.exit(main())
