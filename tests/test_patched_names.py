"""What tests name in a string, to put something else there, exists: it is not found by who moves or renames it."""

from __future__ import annotations

import ast
import pkgutil
import re
from pathlib import Path

import pytest

_TESTS = Path(__file__).parent
_DOTTED = re.compile(r"consumer(\.\w+)+(:\w+(\.\w+)*)?")


def _named() -> list[tuple[str, str]]:
    found = set()
    for path in sorted(_TESTS.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and _DOTTED.fullmatch(node.value):
                found.add((str(path.relative_to(_TESTS)), node.value))
    return sorted(found)


@pytest.mark.parametrize(("file", "name"), _named())
def test_a_name_in_a_string_exists(file: str, name: str) -> None:
    assert pkgutil.resolve_name(name) is not None, file
