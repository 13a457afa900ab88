"""Rules about changes, rows and statements: [[consumer.event-filters]], [[consumer.rows]] and [consumer.ddl]."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StrictStr, model_validator

from consumer.config.rules import MaskRule, Rule, SomeTableRules, SomeTexts, TableRules, first, fitting
from consumer.config.sentences import check_keys, wanted
from consumer.config.table_filter import table_filter
from consumer.model.actions import Action
from consumer.model.columns import Column
from consumer.model.ddl_policy import GROUPS, KINDS, NEVER_IGNORED, RENAMED_KINDS, DdlPolicy, PolicyOf, kind_of
from consumer.model.names import TableName
from consumer.model.rules import DELETE, INSERT, UPDATE, EventFilter, Shaping, ShapingOf, unshaped
from consumer.model.texts import nearest

DML = (INSERT, UPDATE, DELETE)
_ALTERS = {
    "rename table": "rename-table",
    "modify table comment": "modify-table-comment",
    "modify table charset and collate": "modify-table-charset",
    "add table partition": "add-partition",
    "drop table partition": "drop-partition",
    "truncate table partition": "truncate-partition",
    "exchange table partition": "exchange-partition",
    "reorganize table partition": "reorganize-partition",
    "alter table partitioning": "alter-table-partitioning",
    "remove table partitioning": "remove-partitioning",
    "add column": "add-column",
    "drop column": "drop-column",
    "modify column": "modify-column",
    "set default value": "set-default-value",
    "rebase auto id": "rebase-auto-id",
    "add primary key": "add-primary-key",
    "drop primary key": "drop-primary-key",
    "create index": "add-index",
    "drop index": "drop-index",
    "rename index": "rename-index",
    "alter index visibility": "alter-index-visibility",
    "alter ttl info": "alter-ttl",
    "alter ttl remove": "remove-ttl",
    "multi schema change": "multi-schema-change",
}
KINDS_OF: Mapping[str, tuple[str, ...]] = {
    "all dml": DML,
    "all ddl": KINDS,
    **{kind: (kind,) for kind in DML},
    "create schema": ("create-database",),
    "create database": ("create-database",),
    "drop schema": ("drop-database",),
    "drop database": ("drop-database",),
    "modify schema charset and collate": ("modify-database-charset",),
    "create table": ("create-table",),
    "drop table": ("drop-table",),
    "truncate table": ("truncate-table",),
    "recover table": ("recover-table",),
    "create view": ("create-view",),
    "drop view": ("drop-view",),
    "add foreign key": ("add-foreign-key",),
    "drop foreign key": ("drop-foreign-key",),
    "alter table": tuple(_ALTERS.values()),
    **{name: (kind,) for name, kind in _ALTERS.items()},
}
"""By TiCDC's name of an event, or of several: changes of rows, and kinds of statements as [consumer.ddl] names them."""


# Conditions


def _condition(text: str) -> str:
    from consumer.changes.expressions import (
        is_condition,
        parse_expression,
    )  # the parser is loaded only where there are rules

    if not is_condition(parse_expression(text.strip())):
        raise ValueError(f"{text!r} is a value and not a condition; write {text.strip()} <> 0")
    return text.strip()


def _collation(name: str) -> str:
    from consumer.changes.operands import Collation

    if name:
        Collation.of(name.lower())
    return name.lower()


_Expression = Annotated[StrictStr, Field(pattern=r"\S"), wanted("an expression, as a text"), AfterValidator(_condition)]
_Collation = Annotated[StrictStr, wanted("a name, such as utf8mb4_bin"), AfterValidator(_collation)]


# Row filters: [[consumer.rows]]


class RowRule(Rule):
    """Which rows tables of the target have. The first rule that fits decides."""

    where: _Expression
    collation: _Collation = ""

    @model_validator(mode="before")
    @classmethod
    def _has_a_condition(cls, given: object) -> object:
        if isinstance(given, Mapping) and "where" not in given:
            raise ValueError("where is missing; give a condition such as region = 'eu'")
        return given


# Event filters: [[consumer.event-filters]]


def _events(names: tuple[str, ...]) -> tuple[str, ...]:
    for name in names:
        kinds = KINDS_OF.get(name.lower(), ())
        if not kinds:
            close = nearest(name.lower(), KINDS_OF)
            suggestion = f"did you mean '{close}'?" if close else f"known are {', '.join(KINDS_OF)}"
            raise ValueError(f"'{name}' is not an event of TiCDC; {suggestion}")
        if len(kinds) == 1 and kinds[0] in NEVER_IGNORED:
            raise ValueError(f"{name} cannot be ignored: {NEVER_IGNORED[kinds[0]]}")
    return names


# Column selectors: [[sink.column-selectors]], TiCDC's own


def _column_rule(rule: str) -> str:
    """Returns a rule about a column as one about a table of that name: the wildcards are the same, and the last one
    decides."""
    return f"!*.{rule[1:]}" if rule.startswith("!") else f"*.{rule}"


def _column_rules(rules: tuple[str, ...]) -> tuple[str, ...]:
    table_filter(tuple(map(_column_rule, rules)), case_sensitive=False)
    return rules


class ColumnSelector(BaseModel):
    """Which columns of some tables TiCDC writes. The first one that fits a table decides."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    matcher: SomeTableRules
    columns: Annotated[SomeTexts, AfterValidator(_column_rules)]

    def selects(self, column: str) -> bool:
        return table_filter(tuple(map(_column_rule, self.columns)), case_sensitive=False).matches(TableName("", column))


def selected_by(
    selectors: Sequence[ColumnSelector], case_sensitive: bool, table: TableName, columns: Sequence[Column]
) -> tuple[Column, ...]:
    """Returns those of the table's `columns` that its rows have."""
    fits = (selector_ for selector_ in selectors if table_filter(selector_.matcher, case_sensitive).matches(table))
    selector = next(fits, None)
    return tuple(column for column in columns if selector is None or selector.selects(column.name))


def _patterns(texts: tuple[str, ...]) -> tuple[str, ...]:
    for text in texts:
        try:
            re.compile(text)
        except re.error as problem:
            raise ValueError(f"'{text}' is not a regular expression ({problem})") from None
    return texts


class EventFilterRule(Rule):
    """Changes and statements to drop, with TiCDC's own keys. A database fits if some table of it does, as in TiCDC."""

    tables: TableRules = Field(alias="matcher")
    ignore_event: Annotated[SomeTexts, AfterValidator(_events)] = ()
    ignore_sql: Annotated[SomeTexts, AfterValidator(_patterns)] = ()
    ignore_insert_value_expr: _Expression = ""
    ignore_update_old_value_expr: _Expression = ""
    ignore_update_new_value_expr: _Expression = ""
    ignore_delete_value_expr: _Expression = ""
    collation: _Collation = ""

    @model_validator(mode="after")
    def _ignores_something(self) -> EventFilterRule:
        if not self.model_fields_set - {"tables", "collation"}:
            keys = [field.alias for name, field in EventFilterRule.model_fields.items() if name.startswith("ignore_")]
            raise ValueError(f"it ignores nothing; give one of {', '.join(map(str, keys))}")
        return self

    @cached_property
    def _kinds(self) -> frozenset[str]:
        return frozenset(kind for name in self.ignore_event for kind in KINDS_OF[name.lower()])

    @cached_property
    def _text(self) -> re.Pattern[str] | None:
        return re.compile("|".join(f"(?:{t})" for t in self.ignore_sql), re.IGNORECASE) if self.ignore_sql else None

    @cached_property
    def changes(self) -> EventFilter:
        """What it drops of the changes of rows."""
        return EventFilter(
            tuple(kind for kind in DML if kind in self._kinds),
            self.ignore_insert_value_expr,
            self.ignore_update_old_value_expr,
            self.ignore_update_new_value_expr,
            self.ignore_delete_value_expr,
            self.collation,
        )

    @property
    def drops_statements(self) -> bool:
        return bool(self.ignore_sql or self._kinds.difference(DML))

    def ignores(self, kind: str, query: str) -> bool:
        """Returns whether a statement of this kind and text is ignored."""
        return kind in self._kinds or (self._text is not None and self._text.search(query) is not None)


def shaping_of(
    events: Sequence[EventFilterRule], rows: Sequence[RowRule], masks: Sequence[MaskRule], case_sensitive: bool
) -> ShapingOf:
    """Returns the rules of each table about its changes."""
    if not (events or rows or masks):
        return unshaped

    def shaping(table: TableName) -> Shaping | None:
        filters = (rule.changes for rule in fitting(events, table, case_sensitive))
        changes = tuple(change for change in filters if change.kinds or change.expressions)
        row = first(rows, table, case_sensitive)
        masking = fitting(masks, table, case_sensitive)
        if not (changes or row or masking):
            return None
        where, collation = ("", "") if row is None else (row.where, row.collation)
        just = (rule for rule in masking if rule.names_just(table, case_sensitive))
        column_names = dict.fromkeys(column for rule in just for column in rule.columns if "*" not in column)
        return Shaping(changes, where, collation, tuple(rule.made for rule in masking), tuple(column_names))

    return shaping


def without_ignored(policy_of: PolicyOf, rules: Sequence[EventFilterRule], case_sensitive: bool) -> PolicyOf:
    """Returns `policy_of`, with the statements that a filter ignores. One that must not be ignored stops its tables."""
    if not any(rule.drops_statements for rule in rules):
        return policy_of

    def policy(action: Action, table: TableName, query: str = "") -> DdlPolicy:
        kind = kind_of(action)
        if any(rule.ignores(kind, query) for rule in fitting(rules, table, case_sensitive)):
            return DdlPolicy.FAIL if kind in NEVER_IGNORED else DdlPolicy.IGNORE
        return policy_of(action, table, query)

    return policy


# Statements: [consumer.ddl]


def _kinds(names: tuple[str, ...]) -> tuple[str, ...]:
    """Returns the kinds that names in the file stand for: each one, a group, or one in TiDB's own word for a
    database."""
    return tuple(kind for name in names for kind in _kinds_of(name))


def _kinds_of(name: str) -> tuple[str, ...]:
    kind = name.replace("schema", "database") if name.endswith("-schema") else name
    kinds = GROUPS.get(kind) or ((kind,) if kind in KINDS else ())
    if not kinds:
        close = nearest(name, [*KINDS, *GROUPS])
        suggestion = f"did you mean {close}?" if close else f"known are {', '.join([*KINDS, *GROUPS])}"
        raise ValueError(f"{name!r} is not a kind of statement; {suggestion}")
    return kinds


class DdlRule(Rule):
    """`action` for statements of `kinds` on `tables`; if either is missing, of all."""

    kinds: Annotated[SomeTexts, AfterValidator(_kinds)] = KINDS
    tables: SomeTableRules = ()
    action: DdlPolicy

    @model_validator(mode="after")
    def _action_exists(self) -> DdlRule:
        for kind in self.kinds:
            if self.action is DdlPolicy.IGNORE and kind in NEVER_IGNORED:
                raise ValueError(f"{kind} cannot be ignored: {NEVER_IGNORED[kind]}; give evolve or fail")
            if self.action is DdlPolicy.RENAME and kind not in RENAMED_KINDS:
                raise ValueError(f"{kind} has no action rename; it is for {', '.join(RENAMED_KINDS)}")
        return self


class DdlRules(BaseModel):
    """What to do with the upstream's statements. The last rule that fits decides."""

    model_config = ConfigDict(frozen=True)

    default: Literal["evolve", "fail"] = "evolve"
    rules: tuple[DdlRule, ...] = ()

    @model_validator(mode="before")
    @classmethod
    def _reads_a_default_alone(cls, given: Any) -> Any:
        if isinstance(given, str):
            given = {"default": given}
        if not isinstance(given, Mapping):
            raise ValueError("give a table with default and rules, or the default alone")
        check_keys(given, ("default", "rules"))
        rules = given.get("rules", [])
        if not isinstance(rules, Sequence) or not all(isinstance(rule, Mapping) for rule in rules):
            raise ValueError("rules are tables, each written [[consumer.ddl.rules]]")
        if (default := given.get("default", "evolve")) not in ("evolve", "fail"):
            why = "; the others are for some kinds only, so they need a rule" if default in tuple(DdlPolicy) else ""
            raise ValueError(f"default {default!r} is not allowed; give evolve or fail{why}")
        return given

    def __str__(self) -> str:
        return self.default

    def policy_of(self, case_sensitive: bool) -> PolicyOf:
        """Returns the rules as a function of a statement's kind and table."""
        filters = [(rule, table_filter(rule.tables, case_sensitive)) for rule in self.rules]

        def policy(action: Action, table: TableName, query: str = "") -> DdlPolicy:
            kind, action_found = kind_of(action), DdlPolicy(self.default)
            for rule, wanted_tables in filters:
                fits = wanted_tables.matches(table) if table.table else wanted_tables.takes_all(table.database)
                if fits and kind in rule.kinds:
                    action_found = rule.action
            return action_found

        return policy
