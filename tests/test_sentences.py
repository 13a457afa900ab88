"""Nothing is decided by what a sentence says: a recorded statement has a kind, an error a class and a code, a hint its
commands. A reason can be somebody's own text, and a sentence is worded otherwise one day."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from tests.support.syntax import tree_of

PACKAGE = Path(__file__).parents[1] / "consumer"
_SENTENCES = frozenset({"reason", "message", "hint", "sentence"})
"""What values and errors call them, and what variables of them are called."""
_READING = frozenset(
    {
        *("startswith", "endswith", "removeprefix", "removesuffix", "partition", "rpartition", "split", "rsplit"),
        *("replace", "translate", "find", "rfind", "index", "rindex", "count", "__contains__", "__eq__"),
    }
)
_PATTERNS = frozenset({"match", "search", "fullmatch", "sub", "subn", "split", "findall", "finditer"})
_OF_OTHERS = {
    ("sink/mysql/rows/staged.py", "_collision"): "the server's own text names the key",
    ("spark/session.py", "_why_not"): "the last line of Spark's JVM is all that tells why it does not start",
    (
        "model/names.py",
        "without_table_name",
    ): "it decides nothing: a sentence is printed behind the name that it begins with",
}
"""Functions that read texts of others, or only lay out one."""


def _reads(tree: ast.AST) -> Iterator[tuple[int, str, str]]:
    """Line, function and code where a sentence is compared, searched or taken apart."""
    functions = [node for node in ast.walk(tree) if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))]
    inside = {id(node): function.name for function in functions for node in ast.walk(function)}
    aliases = {
        (inside.get(id(node), ""), target.id)
        for node in ast.walk(tree)
        if isinstance(node, (ast.Assign, ast.AnnAssign, ast.NamedExpr)) and _is_sentence(node.value, frozenset())
        for target in (node.targets if isinstance(node, ast.Assign) else [node.target])
        if isinstance(target, ast.Name)
    }
    for node in ast.walk(tree):
        function = inside.get(id(node), "")
        names = frozenset(name for where, name in aliases if where == function)
        if any(_is_sentence(part, names) for part in _read_parts(node)):
            yield getattr(node, "lineno", 0), function, ast.unparse(node)


def _is_sentence(node: ast.AST | None, aliases: frozenset[str]) -> bool:
    match node:
        case ast.Attribute(attr=name):
            return name in _SENTENCES
        case ast.Name(id=name):
            return name in _SENTENCES or name in aliases
        case ast.Call(func=ast.Attribute(attr="sentence")):
            return True
        case ast.Call(func=ast.Name(id="str"), args=[of]):
            return _is_sentence(of, aliases)
        case ast.NamedExpr(value=value):
            return _is_sentence(value, aliases)
    return False


def _read_parts(node: ast.AST) -> list[ast.AST]:
    """The parts of `node` whose text it reads."""
    match node:
        case ast.Compare(left=left, ops=ops, comparators=others):
            return [] if all(isinstance(op, (ast.Is, ast.IsNot)) for op in ops) else [left, *others]
        case ast.Call(func=ast.Attribute(value=value, attr=name), args=args):
            return [*([value] if name in _READING else []), *(args if name in _PATTERNS else [])]
        case ast.Match(subject=subject):
            return [subject]
        case ast.Subscript(value=value):
            return [value]
    return []


def test_nothing_is_decided_by_a_sentence() -> None:
    found, used = [], set()
    for file in sorted(PACKAGE.rglob("*.py")):
        place = file.relative_to(PACKAGE).as_posix()
        for line, function, code in _reads(tree_of(file.read_text(encoding="utf-8"))):
            used.add((place, function))
            if (place, function) not in _OF_OTHERS:
                found.append(f"consumer/{place}:{line}: {code}")
    assert found == []
    assert used == _OF_OTHERS.keys(), "an exception that is not needed"


@pytest.mark.parametrize(
    "code",
    [
        'record.reason.startswith("given ")',
        "place.reason == error.sentence()",
        'error.message in ("a", "b")',
        '"storage-consumer" in table.hint',
        're.sub("a", "b", hint)',
        "_PATTERN.search(error.message)",
        'error.message.replace("the upstream URI", "it")',
        "match error.message:\n    case 'a':\n        pass",
        "error.message[:3]",
        "def f():\n    text = error.message\n    return 'full' in text",
        "def f():\n    return 'full' in str(error.hint)",
    ],
)
def test_what_reads_a_sentence_is_found(code: str) -> None:
    assert list(_reads(tree_of(code)))


@pytest.mark.parametrize(
    "code",
    [
        "record.kind is DdlKind.GIVEN",
        "error.code is Code.NO_KEY",
        "f'{error.message}; the statement'",
        "error.hint or DEFAULT",
        "def f():\n    text = error.message\n\ndef g(text):\n    return 'a' in text",
    ],
)
def test_what_only_prints_one_or_asks_a_value_is_not(code: str) -> None:
    assert not list(_reads(tree_of(code)))


_COUNTED = frozenset("files tables rows statements days copies columns changes paths warnings steps".split())


def _counts_by_itself(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Texts in which a number that is printed with separators, or a length, stands before the plural of a noun."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.JoinedStr):
            continue
        for value, behind in pairwise(node.values):
            if not isinstance(value, ast.FormattedValue) or not isinstance(behind, ast.Constant):
                continue
            is_length = isinstance(value.value, ast.Call) and ast.unparse(value.value.func) == "len"
            is_number = is_length or (value.format_spec is not None and ast.unparse(value.format_spec) == "f','")
            word = str(behind.value).removeprefix(" more").lstrip().partition(" ")[0].rstrip(",;:.)")
            if is_number and word in _COUNTED:
                yield node.lineno, ast.unparse(node)


@pytest.mark.parametrize(
    ("code", "count"),
    [
        ('f"{len(x)} files"', 1),
        ('f"{a} and {b:,} rows, all"', 1),
        ('f"{len(x) - 1:,} more tables"', 1),
        ("f\"{count_text(a, 'row')} more\"", 0),
        ('f"{name} rows"', 0),
    ],
)
def test_what_counts_by_itself(code: str, count: int) -> None:
    assert len(list(_counts_by_itself(ast.parse(code)))) == count


def test_one_function_counts_nouns() -> None:
    """`1 files` is what others would print."""
    found = {
        f"{path.relative_to(PACKAGE)}:{line}: {code}"
        for path in PACKAGE.rglob("*.py")
        for line, code in _counts_by_itself(tree_of(path.read_text(encoding="utf-8")))
    }
    assert not found
