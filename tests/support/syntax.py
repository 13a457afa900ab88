"""Syntax trees of Python code, for tests that look at code."""

from __future__ import annotations

import ast
from functools import cache


@cache
def tree_of(source: str) -> ast.Module:
    """The syntax tree of `source`, the same object for every caller.

    Python before 3.11.8 counts how deep a tree is for all threads together: where a thread that an earlier test left
    formats a traceback meanwhile, `ast.parse` raises SystemError. The tree is right at the next try.
    """
    for _ in range(20):
        try:
            return ast.parse(source)
        except SystemError:
            continue
    return ast.parse(source)
