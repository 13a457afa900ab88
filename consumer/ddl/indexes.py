"""Keeps track of a table's indexes and foreign keys by upstream's own rules: which it creates itself, and their names.
Those names are written into a statement that leaves them to the server, because servers choose others."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Literal

from consumer.ddl.definitions import ColumnDefinition, ParsedStatement, name_in, renamed_columns
from consumer.ddl.references import skip_if_exists
from consumer.ddl.tidb_syntax import is_global
from consumer.ddl.tokens import Edits, Tokens, closing, starts, top_level
from consumer.model.names import quote, same_name, same_names
from consumer.model.table_definition import IndexPart, KnownForeignKey, KnownIndex, TableIndexes

INDEX_NOUNS = ("INDEX", "KEY")
_PRIMARY = "PRIMARY"

Source = Literal["index", "column", "foreign key"]


@dataclass(frozen=True, slots=True)
class DefinedIndex:
    """An index as a statement defines it; `at` is its position among those of its `source`."""

    kind: str
    name: str | None
    parts: tuple[IndexPart, ...]
    source: Source
    at: int


@dataclass(frozen=True, slots=True)
class Removal:
    """What a statement removes: an index, a foreign key, a column (with its indexes), or the primary key. `renamed_to`:
    an index continues under that name."""

    kind: Literal["index", "foreign key", "column", "primary"]
    name: str = ""
    renamed_to: str | None = None


@dataclass(frozen=True, slots=True)
class IndexChanges:
    """Everything in one statement about indexes and foreign keys. `creates`: it creates the table. `checks` are names
    that no index gets. `foreign_keys` have their names, if they have one, and columns. `renamed` columns are in lower
    case."""

    creates: bool = False
    defined: tuple[DefinedIndex, ...] = ()
    foreign_keys: tuple[tuple[str | None, tuple[str, ...]], ...] = ()
    checks: frozenset[str] = frozenset()
    renamed: tuple[tuple[str, str], ...] = ()
    losses: tuple[Removal, ...] = ()


@dataclass(frozen=True, slots=True)
class MadeIndex:
    """An index that a statement creates, under upstream's name for it. `source` and `at` are where it is defined; for a
    foreign key that no index covers, it is created without a definition. `given`: the statement names it."""

    known: KnownIndex
    source: Source
    at: int
    given: bool


@dataclass(frozen=True, slots=True)
class MadeForeignKey:
    """A foreign key that a statement creates, with upstream's name for it; `at` is its position in the statement."""

    name: str
    columns: tuple[str, ...]
    given: bool
    at: int


def index_changes(statement: ParsedStatement) -> IndexChanges:
    indexes = [DefinedIndex(i.kind, i.name, i.parts, "index", at) for at, i in enumerate(statement.indexes)]
    with_columns = [
        DefinedIndex(kind, None, (IndexPart(column.name),), "column", at)
        for at, column in enumerate(statement.columns)
        for kind in _column_keys(column)
    ]
    creates = statement.kind == "CREATE TABLE"
    return IndexChanges(
        creates,
        (*indexes, *with_columns),
        tuple((key.name, key.columns) for key in statement.foreign_keys),
        frozenset(_check_names(statement)) if creates else frozenset(),
        tuple(renamed_columns(statement.members)) if statement.is_alter else (),
        tuple(_losses(statement)),
    )


def indexes_after(
    before: TableIndexes, changes: IndexChanges, version: int, *, skipped: bool = False, restored: bool = False
) -> TableIndexes:
    """Returns the table's indexes once a statement of `version` has run upstream: a CREATE TABLE, or one that changes a
    table.

    `skipped`: it was not executed here. `restored`: the target was given with what it created, under upstream's names.
    """
    if changes.creates:
        before = TableIndexes(complete=True, foreign_ids=0)
    keys, made = made_foreign_keys(changes, before), made_indexes(changes, before)
    remaining = _renamed_parts(before, dict(changes.renamed))
    for loss in changes.losses:
        remaining = _without(remaining, loss)
    key_names = (target_key_name(key.name, version) if not (key.given or restored) else key.name for key in keys)
    return replace(
        remaining,
        indexes=(*remaining.indexes, *(replace(index.known, skipped=skipped) for index in made)),
        foreign_keys=(
            *remaining.foreign_keys,
            *(KnownForeignKey(key.name, key_name, skipped) for key, key_name in zip(keys, key_names, strict=True)),
        ),
        foreign_ids=None if remaining.foreign_ids is None else remaining.foreign_ids + len(keys),
        dropped_names=remaining.dropped_names - same_names(index.known.name for index in made),
    )


def target_key_name(name: str, version: int) -> str:
    """Returns the target's name of a foreign key that upstream has named, if tables share such names: `version` is that
    of the statement that creates it."""
    return f"{name}_{version}"


def copied_indexes(source: TableIndexes) -> TableIndexes:
    """Returns what CREATE TABLE .. LIKE makes of `source`: indexes without the foreign keys, whose numbers continue."""
    return replace(source, foreign_keys=())


def made_indexes(changes: IndexChanges, before: TableIndexes) -> list[MadeIndex]:
    """Returns the indexes that a CREATE TABLE, CREATE INDEX or ALTER TABLE creates, those of foreign keys last."""
    creates, defined = changes.creates, changes.defined
    # A new table's own definitions reserve their names first; a later statement considers the existing ones.
    given = same_names(index.name for index in defined if index.name)
    taken = {*(given | changes.checks if creates else same_names(i.name for i in before.indexes))}
    made = []
    numbers: dict[str, int] = {}
    for index in defined:
        name = index.name or automatic_name(_stem(index, any_part=creates), taken, numbers)
        # The primary key takes a name as any other index does, and is called PRIMARY.
        index_name = _PRIMARY if index.kind == _PRIMARY else name
        new_index = KnownIndex(index_name, index.kind, index.parts, automatic=not index.name)
        made.append(MadeIndex(new_index, index.source, index.at, bool(index.name)))
        taken.add(same_name(name))
    indexes = replace(before, indexes=(*before.indexes, *(index.known for index in made)))
    for key in made_foreign_keys(changes, before) if creates or before.complete else ():
        lowered = [same_name(column) for column in key.columns]
        if lowered and not indexes.covers(lowered):
            new_index = KnownIndex(key.name, "INDEX", tuple(map(IndexPart, key.columns)), automatic=True)
            made.append(MadeIndex(new_index, "foreign key", key.at, given=False))
            indexes = replace(indexes, indexes=(*indexes.indexes, new_index))
    return made


def made_foreign_keys(changes: IndexChanges, before: TableIndexes) -> list[MadeForeignKey]:
    """Returns the foreign keys that a CREATE TABLE or ALTER TABLE creates, without unnamed ones whose number is not
    known."""
    number, keys = 0 if changes.creates else before.foreign_ids, []
    for at, (name, columns) in enumerate(changes.foreign_keys):
        if number is not None:
            number += changes.creates or name is None  # a later statement counts only those that it has to name
        if name is not None or number is not None:
            keys.append(MadeForeignKey(name or f"fk_{number}", columns, name is not None, at))
    return keys


def automatic_name(stem: str, taken: Collection[str], numbers: dict[str, int]) -> str:
    """Returns TiDB's name for an index without a name: `stem`, with a number if that is `taken` (lower case). `numbers`
    has by stem the first number that can be free, as long as names are only added, and is updated."""
    key = same_name(stem)
    number = numbers.get(key, 2 if key == "primary" else 1)
    while same_name(name := f"{stem}_{number}" if number > 1 else stem) in taken:
        number += 1
    numbers[key] = number
    return name


def dropped_index(tokens: Tokens) -> str:
    """Returns the index that a specification (or a DROP INDEX statement) drops, renames or alters; "" for none."""
    if any(starts(tokens, verb, noun) for verb in ("DROP", "RENAME", "ALTER") for noun in INDEX_NOUNS):
        return name_in(tokens, 2)
    return ""


def dropped_foreign_key(tokens: Tokens) -> str:
    """Returns the foreign key that a specification drops; "" for none."""
    return name_in(tokens, 3) if starts(tokens, "DROP", "FOREIGN", "KEY") else ""


def _check_names(statement: ParsedStatement) -> frozenset[str]:
    """Returns the names of a CREATE TABLE's checks, in lower case: TiDB gives them to no index."""
    lists = [member.tokens for member in statement.members if any(token.word == "CHECK" for token in member.tokens)]
    name_tokens = (
        tokens[at + 1]
        for tokens in lists
        for at in top_level(tokens)
        if starts(tokens, "CONSTRAINT", at=at) and starts(tokens, "CHECK", "(", at=at + 2)
    )
    return same_names(token.name for token in name_tokens)


def _stem(index: DefinedIndex, any_part: bool) -> str:
    """Returns what the name of an index is made from. TiDB considers all parts in a CREATE TABLE, the first one
    later."""
    parts = index.parts if any_part else index.parts[:1]
    if not parts or any(part.column is None for part in parts):
        return "expression_index" if any_part or index.kind != "VECTOR" else "vector_index"
    return index.parts[0].column or ""


def _column_keys(column: ColumnDefinition) -> Iterator[str]:
    """Yields the keys that a column's definition creates."""
    if column.has("PRIMARY"):
        yield _PRIMARY
    if column.has("UNIQUE"):
        yield "UNIQUE"


def _losses(statement: ParsedStatement) -> Iterator[Removal]:
    """Yields what the statement drops, and the indexes that it renames, in its order."""
    if statement.kind == "DROP INDEX":
        yield Removal("index", name_in(statement.tokens, 2))
    for member in statement.members if statement.is_alter else ():
        tokens = member.tokens
        if any(starts(tokens, "DROP", noun) for noun in INDEX_NOUNS):
            yield Removal("index", name_in(tokens, 2))
        elif any(starts(tokens, "RENAME", noun) for noun in INDEX_NOUNS):
            yield Removal("index", name_in(tokens, 2), name_in(tokens, skip_if_exists(tokens, 2) + 2))
        elif starts(tokens, "DROP", "PRIMARY", "KEY"):
            yield Removal("primary")
        elif dropped := dropped_foreign_key(tokens):
            yield Removal("foreign key", dropped)
        elif starts(tokens, "DROP", "COLUMN"):
            yield Removal("column", same_name(name_in(tokens, 2)))


def _without(before: TableIndexes, loss: Removal) -> TableIndexes:
    """Returns `before` without what is dropped, or with the new name."""
    match loss.kind:
        case "index" if loss.renamed_to is not None:
            renamed = _with_gone(_renamed(before, loss.name, loss.renamed_to), loss.name)
            return replace(renamed, dropped_names=renamed.dropped_names - {same_name(loss.renamed_to)})
        case "index":
            return _with_gone(_without_index(before, loss.name), loss.name)
        case "primary":
            kept_indexes = tuple(index for index in before.indexes if index.kind != _PRIMARY)
            return _with_gone(replace(before, indexes=kept_indexes), _PRIMARY)
        case "foreign key":
            kept = tuple(key for key in before.foreign_keys if same_name(key.name) != same_name(loss.name))
            return replace(before, foreign_keys=kept)
    return _without_column(before, loss.name)


def _with_gone(indexes: TableIndexes, name: str) -> TableIndexes:
    return indexes if indexes.complete else replace(indexes, dropped_names=indexes.dropped_names | {same_name(name)})


def _without_index(before: TableIndexes, name: str) -> TableIndexes:
    """If the name is not known, one of the names that upstream chose is not what was assumed, so all of these become
    doubtful."""
    if before.index(name) is None:
        return replace(
            before,
            indexes=tuple(replace(index, doubtful=index.doubtful or index.automatic) for index in before.indexes),
        )
    return replace(before, indexes=tuple(index for index in before.indexes if same_name(index.name) != same_name(name)))


def _renamed(before: TableIndexes, old: str, new: str) -> TableIndexes:
    if before.index(old) is None:
        return _without_index(before, old)
    renamed = (
        replace(index, name=new, automatic=False) if same_name(index.name) == same_name(old) else index
        for index in before.indexes
    )
    return replace(before, indexes=tuple(renamed))


def _without_column(before: TableIndexes, column: str) -> TableIndexes:
    """An index is removed with its last column. Upstream drops no column of a longer one, so what remains of such an
    index is doubtful."""
    indexes = []
    for index in before.indexes:
        parts = tuple(part for part in index.parts if part.column is None or same_name(part.column) != column)
        if parts:
            indexes.append(replace(index, parts=parts, doubtful=index.doubtful or parts != index.parts))
    return replace(before, indexes=tuple(indexes))


def _renamed_parts(before: TableIndexes, names: Mapping[str, str]) -> TableIndexes:
    if not names:
        return before
    return replace(
        before,
        indexes=tuple(
            replace(index, parts=tuple(_renamed_part(part, names) for part in index.parts)) for index in before.indexes
        ),
    )


def _renamed_part(part: IndexPart, names: Mapping[str, str]) -> IndexPart:
    return part if part.column is None else replace(part, column=names.get(same_name(part.column), part.column))


_LONG_ACTIONS = (("SET", "NULL"), ("SET", "DEFAULT"), ("NO", "ACTION"))


def name_indexes(statement: ParsedStatement, changes: IndexChanges, edits: Edits, before: TableIndexes) -> None:
    """Names every index that is defined as one; those of an ALTER TABLE only if the table's other indexes are known."""
    if statement.is_alter and not before.complete:
        return
    for index in made_indexes(changes, before):
        if index.source == "index" and not index.given and index.known.kind != "PRIMARY":
            edits.insert(statement.indexes[index.at].name_at, f" {quote(index.known.name)}")


def define_indexes(statement: ParsedStatement, changes: IndexChanges, edits: Edits, before: TableIndexes) -> None:
    """Adds a separate definition, with its name, for what is defined with its column, or created for a foreign key:
    MySQL and MariaDB create those at another time, under another name, and drop the latter by themselves."""
    definitions = []
    for index in made_indexes(changes, before):
        if index.source == "column" and index.known.kind == "UNIQUE":
            definitions.append(_definition(index, _cut_unique(statement, statement.columns[index.at], edits)))
        elif index.source == "foreign key":
            definitions.append(_definition(index, "KEY"))
    if definitions and statement.members:
        add = ", ADD " if statement.is_alter else ", "
        edits.insert(statement.members[-1].end, "".join(add + text for text in definitions))


def name_foreign_keys(
    statement: ParsedStatement, changes: IndexChanges, edits: Edits, before: TableIndexes, version: int
) -> None:
    """Names every foreign key: unnamed ones by `target_key_name`, as on MySQL and MariaDB the tables of a database
    share their names."""
    for key in made_foreign_keys(changes, before):
        if not key.given:
            tokens, name = statement.foreign_keys[key.at].tokens, quote(target_key_name(key.name, version))
            if starts(tokens, "CONSTRAINT"):
                edits.insert(tokens[0].end, f" {name}")
            else:
                edits.insert(tokens[0].start, f"CONSTRAINT {name} ")


def inline_references(statement: ParsedStatement, edits: Edits) -> None:
    """Removes ``REFERENCES ..`` in a column's definition: TiDB takes it and creates no foreign key."""
    for column in statement.columns:
        at = column.find("REFERENCES")
        if at is not None and at > 0:
            edits.remove(column.tokens[at - 1].end, column.tokens[_end_of_reference(column.tokens, at)].end)


def _end_of_reference(tokens: Tokens, at: int) -> int:
    """Returns the last token of ``REFERENCES table (columns) [MATCH x] [ON DELETE x] [ON UPDATE x]``."""
    end = at + 3 if starts(tokens, ".", at=at + 2) else at + 1
    if starts(tokens, "(", at=end + 1):
        end = closing(tokens, end + 1)
    while True:
        if starts(tokens, "MATCH", at=end + 1):
            end += 2
        elif starts(tokens, "ON", "DELETE", at=end + 1) or starts(tokens, "ON", "UPDATE", at=end + 1):
            end += 3 + any(starts(tokens, *words, at=end + 3) for words in _LONG_ACTIONS)
        else:
            return end


def _definition(index: MadeIndex, kind: str) -> str:
    columns = ", ".join(quote(part.column or "") for part in index.known.parts)
    return f"{kind} {quote(index.known.name)} ({columns})"


def _cut_unique(statement: ParsedStatement, column: ColumnDefinition, edits: Edits) -> str:
    """Removes ``UNIQUE [KEY] [GLOBAL | LOCAL]`` from a column's definition. Returns the kind of key to define
    instead."""
    tokens = column.tokens
    at = next(at for at in top_level(tokens) if tokens[at].word == "UNIQUE")
    last = at + starts(tokens, "KEY", at=at + 1)
    scope = any(starts(tokens, word, at=last + 1) for word in ("GLOBAL", "LOCAL"))
    end = tokens[last + 1 + scope].start if last + 1 + scope < len(tokens) else None
    edits.remove(tokens[at - 1].end, tokens[last + scope].end)
    # As with the indexes that are defined as such: the servers take no unique key without the partitioning columns.
    return "KEY" if is_global(statement, tokens[at].start, end) else "UNIQUE KEY"
