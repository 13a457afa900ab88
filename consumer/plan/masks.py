"""Statements of which masked values are not enough: they would show a value, or divide rows by it."""

from __future__ import annotations

from collections.abc import Iterator

from consumer.ddl.changes import changes_of
from consumer.ddl.definitions import ParsedStatement, statement_of
from consumer.ddl.tokens import Tokens, starts
from consumer.model.files import SchemaFile
from consumer.model.rules import Shaping


def unmasked(shaping: Shaping, file: SchemaFile) -> str:
    """Why the file's statement is not to run on a table with masks, "" for no reason."""
    changes = changes_of(file)
    if changes.named("like") is not None:
        return "it copies a definition, and columns of the table are masked: whether others depend on them is not seen"
    for new, old in changes.columns.renamed.items():
        if shaping.mask_of(new) != shaping.mask_of(old):
            return f"it renames column {old} to {new}, and these are not masked alike"
    statement = statement_of(file.query)
    for column in statement.columns:
        if column.find("AS", "(") is not None and (mask := shaping.mask_of(column.name)) is not None:
            return f"column {column.name} is masked ({mask.kind}) and generated: the target would compute its values"
    for what, tokens in _dependent(statement):
        for token in tokens:
            if token.is_name and (mask := shaping.mask_of(token.name)) is not None and token.text.upper() not in _WORDS:
                return f"{what} depends on column {token.name}, which is masked ({mask.kind})"
    return ""


def masked_misfit(shaping: Shaping, file: SchemaFile) -> str:
    """Why masked values would not fit the columns that an ALTER leaves, "" for no reason: the target would cut those
    there. What a new table cannot have masked is told by its first load."""
    if not statement_of(file.query).is_alter:
        return ""
    from consumer.shaping.masks import fault_of  # Arrow is loaded only where there are masks

    why = fault_of(shaping, file.columns or (), (), ())
    return f"columns are masked, and their values would not fit: {why}" if why else ""


_WORDS = ("AS", "PARTITION", "BY", "RANGE", "LIST", "HASH", "KEY", "COLUMNS", "VALUES", "STORED", "VIRTUAL")
"""Words of the clauses, which a pattern of columns can fit."""


def _dependent(statement: ParsedStatement) -> Iterator[tuple[str, Tokens]]:
    """What of a statement is computed of columns, with its tokens."""
    for column in statement.columns:
        if (at := column.find("AS", "(")) is not None:
            yield f"column {column.name}", column.tokens[at:]
    for index in statement.indexes:
        if index.has_expression:
            yield index.label, index.tokens
    for at in range(len(statement.tokens)):
        if starts(statement.tokens, "PARTITION", "BY", at=at):
            yield "its partitioning", statement.tokens[at:]
