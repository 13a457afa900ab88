"""Character sets and collations: TiDB's defaults made explicit, and stand-ins for those a server does not know."""

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
"""What TiDB takes where a character set comes without a collation, and MySQL and MariaDB take another."""

_LATIN1 = "latin1"
"""TiDB keeps any text in it, as UTF-8."""

STAYS = "character set latin1 stays, because the columns would be too long for the server as utf8mb4"

_ROW_BYTES, _KEY_BYTES = 65_535, 3072
"""What InnoDB takes."""

_STAND_INS = {
    "0900_ai_ci": ("utf8mb4_uca1400_nopad_ai_ci", "utf8mb4_unicode_520_nopad_ci"),
    "0900_as_ci": ("utf8mb4_uca1400_nopad_as_ci",),
    "0900_as_cs": ("utf8mb4_uca1400_nopad_as_cs", "utf8mb4_nopad_bin"),
    "0900_bin": ("utf8mb4_nopad_bin",),
}
"""Closest first. Trailing blanks count in all of them, so no two keys fall together that upstream tells apart."""


_CHARSET_WORDS = ("CHARSET", "SET")
"""Before the name of a character set: the second one is the end of CHARACTER SET."""


def explicit_collations(statement: ParsedStatement, edits: Edits, wide: bool) -> None:
    """Add the collation wherever a character set is named alone: a key must not become coarser than upstream's.
    `wide`: that of what `wide_charsets` makes of it."""
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
    """Write `default`, what upstream's database gives, into a CREATE TABLE that names no character set: the target's
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
    """What a server needs for the texts that TiDB takes in this character set."""
    return TIDB_DEFAULT if charset.collation.startswith(f"{_LATIN1}_") else charset


def too_wide(statement: ParsedStatement, default: Charset | None) -> bool:
    """Whether the columns of a new table that are latin1 fit into the server's rows and keys, and would not as utf8mb4.
    `default` is what upstream's database gives."""
    if statement.kind != "CREATE TABLE":
        return False
    own, lengths = declared_charset(statement.options) or default, dict[str, int]()
    for column in statement.columns:
        charset, tokens = declared_charset(column.tokens) or own, column.tokens
        sized = any(starts(tokens, kind, "(", at=1) for kind in ("CHAR", "VARCHAR"))
        if sized and charset is not None and charset.name == _LATIN1:
            lengths[same_name(column.name)] = int(tokens[3].text)
    parts = ([part for part in index.parts if not part.prefix] for index in statement.indexes)
    keys = (sum(lengths.get(same_name(part.column or ""), 0) for part in whole) for whole in parts)
    single = (lengths.get(same_name(c.name), 0) for c in statement.columns if c.has("PRIMARY") or c.has("UNIQUE"))
    return 4 * sum(lengths.values()) > _ROW_BYTES or any(4 * key > _KEY_BYTES >= key for key in (*keys, *single))


def wide_charsets(statement: ParsedStatement, edits: Edits) -> Iterator[str]:
    """latin1 becomes utf8mb4, with one note."""
    tokens, found = statement.tokens if _LATIN1 in statement.text.lower() else (), False
    for at, token in enumerate(tokens):
        previous = tokens[at - 2 if tokens[at - 1].text == "=" else at - 1]
        if token.word == f"_{_LATIN1.upper()}" and at + 1 < len(tokens) and tokens[at + 1].kind is TokenKind.STRING:
            edits.replace(token.start, token.end, "_UTF8MB4")
        elif token.word == _LATIN1.upper() and (_is_charset(tokens, at) or previous.word == "USING"):
            edits.replace(token.start, token.end, "UTF8MB4")
            found = True
        elif token.word.startswith(f"{_LATIN1.upper()}_") and previous.word == "COLLATE":
            edits.replace(token.start, token.end, TIDB_DEFAULT.collation)
            found = True
    if found:
        yield "character set latin1 became utf8mb4, because TiDB keeps any text in it"


def known_collations(statement: ParsedStatement, edits: Edits, supported: Collection[str]) -> Iterator[str]:
    """Replace collations and character sets that are not in `supported` (lower case), one note each.

    Raises DdlRefused where no stand-in keeps upstream's keys apart.
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
    """Whether a character set or a collation may stand in it."""
    return statement.has_word("COLLATE", "BINARY", *_CHARSET_WORDS)


def declared_charset(tokens: Tokens) -> Charset | None:
    """What a column's, a table's or a database's attributes declare: a collation of their own, or TiDB's for their
    character set. None where they declare neither."""
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
    """The collation that attributes declare, in lower case; "" for one that is not known, None where they declare
    none."""
    declared = declared_charset(tokens)
    return None if declared is None else declared.collation


def _attribute_lists(statement: ParsedStatement) -> Iterator[Tokens]:
    """Each run of tokens in which one character set and one collation belong together."""
    for column in statement.columns:
        yield column.tokens
    if statement.kind == "ALTER TABLE":
        for member in statement.members:
            if member.tokens and member.tokens[0].word not in ("ADD", "MODIFY", "CHANGE"):
                yield member.tokens
    else:
        yield statement.options


def _charset(tokens: Tokens) -> int | None:
    """The position of the character set's name, outside of parentheses."""
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
    found = next((name for name in candidates if _known(name, supported)), None)
    if found is None:
        raise DdlRefused(
            f"the server has neither the collation {collation} nor one that separates the same keys",
        )
    return found


def _known(collation: str, supported: Collection[str]) -> bool:
    charset, _, rest = collation.partition("_")
    names = {collation, f"utf8mb3_{rest}"} if charset == "utf8" else {collation}
    # MariaDB lists its newest collations once for all character sets, without one in the name.
    return not names.isdisjoint(supported) or rest in supported


def _charset_known(charset: str, supported: Collection[str]) -> bool:
    names = ("utf8", "utf8mb3") if charset in ("utf8", "utf8mb3") else (charset,)
    return any(known == name or known.startswith(name + "_") for name in names for known in supported)
