"""TiCDC's table filter: rules such as ``db.*``, ``!db.tmp_?``, ``/^x/.t``; the last rule that fits decides."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache

from consumer.model.names import TableName

_PLAIN = r"[0-9A-Za-z_$\-\u0080-\U0010ffff]"
"""It is compiled for a rule with a letter: that takes 4 ms, and most starts have only ``*.*``."""

_QUOTED = {quote: f"{quote}(?:[^{quote}]|{quote}{quote})*{quote}" for quote in '`"'}
_NAME = "|".join([*_QUOTED.values(), r"""[^.*?\\\[/!`"]+"""])


class TableFilter:
    """Which tables are included. Without rules all are. Raises ValueError for a rule that cannot be read."""

    def __init__(self, rules: Sequence[str] = (), *, case_sensitive: bool = False) -> None:
        self.rules = tuple(rules)
        flags = 0 if case_sensitive else re.IGNORECASE
        self._rules = [_Rule(rule, flags) for rule in rules]

    def matches(self, table: TableName) -> bool:
        """Returns whether the rules include `table`; a database alone passes if one of its tables could."""
        verdict = not self._rules
        for rule in self._rules:
            if rule.fits(table):
                verdict = rule.wanted
        return verdict

    def asks_for(self, table: TableName) -> bool:
        """Returns whether a rule includes `table`, or no rule includes anything."""
        asking = [rule for rule in self._rules if rule.wanted]
        return not asking or any(rule.fits(table) for rule in asking)

    def takes_all(self, database: str) -> bool:
        """Returns whether the rules include every table of `database`, whatever its name."""
        verdict = not self._rules
        for rule in self._rules:
            if rule.meets(database):
                verdict = rule.wanted and (verdict or rule.all_tables)
        return verdict

    def hides(self, table: str) -> bool:
        """Returns whether some database can have a table of this name that the rules exclude."""
        hidden = bool(self._rules)
        for rule in self._rules:
            if rule.names(table) and (not rule.wanted or rule.all_databases):
                hidden = not rule.wanted
        return hidden


class _Rule:
    def __init__(self, text: str, flags: int) -> None:
        self.wanted = not text.startswith("!")
        body = text if self.wanted else text[1:]
        patterns = list(_patterns(body, text))
        if len(patterns) != 2:
            raise ValueError(
                f"'{text}' is not a table rule; give db.table with * or ? as wildcards, ! in front to leave out"
            )
        self._database, self._table = (_compile(pattern, flags, text) for pattern in patterns)

    def fits(self, table: TableName) -> bool:
        if not self._database.search(table.database):
            return False
        # A database passes with any rule that includes some table of it, and is excluded only with all of its tables.
        return bool(self._table.search(table.table)) if table.table else self.wanted or self.all_tables

    def meets(self, database: str) -> bool:
        return bool(self._database.search(database))

    def names(self, table: str) -> bool:
        return bool(self._table.search(table))

    @property
    def all_databases(self) -> bool:
        return self._database.pattern == _anchored(".*")

    @property
    def all_tables(self) -> bool:
        return self._table.pattern == _anchored(".*")


def _compile(pattern: str, flags: int, rule: str) -> re.Pattern[str]:
    try:
        return re.compile(pattern, flags | re.DOTALL)
    except re.error as problem:
        raise ValueError(f"'{rule}' holds a regular expression that cannot be read ({problem})") from problem


def _anchored(pattern: str) -> str:
    return rf"\A(?:{pattern})\Z"


def _patterns(body: str, rule: str) -> Iterator[str]:
    """Yields the regular expressions of the dot-separated parts of one rule."""
    position = 0
    while True:
        pattern, position = _part(body, position, rule)
        yield pattern
        if position == len(body):
            return
        if body[position] != ".":
            raise ValueError(f"'{rule}' is not a table rule: '{body[position]}' must be quoted, as in `a b`.`c`")
        position += 1


def _part(body: str, start: int, rule: str) -> tuple[str, int]:
    opening = body[start : start + 1]
    if opening in ('"', "`"):
        return _quoted(body, start, opening, rule)
    if opening == "/":
        end = re.compile(r"(?:[^/\\]|\\.)*").match(body, start + 1)
        if end is None or body[end.end() : end.end() + 1] != "/":
            raise ValueError(f"'{rule}' is not a table rule: its regular expression has no closing /")
        return end[0].replace(r"\/", "/"), end.end() + 1
    return _wildcard(body, start, rule)


def _quoted(body: str, start: int, quote: str, rule: str) -> tuple[str, int]:
    match = re.compile(_QUOTED[quote]).match(body, start)
    if match is None:
        raise ValueError(f"'{rule}' is not a table rule: its {quote} is not closed")
    return _anchored(re.escape(_unquoted(match[0]))), match.end()


def _wildcard(body: str, start: int, rule: str) -> tuple[str, int]:
    pattern, position = "", start
    while position < len(body) and body[position] != ".":
        piece, position = _wildcard_piece(body, position, rule)
        pattern += piece
    if not pattern:
        raise ValueError(f"'{rule}' is not a table rule; give db.table, both parts filled, as shop.* or *.orders")
    return _anchored(pattern), position


def _wildcard_piece(body: str, at: int, rule: str) -> tuple[str, int]:
    character = body[at]
    if character in "*?":
        return {"*": ".*", "?": "."}[character], at + 1
    if character == "\\" and at + 1 < len(body):
        return re.escape(body[at + 1]), at + 2
    if character == "[":
        match = re.compile(r"\[!?[^\]]+\]").match(body, at)
        if match:
            return match[0].replace("[!", "[^", 1), match.end()
    if not re.match(_PLAIN, character):
        raise ValueError(f"'{rule}' is not a table rule: '{character}' must be quoted, as in `a b`.`c`")
    return re.escape(character), at + 1


def whole_name(rule: str) -> TableName | None:
    """Returns the table that a rule names without any wildcard."""
    match = re.fullmatch(rf"({_NAME})\.({_NAME})", rule, re.DOTALL)
    return None if match is None else TableName(*map(_unquoted, match.groups()))


def _unquoted(name: str) -> str:
    quote = name[0]
    return name[1:-1].replace(quote * 2, quote) if quote in '`"' else name


@lru_cache(maxsize=512)
def table_filter(rules: tuple[str, ...], case_sensitive: bool) -> TableFilter:
    """Returns the filter of these rules, compiled once."""
    return TableFilter(rules, case_sensitive=case_sensitive)
