"""[[consumer.masks]]: what stands in the replica in place of columns' values."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from consumer.config.rule_values import (
    Rules,
    TableRule,
    check_keys,
    from_json,
    names_just,
    names_of,
    rules_of,
    tables_of,
)
from consumer.config.secrets import read_secret
from consumer.config.uri import REFERENCES
from consumer.model.names import TableName
from consumer.model.rules import Mask, MaskKind, Shaping

_KEYS = ("tables", "columns", "mask", "value", "length", "key")
_NEEDED = {
    MaskKind.NULL: (),
    MaskKind.FIXED: ("value",),
    MaskKind.HASH: ("key",),
    MaskKind.TRUNCATE: ("length",),
    MaskKind.PARTIAL: ("length",),
}
_SHORTEST_KEY = 16


@dataclass(frozen=True)
class MaskRule(TableRule):
    mask: Mask


@dataclass(frozen=True)
class MaskRules(Rules[MaskRule]):
    """The first that fits a column decides."""

    def masks_of(self, table: TableName, case_sensitive: bool) -> tuple[Mask, ...]:
        """Those for columns of `table`."""
        return tuple(rule.mask for rule in self.fitting(table, case_sensitive))

    def named_for(self, table: TableName, case_sensitive: bool) -> tuple[str, ...]:
        """The columns that rules for just `table`, not for a pattern of tables, give by their whole names."""
        own = (r for r in self.rules if names_just(r.tables, table, case_sensitive))
        return tuple(dict.fromkeys(column for rule in own for column in rule.mask.columns if "*" not in column))

    @property
    def secrets(self) -> list[str]:
        return [rule.mask.key.decode() for rule in self.rules if rule.mask.key]


def with_masks(shaping: Shaping | None, rules: MaskRules, table: TableName, case_sensitive: bool) -> Shaping | None:
    """The rules of a table, and its masks."""
    masks = rules.masks_of(table, case_sensitive)
    if not masks:
        return shaping
    return replace(shaping or Shaping(), masks=masks, named=rules.named_for(table, case_sensitive))


def with_keys(value: object, env: Mapping[str, str]) -> object:
    """The file's tables with the keys that they name. Raises BadConfig."""
    value = from_json(value)
    if not isinstance(value, list):
        return value
    return [_with_key(rule, env) if isinstance(rule, Mapping) else rule for rule in value]


def mask_rules(value: object) -> MaskRules:
    """The file's tables. Raises ValueError."""
    if isinstance(value, MaskRules):
        return value
    return MaskRules(tuple(_rule(rule, place) for rule, place in rules_of(value, "masks")))


@dataclass(frozen=True)
class _Key:
    """One that was named, and read."""

    text: str

    def __repr__(self) -> str:
        return "a key"


def _with_key(rule: Mapping[str, Any], env: Mapping[str, str]) -> Mapping[str, Any]:
    key = rule.get("key")
    if not isinstance(key, str) or not re.match(REFERENCES, key):
        return rule
    return {**rule, "key": _Key(read_secret(key, "key in [[consumer.masks]]", env))}


def _rule(rule: Mapping[str, object], place: str) -> MaskRule:
    check_keys(rule, _KEYS, place)
    kind = rule.get("mask")
    if kind not in tuple(MaskKind):
        raise ValueError(f"{place}mask {kind!r} is not allowed; give {', '.join(MaskKind)}")
    needed = _NEEDED[MaskKind(str(kind))]
    for key in ("value", "length", "key"):
        if (key in needed) is not (key in rule):
            raise ValueError(f"{place}the mask {kind} {'needs a' if key in needed else 'has no'} {key}")
    mask = Mask(
        tuple(names_of(rule, "columns", place)),
        MaskKind(str(kind)),
        _value(rule, place),
        _length(rule, place),
        _key(rule, place),
    )
    return MaskRule(tables_of(rule, "tables", place), mask)


def _value(rule: Mapping[str, object], place: str) -> str:
    found = rule.get("value", "")
    if not isinstance(found, str):
        raise ValueError(f"{place}value must be a text, also for a number: as the files have it")
    return found


def _length(rule: Mapping[str, object], place: str) -> int:
    found = rule.get("length", 0)
    if not isinstance(found, int) or isinstance(found, bool) or not 0 <= found < 1 << 16:
        raise ValueError(f"{place}length must be a number of characters")
    return found


def _key(rule: Mapping[str, object], place: str) -> bytes:
    found = rule.get("key")
    if found is None:
        return b""
    if not isinstance(found, _Key):
        raise ValueError(f"{place}key must name a secret, as env:MASK_KEY or file:/run/secrets/mask")
    if len(found.text) < _SHORTEST_KEY:
        raise ValueError(f"{place}key has less than {_SHORTEST_KEY} characters, so hashes could be guessed")
    return found.text.encode()
