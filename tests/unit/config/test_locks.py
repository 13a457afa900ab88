"""The lock files: the program's packages, and apart from them what only development needs."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[3]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def _locked(file: str) -> set[str]:
    lines = (ROOT / file).read_text(encoding="utf-8").splitlines()
    assert all(re.fullmatch(r"[\w.-]+==[\w.]+", line) for line in lines), "names and versions alone, no addresses"
    return {_plain(line.partition("==")[0]) for line in lines}


def _plain(name: str) -> str:
    return re.sub(r"[-_.]+", "-", re.split(r"[\[<>=]", name)[0]).lower()


def test_the_locks_have_every_dependency_where_it_belongs() -> None:
    program, development = _locked("requirements.lock"), _locked("requirements-dev.lock")
    needed = {_plain(name) for name in PROJECT["dependencies"]}
    # The site is built by whichever version there is.
    extras = {
        _plain(name) for extra, names in PROJECT["optional-dependencies"].items() if extra != "docs" for name in names
    }
    assert needed <= program
    assert extras - needed <= development
    assert not program & development
