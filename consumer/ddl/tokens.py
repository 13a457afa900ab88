"""Statement text as tokens with exact spans, and edits by span: what no edit names stays byte for byte."""

from __future__ import annotations

import enum
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple


class TokenKind(enum.Enum):
    COMMENT = "comment"
    STRING = "string"
    QUOTED = "quoted"
    NUMBER = "number"
    WORD = "word"
    SYMBOL = "symbol"


class Token(NamedTuple):
    """A part of a statement, `text` as it stands there from `start` on. `word` is the upper-case text of a WORD token,
    "" for all others. An opening parenthesis is closed by the token `reach` positions after it (beyond the end: by
    none), in tokens without comments and in any slice of them. It is a tuple, as statements have many."""

    kind: TokenKind
    text: str
    start: int
    word: str
    reach: int = 0

    @property
    def end(self) -> int:
        return self.start + len(self.text)

    @property
    def is_name(self) -> bool:
        return self.kind in (TokenKind.QUOTED, TokenKind.WORD)

    @property
    def name(self) -> str:
        """The identifier that the token spells."""
        return self.text[1:-1].replace("``", "`") if self.kind is TokenKind.QUOTED else self.text


Tokens = Sequence[Token]

# The repetitions are possessive: a text that never closes its quote costs one pass, not a search. A comment of TiDB's
# own holds syntax, so a quote in it hides an end of comment; any other comment ends where it first can. Servers know no
# blanks but ASCII's, and take everything that is not ASCII for letters.
_TOKEN = re.compile(
    r"""
      (?P<COMMENT> /\*T! (?: [^'"`*] | \*(?!/) | '[^']*+' | "[^"]*+" | `[^`]*+` )*+ \*/
                 | /\* .*? (?: \*/ | \Z )
                 | (?: --(?=[\x00-\x20\x7f]|\Z) | \# ) [^\n]* )
    | (?P<STRING>  ' (?: [^'\\] | \\. | '' )*+ (?: ' | \\?\Z )
                 | " (?: [^"\\] | \\. | "" )*+ (?: " | \\?\Z ) )
    | (?P<QUOTED>  ` (?: [^`] | `` )*+ ` )
    | (?P<NUMBER>  \d+ (?: \.\d* )? (?: [eE][+-]?\d+ )? (?![\w$\x80-\U0010ffff]) )
    | (?P<WORD>    [\w$\x80-\U0010ffff]+ )
    | (?P<SYMBOL>  \S )
    """,
    re.VERBOSE | re.DOTALL | re.ASCII,
)


_ESCAPES = {"0": "\0", "n": "\n", "r": "\r", "t": "\t", "b": "\b", "Z": "\x1a", "%": "\\%", "_": "\\_"}
_KINDS: dict[str | None, TokenKind] = {kind.name: kind for kind in TokenKind}


def tokens_with_comments(text: str) -> list[Token]:
    """Returns all of `text` except blanks, comments included."""
    kinds = _KINDS
    tokens = []
    for match in _TOKEN.finditer(text):
        kind, piece = kinds[match.lastgroup], match[0]
        tokens.append(Token(kind, piece, match.start(), piece.upper() if kind is TokenKind.WORD else ""))
    return tokens


def tokenize(text: str) -> list[Token]:
    """Returns all of `text` except blanks and comments."""
    return without_comments(tokens_with_comments(text))


def without_comments(tokens: Tokens) -> list[Token]:
    kept = [token for token in tokens if token.kind is not TokenKind.COMMENT]
    opened: list[int] = []
    for at, token in enumerate(kept):
        if token.text == "(":
            opened.append(at)
            kept[at] = token._replace(reach=len(kept))
        elif token.text == ")" and opened:
            first = opened.pop()
            kept[first] = kept[first]._replace(reach=at - first)
    return kept


def string_value(token: Token) -> str:
    """Returns the value of a string literal."""
    quote = token.text[0]
    escaped = re.compile(rf"{quote}{quote}|\\(.)", re.DOTALL)
    return escaped.sub(lambda match: quote if match[1] is None else _ESCAPES.get(match[1], match[1]), token.text[1:-1])


def starts(tokens: Tokens, *wanted: str, at: int = 0) -> bool:
    """Returns whether the words or symbols `wanted` stand at position `at`; "IF NOT EXISTS" is three of them."""
    if at + len(wanted) > len(tokens):
        return False
    for position, text in enumerate(wanted, at):
        token = tokens[position]
        if (token[3] or token[1]) != text:  # its word, or its text: this is called more often than everything else
            return False
    return True


def closing(tokens: Tokens, at: int) -> int:
    """Returns the position of the parenthesis that closes the one at `at`; the end if none does, or if there is none at
    `at`."""
    return min(at + tokens[at].reach, len(tokens)) if at < len(tokens) else len(tokens)


def top_level(tokens: Tokens) -> list[int]:
    """Returns the positions of the tokens that stand in no parentheses; the outermost parentheses themselves count."""
    outside, at = [], 0
    while at < len(tokens):
        outside.append(at)
        if tokens[at].text == "(":
            at = closing(tokens, at)
            if at < len(tokens):
                outside.append(at)
        at += 1
    return outside


@dataclass(slots=True)
class Edits:
    """Replacements by span. One inside another, larger one is void, so rules need not know one another."""

    _edits: list[tuple[int, int, str]] = field(default_factory=list)

    def replace(self, start: int, end: int, text: str) -> None:
        self._edits.append((start, end, text))

    def insert(self, at: int, text: str) -> None:
        self.replace(at, at, text)

    def remove(self, start: int, end: int) -> None:
        self.replace(start, end, "")

    def apply(self, text: str) -> str:
        pieces, at = [], 0
        for start, end, new in sorted(self._edits, key=_insertions_first):
            if start < at:
                continue
            pieces += [text[at:start], new]
            at = end
        return "".join([*pieces, text[at:]])


def _insertions_first(edit: tuple[int, int, str]) -> tuple[int, bool, int]:
    start, end, _ = edit
    return start, start != end, start - end
