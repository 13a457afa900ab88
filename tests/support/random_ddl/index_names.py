"""The names that TiDB gives to what a statement leaves unnamed: MySQL and MariaDB choose others."""

from __future__ import annotations

import itertools
from collections.abc import Collection

EXPRESSION = "(`id`+1)"
"""On a column that no statement drops or changes, as TiDB would refuse that."""
_OF_EXPRESSIONS = "expression_index"


def free_name(parts: str, taken: Collection[str]) -> str:
    """For an index of `parts`, as they stand in the statement, beside those with the names `taken`, in lower case."""
    stem = _OF_EXPRESSIONS if EXPRESSION in parts else parts.split("`,`")[0].strip("`").replace("``", "`")
    numbered = (f"{stem}_{number}" for number in itertools.count(2))
    names = itertools.chain([] if stem.lower() == "primary" else [stem], numbered)
    return next(name for name in names if name.lower() not in taken)
