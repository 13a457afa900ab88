"""Table names as people write them: ``db.table``, with backticks where a name holds a dot."""

from __future__ import annotations

import re

from consumer.errors import BadConfig
from consumer.model.names import TableName

_PART = r"(?:`((?:[^`]|``)+)`|([^`.]+))"
_NAME = re.compile(rf"{_PART}\.{_PART}", re.DOTALL)


def parse_table(text: str) -> TableName:
    """The table that ``--table`` names. Raises BadConfig."""
    found = _NAME.fullmatch(text)
    if found is None:
        raise BadConfig(f"--table is refused: '{text}' is not of the form db.table; quote a name with a dot: `a.b`.`c`")
    database, table = (quoted.replace("``", "`") or plain for quoted, plain in _pairs(found))
    return TableName(database, table)


def parse_owner(text: str) -> TableName:
    """What a statement belongs to: a table, or a database alone. Raises BadConfig."""
    alone = re.fullmatch(_PART, text, re.DOTALL)
    return TableName((alone[1] or "").replace("``", "`") or alone[2], "") if alone else parse_table(text)


def _pairs(found: re.Match[str]) -> list[tuple[str, str]]:
    groups = [group or "" for group in found.groups()]
    return [(groups[0], groups[1]), (groups[2], groups[3])]
