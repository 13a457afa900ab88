"""Partition expressions: parses the few forms that TiDB allows from their text."""

from __future__ import annotations

from dataclasses import dataclass

from consumer.ddl.tokens import Token, TokenKind, Tokens, string_value, tokenize

_SHOWN = 200
_INTRODUCERS = frozenset({"_UTF8MB4", "_UTF8", "_UTF8MB3"})
_SUMS = frozenset({"+", "-"})
_PRODUCTS = frozenset({"*", "%", "DIV", "MOD"})


class NotUnderstood(Exception):
    """Text whose meaning is not known beyond doubt."""


@dataclass(frozen=True, slots=True)
class ColumnName:
    name: str


@dataclass(frozen=True, slots=True)
class Number:
    value: int


@dataclass(frozen=True, slots=True)
class TextLiteral:
    value: str


@dataclass(frozen=True, slots=True)
class Null:
    """The literal NULL."""


@dataclass(frozen=True, slots=True)
class Call:
    """A function by its upper-case name; ``EXTRACT(unit FROM x)`` is the function ``EXTRACT unit``."""

    function: str
    arguments: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class Binary:
    """`operator` is ``+``, ``-``, ``*``, ``DIV`` or ``MOD`` (also for ``%``)."""

    operator: str
    left: Expression
    right: Expression


Expression = ColumnName | Number | TextLiteral | Null | Call | Binary


def parse_partition_expression(text: str) -> Expression:
    """Raises NotUnderstood."""
    parser = _Parser(tokenize(text))
    try:
        expression = parser.sum()
    except RecursionError:
        raise NotUnderstood(f"more parentheses in each other than are looked into: {text[:_SHOWN]} ..") from None
    if parser.peek() is not None:
        raise NotUnderstood(text)
    return expression


class _Parser:
    """A recursive descent parser. ``*``, ``DIV``, ``MOD`` and ``%`` bind closer than ``+`` and ``-``; all associate to
    the left."""

    def __init__(self, tokens: Tokens) -> None:
        self._tokens, self._at = tokens, 0

    def peek(self) -> Token | None:
        return self._tokens[self._at] if self._at < len(self._tokens) else None

    def sum(self) -> Expression:
        left = self._product()
        while (operator := self._take(_SUMS)) is not None:
            left = Binary(operator, left, self._product())
        return left

    def _product(self) -> Expression:
        left = self._unary()
        while (operator := self._take(_PRODUCTS)) is not None:
            left = Binary("MOD" if operator == "%" else operator, left, self._unary())
        return left

    def _unary(self) -> Expression:
        if self._take({"-"}) is None:
            return self._primary()
        inner = self._unary()
        return Number(-inner.value) if isinstance(inner, Number) else Binary("-", Number(0), inner)

    def _primary(self) -> Expression:
        token = self._next()
        if token.text == "(":
            inner = self.sum()
            self._expect(")")
            return inner
        if token.kind is TokenKind.NUMBER and token.text.isdecimal():
            return Number(int(token.text))
        if token.word in _INTRODUCERS:
            token = self._next()
            if token.kind is not TokenKind.STRING:
                raise NotUnderstood(token.text)
        if token.kind is TokenKind.STRING:
            return TextLiteral(string_value(token))
        if token.word == "NULL":
            return Null()
        following = self.peek()
        if token.kind is TokenKind.WORD and following is not None and following.text == "(":
            return self._call(token.word)
        if token.is_name and not (following is not None and following.kind is TokenKind.STRING):
            return ColumnName(token.name)
        raise NotUnderstood(token.text)

    def _call(self, function: str) -> Expression:
        self._expect("(")
        if function == "EXTRACT":
            unit = self._next().word
            self._expect("FROM")
            arguments: tuple[Expression, ...] = (self.sum(),)
            self._expect(")")
            return Call(f"EXTRACT {unit}", arguments)
        arguments = (self.sum(),)
        while self._take({","}) is not None:
            arguments = (*arguments, self.sum())
        self._expect(")")
        if function == "MOD" and len(arguments) == 2:
            return Binary("MOD", *arguments)
        return Call(function, arguments)

    def _take(self, wanted: frozenset[str] | set[str]) -> str | None:
        token = self.peek()
        text = None if token is None else token.word or token.text
        if text not in wanted:
            return None
        self._at += 1
        return text

    def _expect(self, text: str) -> None:
        if self._take({text}) is None:
            raise NotUnderstood(text)

    def _next(self) -> Token:
        token = self.peek()
        if token is None:
            raise NotUnderstood("the end of the expression")
        self._at += 1
        return token
