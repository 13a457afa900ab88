"""The clauses about partitions in CREATE TABLE and ALTER TABLE, and how a table is partitioned after each of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from consumer.ddl.charsets import declared_collation, declares_collations
from consumer.ddl.definitions import ColumnDefinition, ParsedStatement, find_words, members_of
from consumer.ddl.expressions import NotUnderstood
from consumer.ddl.references import skip_if_exists
from consumer.ddl.tokens import Tokens, closing, starts, tokenize
from consumer.model.names import same_name, same_names
from consumer.model.table_definition import Partition, Partitioning, PartitionKind

NUMBERED_KINDS = (PartitionKind.HASH, PartitionKind.KEY)
TAKES_ROWS = frozenset({"DROP", "TRUNCATE", "EXCHANGE"})
_VERBS = frozenset({"ADD", "DROP", "TRUNCATE", "COALESCE", "REORGANIZE", "EXCHANGE"})
_NAMING = frozenset({"DROP", "TRUNCATE", "REORGANIZE"})


@dataclass(frozen=True, slots=True)
class PartitionClause:
    """One clause of an ALTER TABLE. `verb` is its first word, or ``PARTITION BY``, or ``REMOVE PARTITIONING``.

    `names` are the partitions it names (`all_of_them` for ALL), `added` those that it defines. `count` is how many it
    adds (HASH, KEY) or COALESCE removes. `by` is the new PARTITION BY.
    """

    verb: str
    names: tuple[str, ...] = ()
    all_of_them: bool = False
    added: tuple[Partition, ...] = ()
    count: int = 0
    by: Partitioning | None = None


def partition_clauses(statement: ParsedStatement) -> list[PartitionClause]:
    """Returns the clauses about partitions of an ALTER TABLE, none for any other statement. Raises NotUnderstood."""
    if not statement.is_alter:
        return []
    _check_comments(statement)
    return [clause for tokens in _specifications(statement) if (clause := _clause(statement.text, tokens))]


def created_partitioning(statement: ParsedStatement) -> Partitioning | None:
    """Returns the PARTITION BY of a CREATE TABLE, None if it has none. Raises NotUnderstood."""
    _check_comments(statement)
    at = find_words(statement.options, "PARTITION", "BY")
    return None if at is None else _partition_by(statement.text, statement.options[at + 2 :])


def _check_comments(statement: ParsedStatement) -> None:
    """Raises NotUnderstood for a comment of MySQL's or TiDB's own about partitions: its syntax is not read here."""
    for token in statement.comments:
        if "PARTITION" in token.text.upper():
            raise NotUnderstood(token.text)


def _specifications(statement: ParsedStatement) -> Iterator[Tokens]:
    """Yields the parts between commas, with the names of a list of partitions joined again."""
    pending: list[Tokens] = []
    for member in statement.members:
        tokens = member.tokens
        if pending and len(tokens) > 0 and tokens[0].is_name and (len(tokens) == 1 or starts(tokens, "INTO", at=1)):
            pending.append(tokens)
            continue
        if pending:
            yield [token for piece in pending for token in piece]
        pending = []
        if tokens and tokens[0].word in _NAMING and starts(tokens, "PARTITION", at=1):
            pending = [tokens]
        else:
            yield tokens
    if pending:
        yield [token for piece in pending for token in piece]


def _clause(text: str, tokens: Tokens) -> PartitionClause | None:
    at = find_words(tokens, "PARTITION", "BY")
    if at is not None:
        return PartitionClause("PARTITION BY", by=_partition_by(text, tokens[at + 2 :]))
    if starts(tokens, "REMOVE", "PARTITIONING"):
        return PartitionClause("REMOVE PARTITIONING")
    verb = tokens[0].word if tokens else ""
    local = any(starts(tokens, word, at=2) for word in ("NO_WRITE_TO_BINLOG", "LOCAL"))
    if verb in _VERBS and starts(tokens, "PARTITION", at=1):
        return _verb(text, verb, tokens, skip_if_exists(tokens, 2 + local))
    if find_words(tokens, "PARTITION") is not None:
        raise NotUnderstood(text)
    return None


def _verb(text: str, verb: str, tokens: Tokens, at: int) -> PartitionClause:
    if verb == "COALESCE" or (verb == "ADD" and starts(tokens, "PARTITIONS", at=at)):
        return PartitionClause(verb, count=_number(tokens, at + (verb == "ADD")))
    if verb == "ADD":
        return PartitionClause(verb, added=_partitions(text, tokens, at))
    if verb == "EXCHANGE":
        return PartitionClause(verb, (_name(tokens, at),))
    if verb == "TRUNCATE" and starts(tokens, "ALL", at=at):
        return PartitionClause(verb, all_of_them=True)
    into = find_words(tokens, "INTO") if verb == "REORGANIZE" else len(tokens)
    if into is None:
        raise NotUnderstood(text)
    # No comma is left between the pieces that the commas separated.
    names = tuple(_name(tokens, position) for position in range(at, into))
    if not names:
        raise NotUnderstood(text)
    return PartitionClause(verb, names, added=_partitions(text, tokens, into + 1) if verb == "REORGANIZE" else ())


def _partition_by(text: str, tokens: Tokens) -> Partitioning:
    """Parses what follows PARTITION BY. LINEAR (which TiDB ignores or refuses, by version) and subpartitions are not
    understood, nor are the forms with INTERVAL, which TiDB writes out as partitions."""
    word = tokens[0].word if tokens else ""
    columns = starts(tokens, "COLUMNS", at=1)
    if word not in ("RANGE", "LIST", "HASH", "KEY") or (columns and word not in ("RANGE", "LIST")):
        raise NotUnderstood(text)
    kind = PartitionKind(f"{word} COLUMNS" if columns else word)
    at = 1 + columns
    if word == "KEY" and starts(tokens, "ALGORITHM", "=", at=at):
        at += 3
    if not starts(tokens, "(", at=at):
        raise NotUnderstood(text)
    end = closing(tokens, at)
    by: tuple[str, ...] = (_text(text, tokens[at + 1 : end]),)
    if columns or kind is PartitionKind.KEY:
        by = tuple(_name(member.tokens, 0) for member in members_of(tokens[at + 1 : end], 0, 0) if member.tokens)
    at, count = end + 1, 0
    if starts(tokens, "PARTITIONS", at=at):
        count, at = _number(tokens, at + 1), at + 2
    listed = _partitions(text, tokens, at) if starts(tokens, "(", at=at) else ()
    rest = tokens[closing(tokens, at) + 1 :] if listed else tokens[at:]
    if rest and not starts(rest, "UPDATE", "INDEXES"):
        raise NotUnderstood(text)
    if kind in NUMBERED_KINDS:
        listed = listed or numbered_partitions(0, count or 1)
    return checked_partitioning(Partitioning(kind, by, listed), text)


def checked_partitioning(partitioning: Partitioning, text: str) -> Partitioning:
    """Returns the partitioning itself. Raises NotUnderstood, with `text`, if names are not unique, or if a partition
    does not declare its rows in the way of its kind."""
    parts, width = partitioning.partitions, len(partitioning.by)
    fit = all(_fits(part, partitioning.kind) and all(len(row) == width for row in part.values) for part in parts)
    if not parts or not fit or len(same_names(part.name for part in parts)) < len(parts):
        raise NotUnderstood(text)
    return partitioning


def _fits(part: Partition, kind: PartitionKind) -> bool:
    if kind in NUMBERED_KINDS:
        return not part.values and not part.is_default
    if kind in (PartitionKind.RANGE, PartitionKind.RANGE_COLUMNS):
        return len(part.values) == 1 and not part.is_default
    return bool(part.values) or part.is_default


def numbered_partitions(first: int, count: int) -> tuple[Partition, ...]:
    """Returns partitions that were given no names."""
    return tuple(Partition(f"p{number}") for number in range(first, first + count))


def _partitions(text: str, tokens: Tokens, at: int) -> tuple[Partition, ...]:
    """Returns the definitions in the parentheses at position `at`."""
    if not starts(tokens, "(", at=at):
        raise NotUnderstood(text)
    partitions = []
    for member in members_of(tokens[at + 1 : closing(tokens, at)], 0, 0):
        if not starts(member.tokens, "PARTITION") or any(t.word.startswith("SUBPARTITION") for t in member.tokens):
            raise NotUnderstood(text)
        partitions.append(_partition(text, _name(member.tokens, 1), member.tokens[2:]))
    return tuple(partitions)


def _partition(text: str, name: str, tokens: Tokens) -> Partition:
    if starts(tokens, "VALUES", "LESS", "THAN", "MAXVALUE"):
        return Partition(name, (("MAXVALUE",),))
    if starts(tokens, "VALUES", "LESS", "THAN", "("):
        return Partition(name, (_values(text, tokens, 3),))
    if starts(tokens, "VALUES", "IN", "("):
        end = closing(tokens, 2)
        rows = [_row(text, member.tokens) for member in members_of(tokens[3:end], 0, 0)]
        return Partition(name, tuple(row for row in rows if row != ("DEFAULT",)), ("DEFAULT",) in rows)
    if starts(tokens, "DEFAULT"):
        return Partition(name, is_default=True)
    if starts(tokens, "VALUES"):
        raise NotUnderstood(text)
    return Partition(name)


def _row(text: str, tokens: Tokens) -> tuple[str, ...]:
    """Returns one member of a LIST: ``(1, 'a')`` in parentheses of its own, or a single value."""
    in_parentheses = starts(tokens, "(") and closing(tokens, 0) == len(tokens) - 1
    return _values(text, tokens, 0) if in_parentheses else (_text(text, tokens),)


def _values(text: str, tokens: Tokens, at: int) -> tuple[str, ...]:
    inside = tokens[at + 1 : closing(tokens, at)]
    return tuple(_text(text, member.tokens) for member in members_of(inside, 0, 0))


def _text(text: str, tokens: Tokens) -> str:
    if not tokens:
        raise NotUnderstood(text)
    return text[tokens[0].start : tokens[-1].end]


def _name(tokens: Tokens, at: int) -> str:
    if at >= len(tokens) or not tokens[at].is_name:
        raise NotUnderstood("a name is missing")
    return tokens[at].name


def _number(tokens: Tokens, at: int) -> int:
    if at >= len(tokens) or not tokens[at].text.isdecimal():
        raise NotUnderstood("a number is missing")
    return int(tokens[at].text)


_COLUMN_KINDS = (PartitionKind.RANGE_COLUMNS, PartitionKind.LIST_COLUMNS)
_PARTS = ("INDEX", "KEY", "PRIMARY", "FOREIGN", "CONSTRAINT", "CHECK", "PARTITION")


@dataclass(frozen=True, slots=True)
class PartitionedTable:
    """What is known of one table: its `partitioning` (None: it has none, or it is not known), and the collations of the
    text columns that its CREATE TABLE declared and no statement has touched since, by lower-case name."""

    partitioning: Partitioning | None = None
    collations: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class PartitionChanges:
    """Everything in one statement about partitions and what they depend on. `misread` is the part that is not
    understood, "" for none; `divides`: the statement has a PARTITION BY.

    A CREATE TABLE declares the `default` collation and that of each column (None: none, "": one that is not known) and
    its `partitioning`. An ALTER TABLE has `clauses`, and `touched` columns: those of each specification, with whether
    it may rename them; None: it may touch the collations of all.
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
        declares_some = declares_collations(statement)
        changes = PartitionChanges(
            default=declared_collation(statement.options),
            collations=tuple((same_name(c.name), _collation(c) if declares_some else None) for c in statement.columns),
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


def created_table(changes: PartitionChanges, database_collation: str) -> PartitionedTable:
    """Returns a table after its CREATE TABLE. `database_collation` is what its database gives to a table that declares
    none, "" if it is not known."""
    default = database_collation if changes.default is None else changes.default
    collations = ((name, default if declared is None else declared) for name, declared in changes.collations)
    return _partitioned(
        PartitionedTable(collations=tuple(pair for pair in collations if pair[1])), changes.partitioning
    )


def altered_table(table: PartitionedTable, changes: PartitionChanges) -> PartitionedTable:
    """Returns the table after an ALTER TABLE."""
    used = set() if table.partitioning is None else set(columns_read(table.partitioning))
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
            after = (*parts, *clause.added, *numbered_partitions(len(parts), clause.count))
        case "COALESCE":
            _check_kind(before, clause)
            after = parts[: len(parts) - clause.count]
        case "DROP":
            removed = positions(before, clause)
            after = tuple(part for at, part in enumerate(parts) if at not in removed)
        case _:
            removed = positions(before, clause)
            first = min(removed)
            kept = [part for at, part in enumerate(parts) if at not in removed and at >= first]
            after = (*parts[:first], *clause.added, *kept)
    return checked_partitioning(replace(before, partitions=after), clause.verb)


def positions(partitioning: Partitioning, clause: PartitionClause) -> frozenset[int]:
    """Returns the positions of the partitions that `clause` names. Raises NotUnderstood for one that is not known."""
    indexes = [partitioning.find(name) for name in clause.names]
    if clause.all_of_them:
        return frozenset(range(len(partitioning.partitions)))
    if any(at is None for at in indexes):
        raise NotUnderstood(f"partition {clause.names[indexes.index(None)]}")
    return frozenset(at for at in indexes if at is not None)


def _check_kind(before: Partitioning, clause: PartitionClause) -> None:
    """Raises NotUnderstood unless HASH and KEY grow and shrink by a number, RANGE and LIST by definitions."""
    by_number = before.kind in NUMBERED_KINDS
    if clause.count >= len(before.partitions) and clause.verb == "COALESCE":
        raise NotUnderstood(clause.verb)
    if (clause.count > 0 and not by_number) or not (clause.count or clause.added):
        raise NotUnderstood(clause.verb)


def _touched(statement: ParsedStatement) -> Iterator[tuple[frozenset[str] | None, bool]]:
    """Yields the columns of `PartitionChanges.touched`."""
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


def columns_read(partitioning: Partitioning) -> Iterator[str]:
    """Yields every name in the partitioning's expression, in lower case."""
    for text in partitioning.by:
        if partitioning.kind in (*_COLUMN_KINDS, PartitionKind.KEY):
            yield same_name(text)
        else:
            yield from (same_name(token.name) for token in tokenize(text) if token.is_name)
