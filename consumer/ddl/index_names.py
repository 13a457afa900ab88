"""Names that TiDB gave to indexes without one, so that later statements find them under those names."""

from __future__ import annotations

from collections.abc import Collection

from consumer.ddl.definitions import Statement
from consumer.ddl.tokens import Edits, quote


def automatic_name(stem: str, taken: Collection[str]) -> str:
    """TiDB's name for an index that was given none: `stem`, with a number where that is `taken` (lower case)."""
    number, name = 2, f"{stem}_2" if stem.lower() == "primary" else stem
    while name.lower() in taken:
        name, number = f"{stem}_{number}", number + 1
    return name


def name_indexes(statement: Statement, edits: Edits, existing: Collection[str] | None) -> None:
    """Write names into a statement where the server would choose others, or might when it is executed twice.

    `existing` are the names of the table's indexes (None: not known, so an ALTER TABLE is left alone).
    """
    if statement.is_alter and existing is None:
        return
    unnamed = [index for index in statement.indexes() if index.name is None and index.kind in ("INDEX", "UNIQUE")]
    taken = {name.lower() for name in existing or ()}
    taken |= {index.name.lower() for index in statement.indexes() if index.name}
    for index in unnamed:
        name = automatic_name(index.stem, taken)
        taken.add(name.lower())
        if statement.is_alter or index.has_expression:
            edits.insert(index.name_at, f" {quote(name)}")
