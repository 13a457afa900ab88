"""What tests name in a string, to put something else there, exists: a search for the code's names does not find it."""

from __future__ import annotations

import ast
import pkgutil
import re
from collections.abc import Iterator
from pathlib import Path

_TESTS = Path(__file__).parent
_DOTTED = re.compile(r"consumer(\.\w+)+(:\w+(\.\w+)*)?")


def _named() -> list[tuple[str, str]]:
    found = set()
    for path in sorted(_TESTS.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and _DOTTED.fullmatch(node.value):
                found.add((str(path.relative_to(_TESTS)), node.value))
    return sorted(found)


def _patched() -> Iterator[tuple[str, str]]:
    """``setattr(alias, "name", ..)`` of a module of the consumer."""
    for path in sorted(_TESTS.rglob("*.py")):
        tree = ast.parse(path.read_text())
        aliases = {
            name.asname or name.name: f"{node.module}.{name.name}"
            for node in ast.walk(tree)
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("consumer")
            for name in node.names
        }
        for node in ast.walk(tree):
            match node:
                case ast.Call(ast.Attribute(attr="setattr"), [ast.Name(alias), ast.Constant(str(name)), _]):
                    if alias in aliases:
                        yield str(path.relative_to(_TESTS)), f"{aliases[alias]}.{name}"


def test_what_tests_name_in_strings_exists() -> None:
    named = sorted({*_patched(), *_named()})
    assert len(named) > 100
    assert [(file, name) for file, name in named if not _exists(name)] == []


def _exists(name: str) -> bool:
    try:
        return pkgutil.resolve_name(name) is not None
    except (ImportError, AttributeError):
        return False
