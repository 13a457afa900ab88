"""Spans are exact for any text, and edits leave the rest alone."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from consumer.ddl.references import references
from consumer.ddl.tokens import Edits, TokenKind, starts, tokenize, tokens_with_comments
from consumer.model.names import quote

PIECES = ["`", "``", "'", "''", '"', "\\", "/*T![x] ", "/*", "*/", "--", "-- ", "#", "\n", " ", "(", ")", ",", ".", ";"]
WORDS = ["CREATE", "TABLE", "1e5", "0x1f", "_UTF8MB4", "数据", "😀", "a$b", "b'01'", "12ab"]
texts = st.lists(st.sampled_from(PIECES + WORDS) | st.text(max_size=4)).map("".join)


@given(texts)
def test_tokens_and_blanks_are_the_text(text: str) -> None:
    tokens = tokens_with_comments(text)
    assert all(text[token.start : token.end] == token.text for token in tokens)
    ends, starts_ = [0, *(token.end for token in tokens)], [*(token.start for token in tokens), len(text)]
    between = [text[end:start] for end, start in zip(ends, starts_, strict=True)]
    assert all(end <= start for end, start in zip(ends, starts_, strict=True))
    assert "".join(between).strip() == ""


@given(st.text(min_size=1).filter(lambda name: "\0" not in name), st.text(min_size=1))
def test_a_quoted_name_is_one_token_and_one_reference(database: str, table: str) -> None:
    query = f"TRUNCATE TABLE {quote(database)}.{quote(table)}"
    (found,) = references(tokenize(query))
    assert (found.database, found.table) == (database, table)
    assert query[found.start : found.end] == f"{quote(database)}.{quote(table)}"


@pytest.mark.parametrize(
    ("text", "kind", "first"),
    [
        ("'it''s \\' (x)', 1", TokenKind.STRING, "'it''s \\' (x)'"),
        ("'end\\\\', 1", TokenKind.STRING, "'end\\\\'"),
        ('"a""b\'c" x', TokenKind.STRING, '"a""b\'c"'),
        ("`a``b.c` x", TokenKind.QUOTED, "`a``b.c`"),
        ("/*T![ttl] TTL = `a*/b` */ x", TokenKind.COMMENT, "/*T![ttl] TTL = `a*/b` */"),
        ("/*T! don't */ x", TokenKind.COMMENT, "/*T! don't */"),
        ("/* it's */ x", TokenKind.COMMENT, "/* it's */"),
        ("-- x\ny", TokenKind.COMMENT, "-- x"),
        ("--5", TokenKind.SYMBOL, "-"),
        ("1.5e3)", TokenKind.NUMBER, "1.5e3"),
        ("2024a", TokenKind.WORD, "2024a"),
        ("_UTF8MB4'x'", TokenKind.WORD, "_UTF8MB4"),
    ],
)
def test_first_token(text: str, kind: TokenKind, first: str) -> None:
    token = tokens_with_comments(text)[0]
    assert (token.kind, token.text) == (kind, first)


def test_blanks_and_comments_are_not_significant() -> None:
    tokens = tokenize("DROP /* x */ TABLE -- y\n `t`")
    assert [token.text for token in tokens] == ["DROP", "TABLE", "`t`"]


def test_words_compare_without_case_and_quoted_names_are_no_words() -> None:
    assert starts(tokenize("table"), "TABLE")
    assert not starts(tokenize("`TABLE`"), "TABLE")


def test_an_edit_inside_a_larger_one_is_void() -> None:
    edits = Edits()
    edits.replace(4, 5, "!")
    edits.remove(2, 6)
    edits.insert(6, "+")
    assert edits.apply("01234567") == "01+67"


def test_an_insertion_before_a_removed_part_stays() -> None:
    edits = Edits()
    edits.remove(3, 5)
    edits.insert(3, "+")
    assert edits.apply("01234567") == "012+567"


def test_a_text_of_open_quotes_costs_no_search() -> None:
    text = "'a\\" * 20_000
    assert "".join(token.text for token in tokens_with_comments(text)) == text
