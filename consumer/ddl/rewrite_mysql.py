"""Rewrites upstream's statement text so that it means the same on a MySQL, MariaDB or TiDB target."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Literal

from consumer.ddl import charsets, mariadb_syntax, tidb_syntax
from consumer.ddl.definitions import Index, Member, ParsedStatement, listed_definitions, remove_members
from consumer.ddl.indexes import (
    define_indexes,
    dropped_foreign_key,
    dropped_index,
    index_changes,
    inline_references,
    name_foreign_keys,
    name_indexes,
)
from consumer.ddl.resolve import StatementNames, resolve_names
from consumer.ddl.session_times import plain_columns, shift_to_session_zone
from consumer.ddl.tidb_syntax import leave_out_checks
from consumer.ddl.tokens import Edits, Tokens, starts
from consumer.errors import Code, DdlRefused
from consumer.model.actions import Action
from consumer.model.columns import Column
from consumer.model.hints import NOT_KEPT
from consumer.model.names import quote
from consumer.model.table_definition import PARTIAL, UNTOLD, Charset, KnownIndex, TableIndexes
from consumer.model.times import tso_to_ms

FlavorName = Literal["mysql", "mariadb", "tidb"]

_NOW = frozenset({"CURRENT_TIMESTAMP", "NOW", "LOCALTIME", "LOCALTIMESTAMP", "CURRENT_DATE", "CURDATE"})


@dataclass(frozen=True, slots=True)
class Rewritten:
    """What to execute. Without `statements` it is nothing: the text is only about what the target does not have.

    `timestamp` is the value for ``SET timestamp`` (seconds since 1970) that gives old rows upstream's moment, None if
    none needs it. `notes` is what the target does not express though its rows stay right, one sentence each; those in
    `collations` are about character sets and collations.
    """

    statements: tuple[str, ...]
    notes: tuple[str, ...] = ()
    timestamp: float | None = None
    collations: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RewriteContext:
    """Where a statement is executed, and what is known of its table before it."""

    flavor: FlavorName
    names: StatementNames
    version: int
    """The version of its schema file."""
    collations: Collection[str] | None = None
    """The server's collations, in lower case. None: any."""
    before: TableIndexes = UNTOLD
    """The table's indexes as upstream has them."""
    there: TableIndexes | None = None
    """The table's indexes as the target has them. None: not queried."""
    charset: Charset | None = None
    """What upstream's database gives to a new table. None: not queried."""
    key_partitioned: bool = False
    """Whether the table is partitioned BY KEY."""
    columns_before: frozenset[str] | None = None
    """The table's columns, in lower case. None: not queried."""
    columns: Sequence[Column] = ()
    """The schema file's columns, with their defaults in UTC."""
    offset: timedelta = timedelta()
    """How far the session's zone is ahead of UTC."""


def rewrite_statement(statement: ParsedStatement, action: Action, place: RewriteContext) -> Rewritten:
    """Returns the statement for the server at `place`; what no rule names stays as it is, byte for byte.

    Raises DdlRefused if rows would not stay right or a name cannot be resolved.
    """
    _refuse(statement, place)
    edits, left_out = Edits(), _LeftOut(statement)
    shift_to_session_zone(statement, edits, place.columns, place.offset)
    resolve_names(statement, action, place.names, edits)
    _take_out(statement, edits, place, left_out)
    _spell_out(statement, edits, place, left_out)
    _leave_out_missing(statement, edits, place, left_out)
    if place.flavor == "mysql":
        left_out.members += mariadb_syntax.without_effect(statement, place.columns_before, place.before)
    if statement.tokens and statement.tokens[-1].text == ";":
        edits.remove(statement.tokens[-1].start, len(statement.text))
    zeros = mariadb_syntax.json_zeros(statement, edits) if place.flavor == "mariadb" else []
    target_name = place.names.own
    table = f"{quote(target_name.database)}.{quote(target_name.table)}"
    text = edits.apply(statement.text) if left_out.cut(edits) else ""
    following = (f"ALTER TABLE {table} ALTER COLUMN {quote(name)} DROP DEFAULT" for name in zeros)
    return Rewritten(
        (text, *following) if text.strip() else (),
        tuple(left_out.notes),
        tso_to_ms(place.version) / 1000 if _needs_moment(statement) else None,
        tuple(left_out.collations),
    )


@dataclass(slots=True)
class _LeftOut:
    """The parts of a statement that are left out for the target."""

    statement: ParsedStatement
    members: list[Member] = field(default_factory=list)
    whole: bool = False
    notes: list[str] = field(default_factory=list)
    collations: list[str] = field(default_factory=list)
    """Those of `notes` that are about character sets and collations."""

    def index(self, index: Index, note: str) -> None:
        at = index.tokens[0].start
        parts = (part for member in self.statement.members for part in (*listed_definitions(member.tokens), member))
        self.part(next((part for part in parts if part.start <= at < part.end), None), note)

    def part(self, member: Member | None, note: str) -> None:
        """Leaves out a specification, one of its definitions, or (None) all of the statement."""
        self.members += [member] if member else []
        self.whole |= member is None
        self.notes.append(note)

    def cut(self, edits: Edits) -> bool:
        """Removes the parts. Returns whether something is left to execute."""
        if self.whole:
            return False
        removed = list(self.members)
        for member in self.statement.members:
            inner = listed_definitions(member.tokens)
            removed_inner = [definition for definition in inner if definition in removed]
            if removed_inner and not remove_members(edits, inner, removed_inner):
                removed.append(member)
        removed = [member for member in self.statement.members if member in removed]
        return not removed or remove_members(edits, self.statement.members, removed)


def _refuse(statement: ParsedStatement, place: RewriteContext) -> None:
    tokens, table = statement.tokens, str(place.names.own)
    if any(token.text == ";" for token in tokens[:-1]):
        raise DdlRefused(
            "the schema file holds more than one statement",
            code=Code.STATEMENT_TEXT,
        )
    if starts(tokens, "RECOVER") or starts(tokens, "FLASHBACK"):
        # A TiDB would restore what it dropped last under the name: a table without all of its rows, or another one.
        raise DdlRefused(NOT_KEPT, table=table)
    moves = any(
        starts(member.tokens, verb, "PARTITION") and not starts(member.tokens, "ALL", at=2)
        for member in statement.members
        for verb in ("TRUNCATE", "EXCHANGE")
    )
    if moves and place.key_partitioned and place.flavor != "tidb":
        raise DdlRefused(
            "the table is partitioned BY KEY, and this server's partitions hold other rows than TiDB's",
            table=table,
        )


def _take_out(statement: ParsedStatement, edits: Edits, place: RewriteContext, left_out: _LeftOut) -> None:
    """Removes what no target has, TiDB's own syntax, and what else the server's kind does not take."""
    if statement.kind == "CREATE TABLE":
        _made_anew(statement, edits)
    left_out.notes += tidb_syntax.sequence_defaults(statement, edits)
    left_out.notes += tidb_syntax.definer(statement, edits)
    plain = {column.name: note for column, note in plain_columns(statement, edits)}
    left_out.notes += plain.values()
    for member, note in leave_out_checks(statement, edits):
        left_out.members += [member] if member else []
        left_out.notes.append(note)
    for index, note in tidb_syntax.partial_indexes(statement):
        left_out.index(index, note)
    if place.flavor != "tidb":
        _translate(statement, edits, place.flavor, left_out, plain)


def _made_anew(statement: ParsedStatement, edits: Edits) -> None:
    """Removes IF NOT EXISTS. Upstream has created the table, so one that the target has already is another, and IF NOT
    EXISTS would hide that."""
    head = next(at for at, token in enumerate(statement.tokens) if token.word == "TABLE")
    if starts(statement.tokens, "IF", "NOT", "EXISTS", at=head + 1):
        edits.remove(statement.tokens[head].end, statement.tokens[head + 3].end)


def _spell_out(statement: ParsedStatement, edits: Edits, place: RewriteContext, left_out: _LeftOut) -> None:
    """Writes upstream's names of indexes and keys, and its character sets, where the statement leaves them to the
    server."""
    changes, before = index_changes(statement), place.before
    supported, wide = place.collations, False
    if place.flavor != "tidb" or statement.is_alter:
        name_indexes(statement, changes, edits, before)
    if place.flavor != "tidb":
        define_indexes(statement, changes, edits, before)
        name_foreign_keys(statement, changes, edits, before, place.version)
        inline_references(statement, edits)
        wide = not charsets.too_wide(statement, place.charset)
        charsets.explicit_collations(statement, edits, wide)
        left_out.collations += charsets.wide_charsets(statement, edits) if wide else [charsets.STAYS]
        if supported is not None:
            left_out.collations += charsets.known_collations(statement, edits, supported)
        left_out.notes += left_out.collations
    if place.charset is not None:
        default = charsets.any_text(place.charset) if wide else place.charset
        charsets.explicit_default(statement, edits, default, supported)


def _translate(
    statement: ParsedStatement, edits: Edits, flavor: FlavorName, left_out: _LeftOut, plain: Collection[str]
) -> None:
    """Removes TiDB's own syntax, and what else the server's kind does not take."""
    tidb_syntax.remove_comments(statement, edits)
    tidb_syntax.remove_tidb_options(statement, edits)
    tidb_syntax.full_text_parsers(statement, edits)
    left_out.notes += tidb_syntax.vector_columns(statement, edits)
    left_out.notes += tidb_syntax.global_indexes(statement, edits)
    left_out.notes += tidb_syntax.engines(statement, edits)
    left_out.notes += tidb_syntax.plain_comments(statement, edits)
    left_out.members += tidb_syntax.empty_specifications(statement) + tidb_syntax.remove_hints(statement, edits)
    for index, note in tidb_syntax.unknown_indexes(statement):
        left_out.index(index, note)
    left_out.notes += tidb_syntax.leave_out_computed(statement, edits, tidb_syntax.has_wide_characters)
    if flavor == "mysql":
        mariadb_syntax.bracketed_defaults(statement, edits)
        mariadb_syntax.remove_if_exists(statement, edits)
        return
    for index, note in mariadb_syntax.expression_indexes(statement):
        left_out.index(index, note)
    left_out.notes += mariadb_syntax.generated_columns(statement, edits, plain)
    mariadb_syntax.index_visibility(statement, edits)
    mariadb_syntax.remove_unknown_options(statement, edits)


def _leave_out_missing(statement: ParsedStatement, edits: Edits, place: RewriteContext, left_out: _LeftOut) -> None:
    """What was left out when it was created cannot be dropped, renamed or hidden."""
    all_tokens: list[tuple[Member | None, Tokens]] = [(None, statement.tokens)]
    for member, tokens in all_tokens if statement.kind == "DROP INDEX" else _specifications(statement):
        if (index := dropped_index(tokens)) and _lacks_index(place, index):
            left_out.part(member, f"index {index} is not in the target, so there is nothing to change")
        key = place.before.foreign_key(dropped_foreign_key(tokens))
        if key is None:
            continue
        if key.skipped and (place.there is None or place.there.foreign_key(key.name_in_target) is None):
            left_out.part(member, f"foreign key {key.name} is not in the target, so there is nothing to drop")
        elif place.flavor != "tidb" and key.name_in_target != key.name:
            name = tokens[-1]
            edits.replace(name.start, name.end, quote(key.name_in_target))


def _lacks_index(place: RewriteContext, name: str) -> bool:
    index = place.before.index(name)
    left_out = index is not None and (index.skipped or is_never_created(index, place.flavor))
    return left_out and (place.there is None or place.there.index(name) is None)


def is_never_created(index: KnownIndex, flavor: FlavorName) -> bool:
    """Returns whether a statement that creates the index is executed without it."""
    if index.kind == PARTIAL or (flavor != "tidb" and tidb_syntax.is_tidb_only(index.kind)):
        return True
    return flavor == "mariadb" and mariadb_syntax.is_unsupported_index(index.kind, index.has_expression)


def _specifications(statement: ParsedStatement) -> list[tuple[Member | None, Tokens]]:
    return [(member, member.tokens) for member in statement.members] if statement.is_alter else []


def _needs_moment(statement: ParsedStatement) -> bool:
    return statement.is_alter and any(token.word in _NOW for token in statement.tokens)
