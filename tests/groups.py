"""Which tests `make test` runs, and in which group of `make proof` each of the others is: this table alone says so.

A test belongs to the group that names it most exactly: by its own name, its file or its folder. One that needs a server
that not everybody has (a MySQL, an emulator of a cloud) belongs to the group of that server. All others are `make test`'s.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache

import pytest

TEST = "test"


@dataclass(frozen=True)
class Group:
    """`minutes`: its usual time on two quiet cores."""

    what: str
    minutes: int
    paths: tuple[str, ...] = ()
    """Folders, files and single tests (``file.py::test_name``) below ``tests``."""
    programs: tuple[tuple[str, ...], ...] = ()
    """Modules to run, with their flags, behind the tests. Flags of `make proof` come after these."""
    tools: tuple[str, ...] = ()
    """What is installed first: ``mysql``, ``azurite``."""
    environment: dict[str, str] = field(default_factory=dict)


GROUPS = {
    "mysql9": Group(
        "the tests of servers once more, on a MySQL 9.7",
        10,
        paths=(
            "e2e/test_coarse_keys.py::test_a_server_with_gtids_that_logs_statements_takes_staged_rows",
            "e2e/test_syncpoints.py::test_without_gtids_the_position_is_that_of_the_binary_log",
        ),
        tools=("mysql",),
    ),
}


@cache
def _by_path() -> dict[str, str]:
    return {path: name for name, group in GROUPS.items() for path in group.paths}


def group_of(item: pytest.Item) -> str:
    """`TEST`, or the name of the group of proof that a test belongs to."""
    needed = set(_needed(item))
    if needed & {"mysql", "fresh_mysql", "staged_mysql"}:
        return "mysql9"
    if needed & {"gcs", "azure"}:
        return "clouds"
    return group_of_path(item.nodeid.removeprefix("tests/").partition("[")[0])


def group_of_path(place: str) -> str:
    """By ``folder/file.py::test_name``."""
    while place:
        if place in _by_path():
            return _by_path()[place]
        place = place.rpartition("::")[0] or os.path.dirname(place)
    return TEST


def _needed(item: pytest.Item) -> Iterator[str]:
    """The fixtures that a test asks for, also those that a parameter names."""
    yield from getattr(item, "fixturenames", ())
    for value in getattr(getattr(item, "callspec", None), "params", {}).values():
        for word in value if isinstance(value, tuple) else (value,):
            if isinstance(word, str):
                yield word.lower()
