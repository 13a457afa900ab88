"""What MySQL and TiDB understand and MariaDB does not (and the one thing that MariaDB understands and MySQL does
not)."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from consumer.ddl.definitions import (
    ColumnDefinition,
    Index,
    Member,
    ParsedStatement,
    added_columns,
    find_words,
    name_in,
)
from consumer.ddl.indexes import INDEX_NOUNS
from consumer.ddl.references import skip_if_exists
from consumer.ddl.session_times import generated_at
from consumer.ddl.tidb_syntax import computed_clauses
from consumer.ddl.tokens import Edits, Tokens, starts, top_level
from consumer.model.names import same_name, same_names
from consumer.model.table_definition import TableIndexes


def expression_indexes(statement: ParsedStatement) -> Iterator[tuple[Index, str]]:
    """Yields indexes on expressions, multi-valued ones too, and why they are left out."""
    for index in statement.indexes:
        if is_unsupported_index(index.kind, index.has_expression):
            yield index, f"{index.label} is left out: MariaDB has no indexes on expressions"


def is_unsupported_index(kind: str, has_expression: bool) -> bool:
    """Returns whether MariaDB has no such index."""
    return has_expression and kind in ("INDEX", "UNIQUE")


def index_visibility(statement: ParsedStatement, edits: Edits) -> None:
    """Writes INVISIBLE as IGNORED, MariaDB's word."""
    if not statement.has_word("INVISIBLE", "VISIBLE"):
        return
    for index in statement.indexes:
        _ignored(index.tokens, edits)
    for member in statement.members:
        if starts(member.tokens, "ALTER", "INDEX"):
            _ignored(member.tokens, edits)


def _ignored(tokens: Tokens, edits: Edits) -> None:
    for at in top_level(tokens):
        if tokens[at].word in ("INVISIBLE", "VISIBLE"):
            word = "IGNORED" if tokens[at].word == "INVISIBLE" else "NOT IGNORED"
            edits.replace(tokens[at].start, tokens[at].end, word)


def generated_columns(statement: ParsedStatement, edits: Edits, plain: Collection[str] = ()) -> Iterator[str]:
    """Removes what MariaDB does not take: NULL and NOT NULL on a generated column, and a primary key of one.

    A STORED column under a primary key, or NOT NULL under a unique one, becomes a plain column: rows carry its values.
    Those in `plain` are plain already. Yields notes.
    """
    indexes = statement.indexes
    for column in statement.columns if statement.has_word("AS") else ():
        generated = generated_at(column)
        if generated is None or column.name in plain:
            continue
        start, end = generated
        stored = starts(column.tokens, "STORED", at=end + 1)
        if stored and _must_not_be_null(column, indexes):
            edits.remove(column.tokens[start - 1].end, column.tokens[end + 1].end)
            yield f"column {column.name} is generated upstream and a plain column here, because it is part of a key"
            continue
        for at in top_level(column.tokens):
            if at > end and column.tokens[at].word == "NULL":
                first = at - 1 if column.tokens[at - 1].word == "NOT" else at
                edits.remove(column.tokens[first - 1].end, column.tokens[at].end)


def _must_not_be_null(column: ColumnDefinition, indexes: Sequence[Index]) -> bool:
    kinds = {i.kind for i in indexes for part in i.parts if same_name(part.column or "") == same_name(column.name)}
    unique = "UNIQUE" in kinds or column.has("UNIQUE")
    return "PRIMARY" in kinds or column.has("PRIMARY") or (unique and column.has("NOT", "NULL"))


def json_zeros(statement: ParsedStatement, edits: Edits) -> list[str]:
    """``ADD COLUMN .. JSON NOT NULL``: existing rows get JSON null upstream, and '' from MariaDB, to which JSON is a
    text. Gives the columns JSON null as a default. Returns those that must lose this default again."""
    added = same_names(statement.added_columns())
    columns = []
    for column in statement.columns if added else ():
        bare = starts(column.tokens, "JSON", at=1) and not column.has("DEFAULT") and generated_at(column) is None
        at = column.find("NOT", "NULL")
        if bare and at is not None and same_name(column.name) in added:
            edits.insert(column.tokens[at + 1].end, " DEFAULT 'null'")
            columns.append(column.name)
    return columns


def remove_unknown_options(statement: ParsedStatement, edits: Edits) -> None:
    """Removes options of tables and columns, and the validation of EXCHANGE PARTITION, that MariaDB does not know."""
    if not statement.has_word("STORAGE", "COLUMN_FORMAT", "VALIDATION"):
        return
    tokens = statement.tokens
    for at, token in enumerate(tokens):
        on_media = token.word == "STORAGE" and any(starts(tokens, medium, at=at + 1) for medium in ("DISK", "MEMORY"))
        if on_media or token.word == "COLUMN_FORMAT":
            edits.remove(tokens[at - 1].end, tokens[at + 1].end)
    for member in statement.members:
        at_validation = find_words(member.tokens, "VALIDATION")
        if starts(member.tokens, "EXCHANGE", "PARTITION") and at_validation is not None:
            # MariaDB always validates: rows that do not belong in the partition are refused, never misplaced.
            edits.remove(member.tokens[at_validation - 2].end, member.tokens[at_validation].end)


def bracketed_defaults(statement: ParsedStatement, edits: Edits) -> None:
    """Writes for MySQL ``DEFAULT RAND()``, as TiDB has some, in parentheses."""
    for clause in computed_clauses(statement):
        if not clause.generated and clause.expression[0].text != "(":
            first, last = clause.expression[0].start, clause.expression[-1].end
            edits.replace(first, last, f"({statement.text[first:last]})")


def remove_if_exists(statement: ParsedStatement, edits: Edits) -> None:
    """Removes for MySQL ``IF [NOT] EXISTS`` inside ALTER TABLE and on indexes. TiCDC writes no statement that did
    nothing; some of several specifications may have done nothing (see `without_effect`)."""
    if statement.kind not in ("ALTER TABLE", "CREATE INDEX", "DROP INDEX"):
        return
    tokens = statement.tokens
    for at in range(1, len(tokens)):
        if width := skip_if_exists(tokens, at) - at:
            edits.remove(tokens[at - 1].end, tokens[at + width - 1].end)


def without_effect(
    statement: ParsedStatement, columns: frozenset[str] | None, indexes: TableIndexes
) -> Iterator[Member]:
    """Yields the specifications of an ALTER TABLE that did nothing upstream because of their ``IF [NOT] EXISTS``. The
    table had `columns` (in lower case; None: not known) and `indexes` before it."""
    for member in statement.members if statement.is_alter else ():
        tokens = member.tokens
        at = 1 + starts(tokens, "COLUMN", at=1)
        if starts(tokens, "ADD") and starts(tokens, "IF", "NOT", "EXISTS", at=at):
            added = added_columns(member)
            if columns is not None and added and columns >= same_names(added):
                yield member
        elif starts(tokens, "DROP") and starts(tokens, "IF", "EXISTS", at=at):
            if columns is not None and same_name(name_in(tokens, at)) not in columns:
                yield member
        elif indexes.complete and _keeps_index(tokens, indexes):
            yield member


def _keeps_index(tokens: Tokens, indexes: TableIndexes) -> bool:
    """Returns whether it adds an existing index unless it exists, or drops a missing one if it exists."""
    at = 2 + (starts(tokens, "ADD", "UNIQUE") and any(starts(tokens, noun, at=2) for noun in INDEX_NOUNS))
    if starts(tokens, "ADD") and starts(tokens, "IF", "NOT", "EXISTS", at=at):
        return indexes.index(name_in(tokens, at)) is not None
    if any(starts(tokens, "DROP", noun, "IF", "EXISTS") for noun in INDEX_NOUNS):
        return indexes.index(name_in(tokens, 2)) is None
    return False
