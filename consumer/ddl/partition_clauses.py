"""The clauses about partitions in CREATE TABLE and ALTER TABLE, taken apart."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from consumer.ddl.definitions import ParsedStatement, find_words, members_of
from consumer.ddl.expressions import NotUnderstood
from consumer.ddl.references import skip_if_exists
from consumer.ddl.tokens import Tokens, closing, starts
from consumer.model.names import same_names
from consumer.model.table_definition import Partition, Partitioning, PartitionKind

NUMBERED_KINDS = (PartitionKind.HASH, PartitionKind.KEY)
TAKES_ROWS = frozenset({"DROP", "TRUNCATE", "EXCHANGE"})
_VERBS = frozenset({"ADD", "DROP", "TRUNCATE", "COALESCE", "REORGANIZE", "EXCHANGE"})
_NAMING = frozenset({"DROP", "TRUNCATE", "REORGANIZE"})


@dataclass(frozen=True, slots=True)
class PartitionClause:
    """One clause of an ALTER TABLE. `verb` is its first word, or ``PARTITION BY``, or ``REMOVE PARTITIONING``.

    `names` are the partitions it names (`all_of_them` for ALL), `added` those that it defines; `count` is how many it
    adds (HASH, KEY) or COALESCE takes away; `by` is the new PARTITION BY.
    """

    verb: str
    names: tuple[str, ...] = ()
    all_of_them: bool = False
    added: tuple[Partition, ...] = ()
    count: int = 0
    by: Partitioning | None = None


def partition_clauses(statement: ParsedStatement) -> list[PartitionClause]:
    """The clauses about partitions of an ALTER TABLE, none for any other statement. Raises NotUnderstood."""
    if not statement.is_alter:
        return []
    _check_comments(statement)
    return [clause for tokens in _specifications(statement) if (clause := _clause(statement.text, tokens))]


def created_partitioning(statement: ParsedStatement) -> Partitioning | None:
    """The PARTITION BY of a CREATE TABLE, None where it has none. Raises NotUnderstood."""
    _check_comments(statement)
    at = find_words(statement.options, "PARTITION", "BY")
    return None if at is None else _partition_by(statement.text, statement.options[at + 2 :])


def _check_comments(statement: ParsedStatement) -> None:
    """In a comment of MySQL's or TiDB's own there is syntax, which is not read here."""
    for token in statement.comments:
        if "PARTITION" in token.text.upper():
            raise NotUnderstood(token.text)


def _specifications(statement: ParsedStatement) -> Iterator[Tokens]:
    """The parts between commas, with the names of a list of partitions brought together again."""
    held: list[Tokens] = []
    for member in statement.members:
        tokens = member.tokens
        if held and len(tokens) > 0 and tokens[0].is_name and (len(tokens) == 1 or starts(tokens, "INTO", at=1)):
            held.append(tokens)
            continue
        if held:
            yield [token for piece in held for token in piece]
        held = []
        if tokens and tokens[0].word in _NAMING and starts(tokens, "PARTITION", at=1):
            held = [tokens]
        else:
            yield tokens
    if held:
        yield [token for piece in held for token in piece]


def _clause(text: str, tokens: Tokens) -> PartitionClause | None:
    at = find_words(tokens, "PARTITION", "BY")
    if at is not None:
        return PartitionClause("PARTITION BY", by=_partition_by(text, tokens[at + 2 :]))
    if starts(tokens, "REMOVE", "PARTITIONING"):
        return PartitionClause("REMOVE PARTITIONING")
    verb = tokens[0].word if tokens else ""
    if verb in _VERBS and starts(tokens, "PARTITION", at=1):
        return _verb(text, verb, tokens, skip_if_exists(tokens, 2 + _is_local(tokens, 2)))
    if find_words(tokens, "PARTITION") is not None:
        raise NotUnderstood(text)
    return None


def _is_local(tokens: Tokens, at: int) -> bool:
    return starts(tokens, "NO_WRITE_TO_BINLOG", at=at) or starts(tokens, "LOCAL", at=at)


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
    # Between the pieces that the commas parted no comma is left.
    names = tuple(_name(tokens, place) for place in range(at, into))
    if not names:
        raise NotUnderstood(text)
    return PartitionClause(verb, names, added=_partitions(text, tokens, into + 1) if verb == "REORGANIZE" else ())


def _partition_by(text: str, tokens: Tokens) -> Partitioning:
    """From behind PARTITION BY. LINEAR (which TiDB passes over or refuses, by version) and subpartitions are not
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
        listed = listed or numbered(0, count or 1)
    return checked(Partitioning(kind, by, listed), text)


def checked(partitioning: Partitioning, text: str) -> Partitioning:
    """The partitioning itself. Raises NotUnderstood, with `text`, where names are not unique, or where a partition does
    not say in the way of its kind which rows it takes."""
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


def numbered(first: int, count: int) -> tuple[Partition, ...]:
    """Partitions that were given no names."""
    return tuple(Partition(f"p{number}") for number in range(first, first + count))


def _partitions(text: str, tokens: Tokens, at: int) -> tuple[Partition, ...]:
    """The definitions in the parentheses at position `at`."""
    if not starts(tokens, "(", at=at):
        raise NotUnderstood(text)
    found = []
    for member in members_of(tokens[at + 1 : closing(tokens, at)], 0, 0):
        if not starts(member.tokens, "PARTITION") or any(t.word.startswith("SUBPARTITION") for t in member.tokens):
            raise NotUnderstood(text)
        found.append(_partition(text, _name(member.tokens, 1), member.tokens[2:]))
    return tuple(found)


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
    """One member of a LIST: ``(1, 'a')`` in parentheses of its own, or a single value."""
    whole = starts(tokens, "(") and closing(tokens, 0) == len(tokens) - 1
    return _values(text, tokens, 0) if whole else (_text(text, tokens),)


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
