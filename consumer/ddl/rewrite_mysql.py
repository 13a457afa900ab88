"""Upstream's statement text, made to mean the same on a MySQL, MariaDB or TiDB target."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Literal

from consumer.ddl import charsets, mariadb_syntax, tidb_syntax
from consumer.ddl.checks import leave_out_checks
from consumer.ddl.definitions import Index, Member, Statement, remove_members
from consumer.ddl.index_names import define_indexes, inline_references, name_foreign_keys, name_indexes
from consumer.ddl.indexes import dropped_foreign_key, dropped_index
from consumer.ddl.recover import NOT_KEPT
from consumer.ddl.resolve import Names, parse, resolve_names
from consumer.ddl.session_times import plain_columns
from consumer.ddl.tokens import Edits, Tokens, quote, starts
from consumer.errors import DdlRefused
from consumer.model.actions import Action
from consumer.model.indexes import UNTOLD, Charset, KnownForeignKey, KnownIndex, TableIndexes
from consumer.model.names import TableName, tso_to_ms

FlavorName = Literal["mysql", "mariadb", "tidb"]

_NOW = frozenset({"CURRENT_TIMESTAMP", "NOW", "LOCALTIME", "LOCALTIMESTAMP", "CURRENT_DATE", "CURDATE"})
_BY_HAND = "execute what it means by hand, then record it with skip-ddl"


@dataclass(frozen=True, slots=True)
class Rewritten:
    """What to execute. `text` "": nothing, the statement only says what the target does not have.

    `use` is the database to USE before it, `timestamp` the value for ``SET timestamp`` (seconds since 1970) that gives
    old rows upstream's moment; None for neither. `notes`: what the target does not express though its rows stay right,
    a sentence each.
    """

    text: str
    use: str | None
    notes: tuple[str, ...] = ()
    timestamp: float | None = None


def rewrite(
    query: str,
    *,
    action: Action,
    database: str,
    known: Collection[TableName],
    flavor: FlavorName,
    version: int,
    own: TableName,
    old_name: TableName | None = None,
    planned: Collection[TableName] = (),
    supported_collations: Collection[str] | None = None,
    before: TableIndexes = UNTOLD,
    there: TableIndexes | None = None,
    charset: Charset | None = None,
    key_partitioned: bool = False,
) -> Rewritten:
    """`query` of the schema file of `own` with `version`, for a server of kind `flavor`; what no rule names stays as it
    is, byte for byte.

    `known` are the target's tables, `planned` those that existed upstream then and that it names, `old_name` a rename's
    source, `supported_collations` the server's (None: any), `before` the own table's indexes before the statement, as
    upstream has them, `there` as the target has them (None: not asked), `charset` what upstream's database gives to a
    new table (None: not asked), `key_partitioned` whether the table is partitioned BY KEY. Raises DdlRefused where rows
    would not stay right or a name cannot be resolved.
    """
    statement, edits = parse(query), Edits()
    _refuse(statement, flavor, key_partitioned, own)
    names = Names(known, own, database, old_name, planned)
    resolve_names(statement, action, names, edits)
    left_out = _LeftOut(statement)
    left_out.notes += tidb_syntax.sequence_defaults(statement, edits)
    plain = {column.name: note for column, note in plain_columns(statement, edits)}
    left_out.notes += plain.values()
    for member, note in leave_out_checks(statement, edits):
        left_out.members += [member] if member else []
        left_out.notes.append(note)
    supported = None if supported_collations is None else frozenset(name.lower() for name in supported_collations)
    if flavor != "tidb" or statement.is_alter:
        name_indexes(statement, edits, before)
    if flavor != "tidb":
        _translate(statement, edits, flavor, left_out, plain)
        define_indexes(statement, edits, before)
        name_foreign_keys(statement, edits, before, version)
        inline_references(statement, edits)
        charsets.explicit_collations(statement, edits)
        if supported is not None:
            left_out.notes += charsets.known_collations(statement, edits, supported)
    if charset is not None:
        charsets.explicit_default(statement, edits, charset, supported)
    _leave_out_missing(statement, edits, _Missing(flavor, before, there), left_out)
    if statement.tokens and statement.tokens[-1].text == ";":
        edits.remove(statement.tokens[-1].start, len(query))
    zeros = mariadb_syntax.json_zeros(statement, edits) if flavor == "mariadb" else []
    text = edits.apply(query) if left_out.cut(edits) else ""
    place = f"{quote(own.database)}.{quote(own.table)}"
    return Rewritten(
        "; ".join([text, *(f"ALTER TABLE {place} ALTER COLUMN {quote(name)} DROP DEFAULT" for name in zeros)]),
        None if action in (Action.CREATE_SCHEMA, Action.DROP_SCHEMA) else names.spelled(database),
        tuple(left_out.notes),
        tso_to_ms(version) / 1000 if _needs_moment(statement) else None,
    )


@dataclass(slots=True)
class _LeftOut:
    """The parts of a statement that the target does without."""

    statement: Statement
    members: list[Member] = field(default_factory=list)
    whole: bool = False
    notes: list[str] = field(default_factory=list)

    def index(self, index: Index, note: str) -> None:
        at = index.tokens[0].start
        self.part(next((member for member in self.statement.members if member.start <= at < member.end), None), note)

    def part(self, member: Member | None, note: str) -> None:
        """A specification, or (None) all of the statement."""
        self.members += [member] if member else []
        self.whole |= member is None
        self.notes.append(note)

    def cut(self, edits: Edits) -> bool:
        """Whether something is left to execute."""
        if self.whole:
            return False
        return not self.members or remove_members(edits, self.statement.members, self.members)


def _refuse(statement: Statement, flavor: FlavorName, key_partitioned: bool, own: TableName) -> None:
    tokens = statement.tokens
    recovers = starts(tokens, "RECOVER") or starts(tokens, "FLASHBACK")
    if recovers and (flavor != "tidb" or starts(tokens, "BY", "JOB", at=2)):
        raise DdlRefused(NOT_KEPT, table=str(own))
    moves = any(
        starts(member.tokens, verb, "PARTITION") and not starts(member.tokens, "ALL", at=2)
        for member in statement.members
        for verb in ("TRUNCATE", "EXCHANGE")
    )
    if moves and key_partitioned and flavor != "tidb":
        raise DdlRefused(
            "the table is partitioned BY KEY, and this server's partitions hold other rows than TiDB's",
            hint=_BY_HAND,
            table=str(own),
        )


def _translate(
    statement: Statement, edits: Edits, flavor: FlavorName, left_out: _LeftOut, plain: Collection[str]
) -> None:
    """Take TiDB's own syntax out, and what else the server's kind does not take."""
    tidb_syntax.remove_comments(statement, edits)
    tidb_syntax.remove_options(statement, edits)
    tidb_syntax.full_text_parsers(statement, edits)
    left_out.notes += tidb_syntax.vector_columns(statement, edits)
    left_out.notes += tidb_syntax.global_indexes(statement, edits)
    left_out.notes += tidb_syntax.engines(statement, edits)
    left_out.members += tidb_syntax.empty_specifications(statement) + tidb_syntax.remove_hints(statement, edits)
    for index, note in tidb_syntax.unknown_indexes(statement):
        left_out.index(index, note)
    if flavor == "mysql":
        mariadb_syntax.remove_if_exists(statement, edits)
        return
    for index, note in mariadb_syntax.expression_indexes(statement):
        left_out.index(index, note)
    left_out.notes += mariadb_syntax.generated_columns(statement, edits, plain)
    mariadb_syntax.index_visibility(statement, edits)
    mariadb_syntax.remove_options(statement, edits)


@dataclass(frozen=True, slots=True)
class _Missing:
    """What was left out when it was made: it is not there to be dropped, renamed or hidden."""

    flavor: FlavorName
    before: TableIndexes
    there: TableIndexes | None

    def index(self, name: str) -> bool:
        known = self.before.index(name)
        if known is None:
            return False
        return self._never_made(known) or (known.skipped and (self.there is None or self.there.index(name) is None))

    def _never_made(self, index: KnownIndex) -> bool:
        own_kind = self.flavor != "tidb" and index.kind in tidb_syntax.INDEX_KINDS
        return own_kind or (self.flavor == "mariadb" and mariadb_syntax.is_left_out(index.kind, index.has_expression))

    def foreign_key(self, key: KnownForeignKey) -> bool:
        return key.skipped and (self.there is None or self.there.foreign_key(key.there) is None)


def _leave_out_missing(statement: Statement, edits: Edits, missing: _Missing, left_out: _LeftOut) -> None:
    whole: list[tuple[Member | None, Tokens]] = [(None, statement.tokens)]
    for member, tokens in whole if statement.kind == "DROP INDEX" else _specifications(statement):
        if (index := dropped_index(tokens)) and missing.index(index):
            left_out.part(member, f"index {index} is not in the target, so there is nothing to change")
        known = missing.before.foreign_key(dropped_foreign_key(tokens))
        if known is None:
            continue
        if missing.foreign_key(known):
            left_out.part(member, f"foreign key {known.name} is not in the target, so there is nothing to drop")
        elif missing.flavor != "tidb" and known.there != known.name:
            name = tokens[-1]
            edits.replace(name.start, name.end, quote(known.there))


def _specifications(statement: Statement) -> list[tuple[Member | None, Tokens]]:
    return [(member, member.tokens) for member in statement.members] if statement.is_alter else []


def _needs_moment(statement: Statement) -> bool:
    return statement.is_alter and any(token.word in _NOW for token in statement.tokens)
