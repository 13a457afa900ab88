"""Character sets and collations: makes TiDB's defaults explicit, and replaces those that a server does not know."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from consumer.ddl.definitions import ParsedStatement, find_words
from consumer.ddl.tokens import Edits, TokenKind, Tokens, starts, top_level
from consumer.errors import DdlRefused
from consumer.model.names import same_name
from consumer.model.table_definition import Charset

TIDB_DEFAULT = Charset("utf8mb4", "utf8mb4_bin")
"""What a TiDB database has that declares nothing."""

TIDB_COLLATIONS = {
    "utf8mb4": "utf8mb4_bin",
    "utf8": "utf8_bin",
    "utf8mb3": "utf8mb3_bin",
    "latin1": "latin1_bin",
    "ascii": "ascii_bin",
}
"""What TiDB takes for a character set without a collation; MySQL and MariaDB take another."""

_LATIN1 = "latin1"
"""TiDB keeps any text in it, as UTF-8."""

STAYS = "character set latin1 stays, because the columns would be too long for the server as utf8mb4"

_ROW_BYTES, _KEY_BYTES = 65_535, 3072
"""The most that InnoDB takes."""

_STAND_INS = {
    "0900_ai_ci": ("utf8mb4_uca1400_nopad_ai_ci", "utf8mb4_unicode_520_nopad_ci"),
    "0900_as_ci": ("utf8mb4_uca1400_nopad_as_ci",),
    "0900_as_cs": ("utf8mb4_uca1400_nopad_as_cs", "utf8mb4_nopad_bin"),
    "0900_bin": ("utf8mb4_nopad_bin",),
}
"""Closest first. Trailing blanks count in all of them, so keys that upstream distinguishes never become equal."""


_CHARSET_WORDS = ("CHARSET", "SET")
"""Words before the name of a character set: the second one is the end of CHARACTER SET."""


def explicit_collations(statement: ParsedStatement, edits: Edits, wide: bool) -> None:
    """Adds the collation wherever a character set is named alone: a key must not become coarser than upstream's.
    `wide`: the collation of the character set that `wide_charsets` writes."""
    for tokens in _attribute_lists(statement) if statement.has_word(*_CHARSET_WORDS) else ():
        at = _charset(tokens)
        if at is None or find_words(tokens, "COLLATE") is not None:
            continue
        collation = TIDB_COLLATIONS.get(same_name(tokens[at].name), "")
        if wide:
            collation = any_text(Charset("", collation)).collation
        if collation and not (at + 1 < len(tokens) and tokens[at + 1].word == "BINARY"):
            sign = " = " if tokens[at - 1].text == "=" else " "
            edits.insert(tokens[at].end, f" COLLATE{sign}{collation}")


def explicit_default(
    statement: ParsedStatement, edits: Edits, default: Charset, supported: Collection[str] | None
) -> None:
    """Writes `default`, what upstream's database gives, into a CREATE TABLE that names no character set: the target's
    database may give another by then. `supported` as in `known_collations`; None: all."""
    if statement.kind != "CREATE TABLE" or not statement.members or declared_charset(statement.options) is not None:
        return
    collation = default.collation
    if supported is not None:
        if collation and not _known(collation, supported):
            collation = _stand_in(collation, supported)
        elif not collation and not _charset_known(default.name, supported):
            collation = TIDB_DEFAULT.collation
    text = f" COLLATE = {collation}" if collation else f" CHARACTER SET = {default.name}"
    edits.insert(statement.members[-1].end + 1, text)


def any_text(charset: Charset) -> Charset:
    """Returns what a server needs for the texts that TiDB takes in this character set."""
    return TIDB_DEFAULT if charset.collation.startswith(f"{_LATIN1}_") else charset


def too_wide(statement: ParsedStatement, default: Charset | None) -> bool:
    """Returns whether the latin1 columns of a new table fit into the server's rows and keys, and would not as utf8mb4.
    `default` is what upstream's database gives."""
    if statement.kind != "CREATE TABLE":
        return False
    table_charset, lengths = declared_charset(statement.options) or default, dict[str, int]()
    for column in statement.columns:
        charset, tokens = declared_charset(column.tokens) or table_charset, column.tokens
        sized = any(starts(tokens, kind, "(", at=1) for kind in ("CHAR", "VARCHAR"))
        if sized and charset is not None and charset.name == _LATIN1:
            lengths[same_name(column.name)] = int(tokens[3].text)
    parts = ([part for part in index.parts if not part.prefix] for index in statement.indexes)
    keys = (sum(lengths.get(same_name(part.column or ""), 0) for part in parts_of_index) for parts_of_index in parts)
    single = (lengths.get(same_name(c.name), 0) for c in statement.columns if c.has("PRIMARY") or c.has("UNIQUE"))
    return 4 * sum(lengths.values()) > _ROW_BYTES or any(4 * key > _KEY_BYTES >= key for key in (*keys, *single))


def wide_charsets(statement: ParsedStatement, edits: Edits) -> Iterator[str]:
    """Turns latin1 into utf8mb4. Yields one note."""
    tokens, is_changed = statement.tokens if _LATIN1 in statement.text.lower() else (), False
    for at, token in enumerate(tokens):
        previous = tokens[at - 2 if tokens[at - 1].text == "=" else at - 1]
        if token.word == f"_{_LATIN1.upper()}" and at + 1 < len(tokens) and tokens[at + 1].kind is TokenKind.STRING:
            edits.replace(token.start, token.end, "_UTF8MB4")
        elif token.word == _LATIN1.upper() and (_is_charset(tokens, at) or previous.word == "USING"):
            edits.replace(token.start, token.end, "UTF8MB4")
            is_changed = True
        elif token.word.startswith(f"{_LATIN1.upper()}_") and previous.word == "COLLATE":
            edits.replace(token.start, token.end, TIDB_DEFAULT.collation)
            is_changed = True
    if is_changed:
        yield "character set latin1 became utf8mb4, because TiDB keeps any text in it"


def known_collations(statement: ParsedStatement, edits: Edits, supported: Collection[str]) -> Iterator[str]:
    """Replaces collations and character sets that are not in `supported` (lower case). Yields one note for each.

    Raises DdlRefused if no replacement keeps upstream's keys distinct.
    """
    tokens = statement.tokens if statement.has_word("COLLATE", *_CHARSET_WORDS) else ()
    for at, token in enumerate(tokens):
        previous = tokens[at - 2 if tokens[at - 1].text == "=" else at - 1]
        if token.is_name and _is_charset(tokens, at) and not _charset_known(same_name(token.name), supported):
            edits.replace(token.start, token.end, "UTF8MB4")
            yield f"character set {token.name} became utf8mb4, because the server does not have it"
        if previous.word == "COLLATE" and token.is_name and not _known(same_name(token.name), supported):
            stand_in = _stand_in(same_name(token.name), supported)
            edits.replace(token.start, token.end, stand_in)
            yield f"collation {token.name} became {stand_in}, because the server does not have it"


def declares_collations(statement: ParsedStatement) -> bool:
    """Returns whether a character set or a collation may stand in it."""
    return statement.has_word("COLLATE", "BINARY", *_CHARSET_WORDS)


def declared_charset(tokens: Tokens) -> Charset | None:
    """Returns what the attributes of a column, table or database declare: a collation of their own, or TiDB's for their
    character set. Returns None if they declare neither."""
    at = find_words(tokens, "COLLATE")
    if at is not None:
        name = same_name(next((token.name for token in tokens[at + 1 :] if token.text != "="), ""))
        return Charset(name.partition("_")[0], name)
    at = _charset(tokens)
    if at is None:
        return None
    name = same_name(tokens[at].name)
    return Charset(name, TIDB_COLLATIONS.get(name, ""))


def declared_collation(tokens: Tokens) -> str | None:
    """Returns the collation that attributes declare, in lower case; "" for one that is not known, None if they declare
    none."""
    declared = declared_charset(tokens)
    return None if declared is None else declared.collation


def _attribute_lists(statement: ParsedStatement) -> Iterator[Tokens]:
    """Yields each run of tokens in which one character set and one collation belong together."""
    for column in statement.columns:
        yield column.tokens
    if statement.kind == "ALTER TABLE":
        for member in statement.members:
            if member.tokens and member.tokens[0].word not in ("ADD", "MODIFY", "CHANGE"):
                yield member.tokens
    else:
        yield statement.options


def _charset(tokens: Tokens) -> int | None:
    """Returns the position of the character set's name, outside of parentheses."""
    for at in top_level(tokens):
        if at > 0 and tokens[at].kind is not TokenKind.SYMBOL and _is_charset(tokens, at):
            return at
    return None


def _is_charset(tokens: Tokens, at: int) -> bool:
    before = at - 2 if tokens[at - 1].text == "=" else at - 1
    if before < 0:
        return False
    word = tokens[before].word
    return word == "CHARSET" or (word == "SET" and before > 0 and tokens[before - 1].word in ("CHARACTER", "CHAR"))


def _stand_in(collation: str, supported: Collection[str]) -> str:
    charset, _, rest = collation.partition("_")
    candidates = _STAND_INS.get(rest, (f"{charset}_bin", "utf8mb4_bin"))
    replacement = next((name for name in candidates if _known(name, supported)), None)
    if replacement is None:
        raise DdlRefused(
            f"the server has neither the collation {collation} nor one that separates the same keys",
        )
    return replacement


def _known(collation: str, supported: Collection[str]) -> bool:
    charset, _, rest = collation.partition("_")
    names = {collation, f"utf8mb3_{rest}"} if charset == "utf8" else {collation}
    # MariaDB lists its newest collations once for all character sets, without one in the name.
    return not names.isdisjoint(supported) or rest in supported


def _charset_known(charset: str, supported: Collection[str]) -> bool:
    names = ("utf8", "utf8mb3") if charset in ("utf8", "utf8mb3") else (charset,)
    return any(known == name or known.startswith(name + "_") for name in names for known in supported)
