"""The text of an expression -> a tree of which every part has one meaning here. Needs no table."""

from __future__ import annotations

from functools import lru_cache

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

_PARTS: dict[type[exp.Expr], frozenset[str]] = {
    exp.Column: frozenset({"this"}),
    exp.Identifier: frozenset({"this", "quoted"}),
    exp.Literal: frozenset({"this", "is_string"}),
    exp.Null: frozenset(),
    exp.Boolean: frozenset({"this"}),
    exp.HexString: frozenset({"this"}),
    exp.Var: frozenset({"this"}),
    exp.DataType: frozenset({"this", "nested"}),
    exp.Cast: frozenset({"this", "to"}),
    exp.In: frozenset({"this", "expressions"}),
    exp.Like: frozenset({"this", "expression", "negate"}),
    exp.Between: frozenset({"this", "low", "high"}),
    exp.Coalesce: frozenset({"this", "expressions"}),
    exp.Length: frozenset({"this"}),
    **dict.fromkeys((exp.Paren, exp.Not, exp.Neg, exp.Abs), frozenset({"this"})),
    **dict.fromkeys(
        (
            *(exp.And, exp.Or, exp.Xor, exp.Is, exp.Escape, exp.Collate),
            *(exp.EQ, exp.NEQ, exp.NullSafeEQ, exp.LT, exp.LTE, exp.GT, exp.GTE),
            *(exp.Add, exp.Sub, exp.Mul, exp.Div, exp.Mod, exp.IntDiv),
        ),
        frozenset({"this", "expression"}),
    ),
}
_FLAGS: dict[type[exp.Expr], set[str]] = {
    exp.Div: {"typed", "safe"},
    exp.And: {"safe"},
    exp.Or: {"safe"},
    exp.Coalesce: {"is_nvl", "is_null"},
}
"""Marks of the parser that change nothing."""
SUPPORTED = (
    "supported are = <> < <= > >= <=> + - * / DIV %, AND OR XOR NOT, IS [NOT] NULL/TRUE/FALSE, [NOT] BETWEEN, IN, LIKE,"
    " COLLATE, and the functions ABS, CHAR_LENGTH, COALESCE, IFNULL and MOD"
)


@lru_cache(maxsize=256)
def parsed(text: str) -> exp.Expr:
    """The checked tree. Raises ValueError that names the expression."""
    if "\\" in text:
        raise ValueError(f"{text!r}: a backslash means different things under different SQL modes; write it without")
    try:
        tokens = sqlglot.tokenize(text, read="mysql")
        tree = sqlglot.parse_one(text, dialect="mysql")
    except SqlglotError as error:
        raise ValueError(f"{text!r} is not an expression of MySQL: {_reason(error)}") from None
    if any(token.text in ("!", "||", "&&") for token in tokens):
        raise ValueError(f"{text!r}: write NOT, OR and AND for !, || and &&")
    if any(token.comments for token in tokens):
        raise ValueError(f"{text!r} has a comment; leave it out")
    for node in tree.walk():
        fault = _fault(node)
        if fault:
            raise ValueError(f"{text!r}: {fault}")
    return tree


def columns_of(text: str) -> frozenset[str]:
    """The columns that it names, in lower case."""
    return frozenset(column.name.lower() for column in parsed(text).find_all(exp.Column))


def is_condition(tree: exp.Expr) -> bool:
    """Whether its value is TRUE, FALSE or NULL, and never another number."""
    tree = tree.unnest()
    known = (exp.Predicate, exp.And, exp.Or, exp.Xor, exp.Not, exp.Is, exp.Boolean, exp.Between, exp.In, exp.Escape)
    return isinstance(tree, known)


def _fault(node: exp.Expr) -> str:
    known = _PARTS.get(type(node))
    if known is None:
        return f"{_written(node)} is not supported here; {SUPPORTED}"
    extra = {name for name, value in node.args.items() if value not in (None, False, [])}
    if isinstance(node, exp.Length) and "binary" in extra:
        return f"LENGTH counts bytes, which depend on the character set; {SUPPORTED}"
    if unknown := extra - known - _FLAGS.get(type(node), set()):
        return f"{_written(node)} has a {sorted(unknown)[0]}, which is not supported here; {SUPPORTED}"
    return ""


def _written(node: exp.Expr) -> str:
    try:
        return f"'{node.sql(dialect='mysql')}'"
    except SqlglotError:
        return type(node).__name__.upper()


def _reason(error: SqlglotError) -> str:
    return " ".join(str(error).split("\n")[0].split()).removesuffix(".")
