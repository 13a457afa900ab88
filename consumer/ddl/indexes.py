"""Book of a table's indexes and foreign keys, kept by upstream's own rules: which it makes itself, and their names."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from consumer.ddl.checks import check_names
from consumer.ddl.definitions import ColumnDefinition, ForeignKey, Index, Member, Statement, statement_of
from consumer.ddl.references import name_at, skip_if_exists
from consumer.ddl.tokens import Tokens, starts
from consumer.model.indexes import KnownForeignKey, KnownIndex, Part, TableIndexes

INDEX_NOUNS = ("INDEX", "KEY")
_PRIMARY = "PRIMARY"


@dataclass(frozen=True, slots=True)
class MadeIndex:
    """An index that a statement makes, under upstream's name for it. `source` is where it is defined: as an index, with
    its column, or not at all (None: for a foreign key that no index covers). `given`: the statement names it."""

    known: KnownIndex
    source: Index | ColumnDefinition | None
    given: bool


@dataclass(frozen=True, slots=True)
class MadeForeignKey:
    """A foreign key that a statement makes, with upstream's name for it."""

    name: str
    source: ForeignKey


def after(
    before: TableIndexes, query: str, version: int, *, skipped: bool = False, restored: bool = False
) -> TableIndexes:
    """The table once the statement `query` of `version` has run upstream: a CREATE TABLE, or one that changes a table.

    `skipped`: it was not executed here. `restored`: the target was given with what it made, under upstream's names.
    """
    statement = statement_of(query)
    if statement.kind == "CREATE TABLE":
        before = TableIndexes(whole=True, foreign_ids=0)
    keys, made = made_foreign_keys(statement, before), made_indexes(statement, before)
    left = _without_dropped(before, statement)
    return replace(
        left,
        indexes=(*left.indexes, *(replace(index.known, skipped=skipped) for index in made)),
        foreign_keys=(
            *left.foreign_keys,
            *(
                KnownForeignKey(
                    key.name, key.name if key.source.name or restored else name_there(key.name, version), skipped
                )
                for key in keys
            ),
        ),
        foreign_ids=None if left.foreign_ids is None else left.foreign_ids + len(keys),
    )


def name_there(name: str, version: int) -> str:
    """What a foreign key that upstream has named gets for a name where tables share such names: `version` is that of
    the statement that makes it."""
    return f"{name}_{version}"


def copied(source: TableIndexes) -> TableIndexes:
    """What CREATE TABLE .. LIKE makes of `source`: indexes without the foreign keys, numbered on."""
    return replace(source, foreign_keys=())


def made_indexes(statement: Statement, before: TableIndexes) -> list[MadeIndex]:
    """The indexes that a CREATE TABLE, CREATE INDEX or ALTER TABLE makes, those of foreign keys last."""
    creates = statement.kind == "CREATE TABLE"
    indexes, columns = statement.indexes, statement.columns
    # A new table's own definitions reserve their names first; a later statement looks at what is there.
    given = {index.name.lower() for index in indexes if index.name}
    taken = {*given, *check_names(statement)} if creates else {index.name.lower() for index in before.indexes}
    made = []
    for index in indexes:
        stem = _stem(index, any_part=creates)
        name = index.name or automatic_name(stem, taken)
        made.append(_made(name, index.kind, index.parts, index, bool(index.name)))
        taken.add(name.lower())
    for column in columns:
        for kind in _column_keys(column):
            name = automatic_name(column.name, taken)
            made.append(_made(name, kind, (Part(column.name),), column, False))
            taken.add(name.lower())
    there = replace(before, indexes=(*before.indexes, *(index.known for index in made)))
    for key in made_foreign_keys(statement, before) if creates or before.whole else ():
        lowered = [column.lower() for column in key.source.columns]
        if lowered and not there.covers(lowered):
            made.append(_made(key.name, "INDEX", tuple(map(Part, key.source.columns)), None, False))
            there = replace(there, indexes=(*there.indexes, made[-1].known))
    return made


def made_foreign_keys(statement: Statement, before: TableIndexes) -> list[MadeForeignKey]:
    """The foreign keys that a CREATE TABLE or ALTER TABLE makes, but for unnamed ones whose number is not known."""
    creates = statement.kind == "CREATE TABLE"
    number, found = 0 if creates else before.foreign_ids, []
    for key in statement.foreign_keys:
        if number is not None:
            number += creates or key.name is None  # a later statement counts only those that it has to name
        if key.name is not None or number is not None:
            found.append(MadeForeignKey(key.name or f"fk_{number}", key))
    return found


def automatic_name(stem: str, taken: Collection[str]) -> str:
    """TiDB's name for an index that was given none: `stem`, with a number where that is `taken` (lower case)."""
    number, name = (3, f"{stem}_2") if stem.lower() == "primary" else (2, stem)
    while name.lower() in taken:
        name, number = f"{stem}_{number}", number + 1
    return name


def dropped_index(tokens: Tokens) -> str:
    """The index that a specification (or a DROP INDEX statement) drops, renames or alters; "" for none."""
    if any(starts(tokens, verb, noun) for verb in ("DROP", "RENAME", "ALTER") for noun in INDEX_NOUNS):
        return name_in(tokens, 2)
    return ""


def dropped_foreign_key(tokens: Tokens) -> str:
    """The foreign key that a specification drops; "" for none."""
    return name_in(tokens, 3) if starts(tokens, "DROP", "FOREIGN", "KEY") else ""


def name_in(tokens: Tokens, at: int) -> str:
    """The name at position `at`, behind an ``IF EXISTS``; "" for none."""
    name, _ = name_at(tokens, skip_if_exists(tokens, at), "table")
    return name.table if name else ""


def renamed_columns(members: Sequence[Member]) -> Iterator[tuple[str, str]]:
    """Old and new names, in lower case."""
    for member in members:
        tokens = member.tokens
        if starts(tokens, "RENAME", "COLUMN"):
            yield name_in(tokens, 2).lower(), name_in(tokens, 4).lower()
        elif starts(tokens, "CHANGE"):
            at = skip_if_exists(tokens, 1 + starts(tokens, "COLUMN", at=1))
            yield name_in(tokens, at).lower(), name_in(tokens, at + 1).lower()


def _made(
    name: str, kind: str, parts: tuple[Part, ...], source: Index | ColumnDefinition | None, given: bool
) -> MadeIndex:
    # The primary key takes a name as any other index does, and is called PRIMARY.
    return MadeIndex(KnownIndex(_PRIMARY if kind == _PRIMARY else name, kind, parts, not given), source, given)


def _stem(index: Index, any_part: bool) -> str:
    """What the name of an index is made from. TiDB looks at all parts in a CREATE TABLE, at the first one later."""
    looked_at = index.parts if any_part else index.parts[:1]
    if not looked_at or any(part.column is None for part in looked_at):
        return "expression_index" if any_part or index.kind != "VECTOR" else "vector_index"
    return index.parts[0].column or ""


def _column_keys(column: ColumnDefinition) -> Iterator[str]:
    """The keys that a column's definition makes."""
    if column.has("PRIMARY"):
        yield _PRIMARY
    if column.has("UNIQUE"):
        yield "UNIQUE"


def _without_dropped(before: TableIndexes, statement: Statement) -> TableIndexes:
    """`before` without what the statement drops, and under the names that it gives."""
    if statement.kind == "DROP INDEX":
        return _without_index(before, name_in(statement.tokens, 2))
    if not statement.is_alter:
        return before
    left = _renamed_parts(before, dict(renamed_columns(statement.members)))
    for member in statement.members:
        tokens = member.tokens
        if any(starts(tokens, "DROP", noun) for noun in INDEX_NOUNS):
            left = _without_index(left, name_in(tokens, 2))
        elif any(starts(tokens, "RENAME", noun) for noun in INDEX_NOUNS):
            left = _renamed(left, name_in(tokens, 2), name_in(tokens, skip_if_exists(tokens, 2) + 2))
        elif starts(tokens, "DROP", "PRIMARY", "KEY"):
            left = replace(left, indexes=tuple(index for index in left.indexes if index.kind != _PRIMARY))
        elif gone := dropped_foreign_key(tokens):
            kept = tuple(key for key in left.foreign_keys if key.name.lower() != gone.lower())
            left = replace(left, foreign_keys=kept)
        elif starts(tokens, "DROP", "COLUMN"):
            left = _without_column(left, name_in(tokens, 2).lower())
    return left


def _without_index(before: TableIndexes, name: str) -> TableIndexes:
    """Where the name is not known, one of the names that upstream chose is not what it is taken for."""
    if before.index(name) is None:
        return replace(before, indexes=tuple(_doubted(index) for index in before.indexes))
    return replace(before, indexes=tuple(index for index in before.indexes if index.name.lower() != name.lower()))


def _renamed(before: TableIndexes, old: str, new: str) -> TableIndexes:
    if before.index(old) is None:
        return _without_index(before, old)
    renamed = (
        replace(index, name=new, automatic=False) if index.name.lower() == old.lower() else index
        for index in before.indexes
    )
    return replace(before, indexes=tuple(renamed))


def _doubted(index: KnownIndex) -> KnownIndex:
    return replace(index, doubtful=index.doubtful or index.automatic)


def _without_column(before: TableIndexes, column: str) -> TableIndexes:
    """An index goes with its last column. Upstream drops no column of a longer one: what that left is not known."""
    left = []
    for index in before.indexes:
        parts = tuple(part for part in index.parts if part.column is None or part.column.lower() != column)
        if parts:
            left.append(replace(index, parts=parts, doubtful=index.doubtful or parts != index.parts))
    return replace(before, indexes=tuple(left))


def _renamed_parts(before: TableIndexes, names: Mapping[str, str]) -> TableIndexes:
    if not names:
        return before
    return replace(
        before,
        indexes=tuple(
            replace(index, parts=tuple(_renamed_part(part, names) for part in index.parts)) for index in before.indexes
        ),
    )


def _renamed_part(part: Part, names: Mapping[str, str]) -> Part:
    return part if part.column is None else replace(part, column=names.get(part.column.lower(), part.column))
