"""How a table is partitioned after each of its statements."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from consumer.ddl.charsets import declared_collation, declares_collations
from consumer.ddl.definitions import ColumnDefinition, ParsedStatement, find_words
from consumer.ddl.expressions import NotUnderstood
from consumer.ddl.partition_clauses import (
    NUMBERED_KINDS,
    PartitionClause,
    checked,
    created_partitioning,
    numbered,
    partition_clauses,
)
from consumer.ddl.tokens import starts, tokenize
from consumer.model.names import same_name, same_names
from consumer.model.table_definition import Partitioning, PartitionKind

_COLUMN_KINDS = (PartitionKind.RANGE_COLUMNS, PartitionKind.LIST_COLUMNS)
_PARTS = ("INDEX", "KEY", "PRIMARY", "FOREIGN", "CONSTRAINT", "CHECK", "PARTITION")


@dataclass(frozen=True, slots=True)
class PartitionedTable:
    """What is known of one table: its `partitioning` (None: it has none, or it cannot be told), and the collations of
    the text columns that its CREATE TABLE declared and no statement touched since, by lower-case name."""

    partitioning: Partitioning | None = None
    collations: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class PartitionChanges:
    """All that one statement says of partitions and of what they hang on. `misread` says what in it is not understood,
    "" for nothing; `divides`: PARTITION BY stands in it.

    A CREATE TABLE declares the `default` collation and that of each column (None: none, "": one that is not known) and
    its `partitioning`; an ALTER TABLE has `clauses`, and `touched` columns, each specification's with whether it may
    give them another name; None: it may touch the collations of all.
    """

    misread: str = ""
    divides: bool = False
    default: str | None = None
    collations: tuple[tuple[str, str | None], ...] = ()
    partitioning: Partitioning | None = None
    clauses: tuple[PartitionClause, ...] = ()
    touched: tuple[tuple[frozenset[str] | None, bool], ...] = ()


def partition_changes(statement: ParsedStatement) -> PartitionChanges:
    if statement.kind == "CREATE TABLE":
        some = declares_collations(statement)
        changes = PartitionChanges(
            default=declared_collation(statement.options),
            collations=tuple((same_name(c.name), _collation(c) if some else None) for c in statement.columns),
        )
    else:
        changes = PartitionChanges(touched=tuple(_touched(statement)))
    divides = any(
        t.word == "PARTITION" and starts(statement.tokens, "BY", at=at + 1) for at, t in enumerate(statement.tokens)
    )
    changes = replace(changes, divides=divides) if divides else changes
    try:
        if statement.kind == "CREATE TABLE":
            return replace(changes, partitioning=created_partitioning(statement))
        return replace(changes, clauses=tuple(partition_clauses(statement)))
    except NotUnderstood as error:
        return replace(changes, misread=str(error))


def _collation(column: ColumnDefinition) -> str | None:
    return "" if column.has("BINARY") else declared_collation(column.tokens)


def created(changes: PartitionChanges, database_collation: str) -> PartitionedTable:
    """A table after its CREATE TABLE. `database_collation` is what its database gives to a table that declares none, ""
    for one that is not known."""
    default = database_collation if changes.default is None else changes.default
    found = ((name, default if own is None else own) for name, own in changes.collations)
    return _partitioned(PartitionedTable(collations=tuple(pair for pair in found if pair[1])), changes.partitioning)


def altered(table: PartitionedTable, changes: PartitionChanges) -> PartitionedTable:
    """The table after an ALTER TABLE."""
    used = set() if table.partitioning is None else set(_columns(table.partitioning))
    renamed = (columns for columns, renames in changes.touched if renames and columns is not None)
    unclear = bool(changes.misread) or any(columns & used for columns in renamed)
    for columns, _ in changes.touched:
        table = _without_collations(table, columns)
    if unclear:
        return replace(table, partitioning=None)
    try:
        after = table
        for clause in changes.clauses:
            after = _partitioned(after, _after(after.partitioning, clause))
        return after
    except NotUnderstood:
        return replace(table, partitioning=None)


def _partitioned(table: PartitionedTable, partitioning: Partitioning | None) -> PartitionedTable:
    if partitioning is None or partitioning.kind not in _COLUMN_KINDS:
        return replace(table, partitioning=partitioning)
    columns = same_names(partitioning.by)
    collations = tuple(pair for pair in table.collations if pair[0] in columns)
    return replace(table, partitioning=replace(partitioning, collations=collations))


def _after(before: Partitioning | None, clause: PartitionClause) -> Partitioning | None:
    """Raises NotUnderstood for a clause that does not fit what is known."""
    if clause.verb in ("PARTITION BY", "REMOVE PARTITIONING"):
        return clause.by
    if before is None or clause.verb in ("TRUNCATE", "EXCHANGE"):
        return before
    parts = before.partitions
    match clause.verb:
        case "ADD":
            _check_kind(before, clause)
            after = (*parts, *clause.added, *numbered(len(parts), clause.count))
        case "COALESCE":
            _check_kind(before, clause)
            after = parts[: len(parts) - clause.count]
        case "DROP":
            gone = positions(before, clause)
            after = tuple(part for at, part in enumerate(parts) if at not in gone)
        case _:
            gone = positions(before, clause)
            first = min(gone)
            kept = [part for at, part in enumerate(parts) if at not in gone and at >= first]
            after = (*parts[:first], *clause.added, *kept)
    return checked(replace(before, partitions=after), clause.verb)


def positions(partitioning: Partitioning, clause: PartitionClause) -> frozenset[int]:
    """Where the partitions stand that `clause` names. Raises NotUnderstood for one that is not known."""
    found = [partitioning.find(name) for name in clause.names]
    if clause.all_of_them:
        return frozenset(range(len(partitioning.partitions)))
    if any(at is None for at in found):
        raise NotUnderstood(f"partition {clause.names[found.index(None)]}")
    return frozenset(at for at in found if at is not None)


def _check_kind(before: Partitioning, clause: PartitionClause) -> None:
    """HASH and KEY grow and shrink by a number, RANGE and LIST by definitions."""
    by_number = before.kind in NUMBERED_KINDS
    if clause.count >= len(before.partitions) and clause.verb == "COALESCE":
        raise NotUnderstood(clause.verb)
    if (clause.count > 0 and not by_number) or not (clause.count or clause.added):
        raise NotUnderstood(clause.verb)


def _touched(statement: ParsedStatement) -> Iterator[tuple[frozenset[str] | None, bool]]:
    """See PartitionChanges."""
    for member in statement.members:
        tokens = member.tokens
        first = tokens[0].word if tokens else ""
        of_column = first == "DROP" and not any(starts(tokens, word, at=1) for word in _PARTS)
        if first in ("CHANGE", "RENAME", "MODIFY") or of_column:
            yield frozenset(same_name(token.name) for token in tokens if token.is_name), first != "MODIFY"
        elif first != "ADD" and any(
            find_words(tokens, word) is not None for word in ("COLLATE", "CHARSET", "CHARACTER")
        ):
            yield None, False


def _without_collations(table: PartitionedTable, columns: frozenset[str] | None) -> PartitionedTable:
    kept = tuple(pair for pair in table.collations if columns is not None and pair[0] not in columns)
    return _partitioned(replace(table, collations=kept), table.partitioning)


def _columns(partitioning: Partitioning) -> Iterator[str]:
    """Every name in the partitioning's expression, in lower case."""
    for text in partitioning.by:
        if partitioning.kind in (*_COLUMN_KINDS, PartitionKind.KEY):
            yield same_name(text)
        else:
            yield from (same_name(token.name) for token in tokenize(text) if token.is_name)
