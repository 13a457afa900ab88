"""What tests name in a string, to put something else there, exists: a search for the code's names does not find it."""

from __future__ import annotations

import ast
import pkgutil
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from tests.support.syntax import tree_of

_TESTS = Path(__file__).parent
_DOTTED = re.compile(r"consumer(\.\w+)+(:\w+(\.\w+)*)?")


def _named(nodes: Sequence[ast.AST]) -> Iterator[str]:
    """What a string names; ``setattr(alias, "name", ..)`` of a module of the consumer."""
    aliases = {
        name.asname or name.name: f"{node.module}.{name.name}"
        for node in nodes
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("consumer")
        for name in node.names
    }
    for node in nodes:
        match node:
            case ast.Constant(str(value)) if _DOTTED.fullmatch(value):
                yield value
            case ast.Call(ast.Attribute(attr="setattr"), [ast.Name(alias), ast.Constant(str(name)), _]):
                if alias in aliases:
                    yield f"{aliases[alias]}.{name}"


def test_what_tests_name_in_strings_exists() -> None:
    named = sorted(
        {
            (str(path.relative_to(_TESTS)), name)
            for path in _TESTS.rglob("*.py")
            for name in _named(list(ast.walk(tree_of(path.read_text(encoding="utf-8")))))
        }
    )
    assert len(named) > 100
    assert [(file, name) for file, name in named if not _exists(name)] == []


def _exists(name: str) -> bool:
    try:
        return pkgutil.resolve_name(name) is not None
    except (ImportError, AttributeError):
        return False
