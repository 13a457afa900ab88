"""Rules about tables as the file has them, each kind a model: what they can contain, and which of them fit a table.

A rule is a table of the file, or of JSON in the environment. `sentences.py` turns what is wrong with one into a
sentence: a validator only says what it expected.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache, cached_property
from typing import Annotated, Any, Literal, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainValidator,
    StrictBool,
    StrictInt,
    StrictStr,
    ValidationInfo,
    model_validator,
)

from consumer.config import values
from consumer.config.secrets import REFERENCES, read_secret
from consumer.config.sentences import OfKey, check_keys, wanted
from consumer.config.table_filter import TableFilter, table_filter, whole_name
from consumer.model.bad_rows import STOP, BadRowAction
from consumer.model.combinations import COMBINATIONS, Feature
from consumer.model.layout import TRANSFORMS, Layout, PartitionTransform
from consumer.model.names import NAME_LIMIT, TableName, same_names
from consumer.model.naming import Naming, Route, naming_of
from consumer.model.rules import NOW, Mask, MaskKind, NamedTable, Starts
from consumer.model.table_modes import Chosen, ModeKind, TableMode, in_order


def _checked(rules: tuple[str, ...]) -> tuple[str, ...]:
    TableFilter(rules)
    return rules


_Texts = Annotated[tuple[str, ...], Field(min_length=1)]
Texts = Annotated[_Texts, wanted("a list of texts, with one at least")]
SomeTexts = Annotated[_Texts, wanted("a list of texts, with one at least, or left out")]
TableRules = Annotated[Texts, AfterValidator(_checked)]
SomeTableRules = Annotated[SomeTexts, AfterValidator(_checked)]


class Rule(BaseModel):
    """What every rule has: keys in kebab-case, none of them unknown, and the tables that it is for."""

    model_config = ConfigDict(frozen=True, extra="forbid", alias_generator=lambda name: name.replace("_", "-"))

    tables: TableRules

    @model_validator(mode="before")
    @classmethod
    def _checks_keys(cls, given: object) -> object:
        """Passes None for a required key that is missing, so that its own validator says what it expected."""
        if not isinstance(given, Mapping):
            return given
        keys = {str(field.alias): field for field in cls.model_fields.values()}
        check_keys(given, tuple(keys))
        return {**{key: None for key, field in keys.items() if field.is_required()}, **given}

    def fits(self, table: TableName, case_sensitive: bool) -> bool:
        return table_filter(self.tables, case_sensitive).matches(table)

    def names_just(self, table: TableName, case_sensitive: bool) -> bool:
        """Returns whether one of its table rules is the name of `table`, without any wildcard."""
        return names_just(self.tables, table, case_sensitive)


_R = TypeVar("_R", bound=Rule)


def fitting(rules: Sequence[_R], table: TableName, case_sensitive: bool) -> list[_R]:
    """Returns the rules for `table`, in the order of the file."""
    return [rule for rule in rules if rule.fits(table, case_sensitive)]


def first(rules: Sequence[_R], table: TableName, case_sensitive: bool) -> _R | None:
    return next((rule for rule in rules if rule.fits(table, case_sensitive)), None)


def names_just(rules: Sequence[str], table: TableName, case_sensitive: bool) -> bool:
    """Returns whether one of the table rules is the name of `table`, without any wildcard."""
    exact_rules = (rule for rule in rules if whole_name(rule) is not None)
    return any(table_filter((rule,), case_sensitive).matches(table) for rule in exact_rules)


def named_tables(setting: str, rules: Sequence[str]) -> Iterator[NamedTable]:
    """Yields the tables that some of the rules of `setting` name without any wildcard."""
    for rule in rules:
        if (table := whole_name(rule)) is not None:
            yield NamedTable(setting, rule, table)


def from_json(value: object) -> object:
    """Returns a text of the environment as the value that the file would have; None if it is no JSON."""
    try:
        return json.loads(value) if isinstance(value, str) else value
    except ValueError:
        return None


def tables_of(name: str, table: str = "consumer") -> BeforeValidator:
    """Reads the tables ``[[consumer.NAME]]``, or JSON of them."""

    def read(value: object) -> object:
        value = from_json(value)
        if not isinstance(value, Sequence) or not all(isinstance(rule, Mapping | BaseModel) for rule in value):
            raise ValueError(f"give tables in the file, each written [[{table}.{name}]], or a list of them as JSON")
        return value

    return BeforeValidator(read)


def assigned(value: object, wanted: str) -> list[tuple[str | None, Any]]:
    """Returns ``RULE=VALUE`` entries: from a list, a text with these divided by ``;``, or a table of the file. The rule
    of an entry without ``=`` is None. Raises ValueError with what else to give, `wanted`."""
    if isinstance(value, Mapping):
        return [(str(rule), entry) for rule, entry in value.items()]
    entries = value.split(";") if isinstance(value, str) else value
    if not isinstance(entries, Sequence) or not all(isinstance(entry, str) for entry in entries):
        raise ValueError(f"give {wanted}")
    pairs = (entry.rpartition("=") for entry in entries if entry.strip())
    return [(rule.strip() if equals else None, text.strip()) for rule, equals, text in pairs]


def check_for_some(rule: str | None, hint: str) -> None:
    """Raises ValueError for a rule with a value of its own that leaves tables out."""
    if rule is not None and rule.startswith("!"):
        raise ValueError(f"{rule!r} leaves tables out; {hint}")


# Columns: [[consumer.columns]]


def _own_name(name: str) -> bool:
    return 0 < len(name) <= NAME_LIMIT and name == name.rstrip()


def _renames(names_by_old: dict[str, str]) -> dict[str, str]:
    for old, new in names_by_old.items():
        if not old or "*" in old or not _own_name(new):
            raise ValueError(
                f"'{old}' to '{new}': both are whole names, the new one of 1 to {NAME_LIMIT} characters"
                " with no blank at its end"
            )
    if any(len(same_names(names)) < len(names_by_old) for names in (names_by_old.keys(), names_by_old.values())):
        raise OfKey("has a name twice")
    return names_by_old


class ColumnRule(Rule):
    """Which columns tables of the target have, and their names. The first rule that fits decides."""

    include: SomeTexts = ()
    exclude: SomeTexts = ()
    rename: Annotated[
        dict[str, StrictStr], wanted('a table of names, as { mail = "email" }'), AfterValidator(_renames)
    ] = {}

    @model_validator(mode="after")
    def _says_something(self) -> ColumnRule:
        if not self.model_fields_set & {"include", "exclude", "rename"}:
            raise ValueError("give include, exclude or rename")
        return self

    def chosen(self, table: TableName, case_sensitive: bool) -> Chosen:
        """Returns the columns of `table`. Whole names in a rule for just this table must exist."""
        whole_names = [name for name in (*in_order(self.include), *in_order(self.exclude)) if "*" not in name]
        renames = tuple(sorted(self.rename.items()))
        all_names = dict.fromkeys((*whole_names, *(old for old, _ in renames)))
        just = self.names_just(table, case_sensitive)
        return Chosen(in_order(self.include), in_order(self.exclude), renames, tuple(all_names) if just else ())


# Masks: [[consumer.masks]]

_OWN_KEYS = {
    MaskKind.NULL: (),
    MaskKind.FIXED: ("value",),
    MaskKind.HASH: ("key",),
    MaskKind.TRUNCATE: ("length",),
    MaskKind.PARTIAL: ("length",),
}
_SHORTEST_KEY = 16


def _read_key(value: object, info: ValidationInfo) -> bytes:
    if not isinstance(value, str) or not re.match(REFERENCES, value):
        raise OfKey("must name a secret, as env:MASK_KEY or file:/run/secrets/mask")
    secret = read_secret(value, "key in [[consumer.masks]]", info.context or {})
    if len(secret) < _SHORTEST_KEY:
        raise OfKey(f"has less than {_SHORTEST_KEY} characters, so hashes could be guessed")
    return secret.encode()


class MaskRule(Rule):
    """What replaces the values of some columns. The first rule that fits a column decides. `key` is read from where the
    file says it is, in the environment that is the context of the validation."""

    columns: Texts
    mask: MaskKind
    value: Annotated[StrictStr, wanted("a text, also for a number: as the files have it")] = ""
    length: Annotated[StrictInt, Field(ge=0, lt=1 << 16), wanted("a number of characters")] = 0
    key: Annotated[bytes, PlainValidator(_read_key)] = Field(b"", repr=False)

    @model_validator(mode="after")
    def _has_what_it_needs(self) -> MaskRule:
        for key in ("value", "length", "key"):
            if (key in _OWN_KEYS[self.mask]) is not (key in self.model_fields_set):
                raise ValueError(f"the mask {self.mask} {'needs a' if key in _OWN_KEYS[self.mask] else 'has no'} {key}")
        return self

    @cached_property
    def made(self) -> Mask:
        return Mask(self.columns, self.mask, self.value, self.length, self.key)


# Table modes: [[consumer.table-modes]]

_MIRROR = "mirror"


class TableModeRule(Rule):
    """What tables of the target keep of upstream's changes. The first rule that fits decides."""

    mode: Literal["mirror", "append", "soft-delete", "history"]
    columns: Annotated[dict[str, Any], wanted('a table of names, as { _op = "change" }')] = {}

    @model_validator(mode="after")
    def _names_its_own_columns(self) -> TableModeRule:
        made = self.made
        if made is None and self.columns:
            raise ValueError("a mirror has no columns of its own to name")
        for name, new_name in self.columns.items():
            if made is not None and name not in made.usual:
                raise ValueError(f"{name} is no column that the mode {self.mode} adds; it adds {', '.join(made.usual)}")
            if not isinstance(new_name, str) or not _own_name(new_name):
                raise ValueError(
                    f"the name of {name} must be a text of 1 to {NAME_LIMIT} characters, no blank at its end"
                )
        names = [] if made is None else [column.name for column in made.added]
        if len(same_names(names)) < len(names):
            raise ValueError(f"two columns of the mode {self.mode} have one name: {', '.join(names)}")
        return self

    def __str__(self) -> str:
        return f"{', '.join(self.tables)} = {self.made or _MIRROR}"

    @property
    def made(self) -> TableMode | None:
        """The mode, None for a mirror."""
        if self.mode == _MIRROR:
            return None
        names = sorted((usual, str(new_name)) for usual, new_name in self.columns.items() if new_name != usual)
        return TableMode(ModeKind(self.mode), tuple(names))


def naming_by(
    routes: Sequence[Route], modes: Sequence[TableModeRule], columns: Sequence[ColumnRule], case_sensitive: bool
) -> Naming:
    """Returns the target's tables by the rules about their names, modes and columns."""
    routed = naming_of(routes)
    if not (modes or columns):
        return routed

    @cache
    def mode_of(table: TableName) -> TableMode | None:
        merged = routed.mode(table)
        rule = first(modes, table, case_sensitive)
        mode = None if rule is None else rule.made
        if (chosen := first(columns, table, case_sensitive)) is not None:
            mode = replace(mode or TableMode(ModeKind.CHOSEN), chosen=chosen.chosen(table, case_sensitive))
        if merged is not None and mode is not None:
            raise COMBINATIONS[Feature.MERGE, Feature.MODE].of({Feature.MODE: str(mode)}).refusal(str(table))
        return merged or mode

    return replace(routed, modes=mode_of)


def read_table_modes(value: object) -> object:
    """Reads ``RULE = MODE`` entries: a list, a text with these divided by ``;``, or the file's tables."""
    entries = value.split(";") if isinstance(value, str) else value
    if not isinstance(entries, Sequence):
        raise ValueError("give a list of table modes")
    return [_assigned_mode(entry) if isinstance(entry, str) else entry for entry in entries if not _is_blank(entry)]


def _is_blank(entry: object) -> bool:
    return isinstance(entry, str) and not entry.strip()


def _assigned_mode(entry: str) -> Mapping[str, object]:
    rule, equals, mode = entry.rpartition("=")
    if not equals:
        raise ValueError(f"{entry!r} is not a table mode; give RULE = MODE, as shop.* = append")
    return {"tables": [rule.strip()], "mode": mode.strip()}


# Tables of a lake: [[consumer.lake-tables]]

_KNOWN = {name: name for name in ("identity", *TRANSFORMS)} | {called: name for name, called in TRANSFORMS.items()}
"""Both spellings of a transform, and its name in Iceberg's specification."""
_PART = re.compile(
    r"(?:(?P<transform>[a-z]+)\(\s*(?:(?P<width>[1-9]\d{0,8})\s*,\s*)?)?(?P<column>`[^`]+`|[^`(),]+?)\s*\)?"
)


def _parts(texts: tuple[str, ...]) -> tuple[str, ...]:
    for text in texts:
        _part(text)
    return texts


def _part(text: str) -> PartitionTransform:
    match = _PART.fullmatch(text.strip())
    if match is None or (match["transform"] is not None) is not text.strip().endswith(")"):
        raise ValueError(f"{text!r} is neither a column nor a transform of one, as days(created_at)")
    transform, column = match["transform"] or "identity", match["column"].strip("`")
    if (transform in ("bucket", "truncate")) is not (match["width"] is not None):
        raise ValueError(f"{text!r}: only bucket and truncate have a number, and both need one, as bucket(16, id)")
    if transform not in _KNOWN:
        raise ValueError(f"{text!r}: {transform} is none of {', '.join(sorted(TRANSFORMS.values()))}")
    return PartitionTransform(column, _KNOWN[transform], int(match["width"] or 0))


class LakeTableRule(Rule):
    """How new tables of a lake lay out their rows. The first rule that fits decides."""

    partition_by: Annotated[SomeTexts, AfterValidator(_parts)] = ()
    cluster_by: SomeTexts = ()
    properties: Annotated[
        dict[str, StrictStr], wanted('a table of texts, as { "write.merge.mode" = "copy-on-write" }')
    ] = {}
    copy_on_write: StrictBool = False

    @model_validator(mode="after")
    def _says_something(self) -> LakeTableRule:
        if not self.model_fields_set & {"partition_by", "cluster_by", "properties", "copy_on_write"}:
            raise ValueError("give partition-by, cluster-by, properties or copy-on-write")
        return self

    @property
    def layout(self) -> Layout:
        parts = tuple(map(_part, self.partition_by))
        return Layout(parts, self.cluster_by, tuple(sorted(self.properties.items())), self.copy_on_write)


# Bad rows: [consumer.on-bad-row]


class BadRowRule(Rule):
    """Which tables stop at a bad row, and which continue without it. The last rule that fits decides."""

    action: Literal["stop", "quarantine"]


def read_bad_row_rules(value: object) -> object:
    """Reads an action for all tables, a list of ``RULE=ACTION``, a text with these divided by ``;``, or a table of the
    file."""
    if isinstance(value, tuple):
        return value
    entries = assigned(value, "stop, quarantine, or a table of rules and actions")
    for rule, _ in entries:
        check_for_some(rule, "give those a rule with the other action")
    return [{"tables": ["*.*" if rule is None else rule], "action": action} for rule, action in entries]


def bad_row_action(rules: Sequence[BadRowRule], table: TableName, case_sensitive: bool, most: int) -> BadRowAction:
    """Returns what `table` does, if at most `most` rows of one table may be quarantined."""
    last = first(rules[::-1], table, case_sensitive)
    return BadRowAction(most) if last is not None and last.action == "quarantine" else STOP


# The first run: --start-ts

_NOW = "now"


class StartRule(Rule):
    """The moment at which tables begin that are new to the consumer's name. The last rule that fits decides."""

    moment: str

    def __str__(self) -> str:
        return f"{self.tables[0]}={self.moment}"


class StartRules(BaseModel):
    """`whole` is the moment of the target's tables before the first run; `rules` are for single tables."""

    model_config = ConfigDict(frozen=True)

    whole: str | None = None
    rules: tuple[StartRule, ...] = ()

    def __str__(self) -> str:
        return ""

    def starts(self, tso_of: Callable[[str], int], case_sensitive: bool) -> Starts:
        """Returns the compiled form of `rules`; `tso_of` returns the TSO of a moment."""
        if not self.rules:
            return Starts()
        tso_by_rule = {rule: NOW if rule.moment == _NOW else tso_of(rule.moment) for rule in self.rules}

        @cache
        def deciding(table: TableName) -> StartRule | None:
            return first(self.rules[::-1], table, case_sensitive)

        def of(table: TableName) -> int | None:
            return None if (rule := deciding(table)) is None else tso_by_rule[rule]

        def just(table: TableName) -> str:
            rule = deciding(table)
            return str(rule) if rule is not None and rule.names_just(table, case_sensitive) else ""

        def has_effect(rule: StartRule, table: TableName) -> bool:
            """Of a pattern: or will have, as later tables can fit it."""
            if not rule.fits(table, case_sensitive):
                return False
            return deciding(table) is rule or not rule.names_just(table, case_sensitive)

        def unfit(names: Iterable[TableName]) -> Sequence[str]:
            tables = list(names)
            return [str(rule) for rule in self.rules if not any(has_effect(rule, name) for name in tables)]

        return Starts(of, unfit, just)


def read_start_rules(value: object) -> object:
    """Reads a moment, a list of moments and ``RULE=MOMENT``, a text with these divided by ``;``, or a table of the file
    with rules and moments."""
    if value is None or isinstance(value, StartRules):
        return value or StartRules()
    entries = assigned([str(value)] if isinstance(value, int) else value, "a moment, or a list of them")
    moments = list(dict.fromkeys(moment for rule, moment in entries if rule is None))
    if len(moments) > 1:
        raise ValueError(f"it gives two moments for all tables, {moments[0]} and {moments[1]}")
    for rule, _ in entries:
        check_for_some(rule, "give the others a rule with the moment")
    rules = [{"tables": [rule], "moment": _moment(moment)} for rule, moment in entries if rule is not None]
    return {"whole": values.moment(moments[0]) if moments else None, "rules": rules}


def _moment(text: object) -> str:
    return _NOW if text == _NOW else str(values.moment(text))
