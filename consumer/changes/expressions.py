"""Parses the text of an expression to a tree of which every part has one meaning here. It needs no table."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

import sqlglot
from sqlglot import TokenType, exp
from sqlglot.errors import SqlglotError

from consumer.model.names import same_names
from consumer.model.texts import one_line

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
_EQUAL = (TokenType.EQ, TokenType.NEQ, TokenType.NULLSAFE_EQ)
_ORDER = (TokenType.LT, TokenType.LTE, TokenType.GT, TokenType.GTE)
_RANGES = (TokenType.IN, TokenType.BETWEEN, TokenType.LIKE)
_FLAGS: dict[type[exp.Expr], set[str]] = {
    exp.Div: {"typed", "safe"},
    exp.And: {"safe"},
    exp.Or: {"safe"},
    exp.Coalesce: {"is_nvl", "is_null"},
}
"""Marks of the parser that change no meaning."""
SUPPORTED = (
    "supported are = <> < <= > >= <=> + - * / DIV %, AND OR XOR NOT, IS [NOT] NULL/TRUE/FALSE, [NOT] BETWEEN, IN, LIKE,"
    " COLLATE, and the functions ABS, CHAR_LENGTH, COALESCE, IFNULL and MOD"
)


@lru_cache(maxsize=256)
def parse_expression(text: str) -> exp.Expr:
    """Returns the checked tree. Raises ValueError that names the expression."""
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
    if _is_ambiguous(token.token_type for token in tokens):
        raise ValueError(f"{text!r}: which comparison is computed first is not clear; write parentheses")
    for node in tree.walk():
        fault = _fault(node)
        if fault:
            raise ValueError(f"{text!r}: {fault}")
    return tree


def expression_columns(text: str) -> frozenset[str]:
    """Returns the columns that the expression names, in lower case."""
    return same_names(column.name for column in parse_expression(text).find_all(exp.Column))


def is_condition(tree: exp.Expr) -> bool:
    """Returns whether its value is TRUE, FALSE or NULL, and never another number."""
    tree = tree.unnest()
    kinds = (exp.Predicate, exp.And, exp.Or, exp.Xor, exp.Not, exp.Is, exp.Boolean, exp.Between, exp.In, exp.Escape)
    return isinstance(tree, kinds)


@dataclass
class _Chain:
    """What a chain of operators has had so far: an equality, IN and the like, and the number of BETWEENs that still
    need their AND."""

    is_equal: bool = False
    has_range: bool = False
    betweens: int = 0


def _is_ambiguous(tokens: Iterable[TokenType]) -> bool:
    """Returns whether the parser groups operators in another way than MySQL does.

    MySQL computes ``a = b < c`` from left to right. In ``a BETWEEN b AND c IN (d)`` the upper bound is ``c IN (d)``.
    """
    chains = [_Chain()]  # by depth of parentheses
    for token in tokens:
        chain = chains[-1]
        match token:
            case TokenType.L_PAREN:
                chains.append(_Chain())
            case TokenType.R_PAREN if len(chains) > 1:
                chains.pop()
            case TokenType.AND if chain.betweens:
                chain.betweens -= 1
            case TokenType.AND | TokenType.OR | TokenType.XOR | TokenType.COMMA:
                chains[-1] = _Chain()
            case _ if token in _EQUAL:
                chain.is_equal, chain.has_range = True, False
            case _ if token in _ORDER:
                if chain.is_equal:
                    return True
                chain.has_range = False
            case _ if token in _RANGES:
                if chain.has_range:
                    return True
                chain.has_range = True
                chain.betweens += token is TokenType.BETWEEN
    return False


def _fault(node: exp.Expr) -> str:
    known_args = _PARTS.get(type(node))
    if known_args is None:
        return f"{_written(node)} is not supported here; {SUPPORTED}"
    set_args = {name for name, value in node.args.items() if value not in (None, False, [])}
    if isinstance(node, exp.Length) and "binary" in set_args:
        return f"LENGTH counts bytes, which depend on the character set; {SUPPORTED}"
    if unknown := set_args - known_args - _FLAGS.get(type(node), set()):
        return f"{_written(node)} has a {sorted(unknown)[0]}, which is not supported here; {SUPPORTED}"
    if isinstance(node, exp.In) and not node.expressions:
        return "IN needs a value at least"
    return ""


def _written(node: exp.Expr) -> str:
    try:
        return f"'{node.sql(dialect='mysql')}'"
    except SqlglotError:
        return type(node).__name__.upper()


def _reason(error: SqlglotError) -> str:
    return one_line(str(error).split("\n")[0]).removesuffix(".")
