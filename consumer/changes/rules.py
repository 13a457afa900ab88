"""Compiles the rules of a table for the columns of a load, and applies them to decoded blocks."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import pyarrow as pa

from consumer.changes.conditions import Condition, compile_condition
from consumer.changes.keyed import without_late_deletes
from consumer.changes.masks import mask_fault, masked
from consumer.codec import protocol_of
from consumer.codec.change_table import PUT, Flags, Origin
from consumer.codec.rows import BlockRows
from consumer.errors import CannotBeExact
from consumer.model.columns import Column
from consumer.model.load import Dialect, LoadTarget
from consumer.model.names import same_name, same_names
from consumer.model.rules import DELETE, INSERT, UPDATE, EventFilter, Shaping
from consumer.model.table_definition import KeyColumns
from consumer.model.times import Clock

_PUT_AT = 1
_COLUMNS = (
    "let the rule name columns that the rows have and that can be compared so (docs/shaping.md), or leave the table out"
    " of it; a table that has rows already is filled again under another --name"
)


@dataclass(frozen=True)
class Drop:
    """An event filter. The changes of `kinds` are dropped, and so are those of which the condition for their kind is
    TRUE."""

    kinds: tuple[str, ...]
    insert: Condition | None
    update_old: Condition | None
    update_new: Condition | None
    delete: Condition | None


@dataclass(frozen=True)
class Rules:
    events: tuple[Drop, ...]
    where: Condition | None


@lru_cache(maxsize=64)
def rules_of(shaping: Shaping, columns: tuple[Column, ...], clock: Clock) -> Rules:
    """Returns the compiled rules. Raises ValueError that names the expression."""

    def condition(text: str, collation: str) -> Condition | None:
        return compile_condition(text, columns, collation, clock) if text else None

    def drop(event_filter: EventFilter) -> Drop:
        texts = (event_filter.insert, event_filter.update_old, event_filter.update_new, event_filter.delete)
        return Drop(event_filter.kinds, *(condition(text, event_filter.collation) for text in texts))

    return Rules(tuple(map(drop, shaping.events)), condition(shaping.where, shaping.collation))


def shaped(rows: BlockRows, inside: Flags, origin: Origin, target: LoadTarget, clock: Clock) -> pa.Table:
    """Returns `rows.changes` without the changes that an event filter drops, with the row filter and the masks applied.

    A put of a row that the replica is not to have becomes a delete of its key; late deletes are found before that.
    Masks come last. Raises the errors of `rows.changes`.
    """
    shaping = target.load.shaping
    assert shaping is not None
    rules = rules_of(shaping, target.columns, clock)
    for drop in rules.events:
        update, delete = rows.kinds()
        kinds = {INSERT: ~(update | delete), UPDATE: update, DELETE: delete & ~update}
        for kind, which in kinds.items():
            if kind in drop.kinds:
                inside = inside & ~which
        for kind, condition in ((INSERT, drop.insert), (UPDATE, drop.update_new), (DELETE, drop.delete)):
            if condition is not None:
                which = inside & kinds[kind]
                inside = _without(inside, which, condition.holds(rows.images(which, condition.columns)))
        if drop.update_old is not None:
            which = inside & update
            inside = _without(inside, which, drop.update_old.holds(rows.old_images(which)))
    changes = rows.changes(inside, origin)
    if not rules.events:  # else what stood between two changes may be left out
        changes = without_late_deletes(changes, target.key)
    if rules.where is not None and target.key and changes.num_rows:
        put: Flags = changes.column(PUT).to_numpy().copy()
        put[put] = rules.where.holds(changes.filter(pa.array(put)))
        changes = changes.set_column(_PUT_AT, changes.schema.field(PUT), pa.array(put))
    return masked(changes, shaping, target.columns) if shaping.masks else changes


def filter_net_rows(net: pa.Table, target: LoadTarget, clock: Clock) -> pa.Table:
    """Returns the net rows of a table with no key that pass the row filter. They were counted before, because only
    complete rows show what was sent again. Raises CannotBeExact."""
    if not net.num_rows:
        return net
    assert target.load.shaping is not None
    where = rules_of(target.load.shaping, target.columns, clock).where
    return net if where is None else net.filter(pa.array(where.holds(net)))


def _without(inside: Flags, which: Flags, dropped: Flags) -> Flags:
    """Returns `inside` without the rows of `which` that are dropped."""
    remaining = inside.copy()
    remaining[np.flatnonzero(which)[dropped]] = False
    return remaining


def check_rules(
    target: LoadTarget,
    dialect: Dialect,
    keys: KeyColumns | None,
    columns_of_all_versions: Callable[[], Collection[str]],
) -> None:
    """Raises CannotBeExact if the rules of a table cannot be followed for a load of it. `keys` is the definition of its
    unique keys, if that is known. `had` returns the columns, in lower case, of all its versions."""
    shaping = target.load.shaping
    if shaping is None:
        return
    try:
        rules_of(shaping, target.columns, dialect.clock)
    except ValueError as error:
        raise _refused(target, f"a rule for it cannot be followed: {error}", _COLUMNS) from None
    if shaping.events and not target.key:
        raise _refused(
            target,
            "an event filter is for it, and it has no key: which rows are left cannot be known by the changes alone",
            "give it a primary key, use a row filter ([[consumer.rows]]) instead, or leave it out of the matcher",
        )
    if shaping.where and target.load.absent:
        raise _refused(
            target,
            f"its rows lack columns ({', '.join(target.load.absent)}), and a row that comes to fit the row filter has"
            " no values there to continue with",
            "let TiCDC's column selectors keep the columns, or leave the table out of [[consumer.rows]]",
        )
    _check_protocol(target, shaping, dialect)
    if shaping.masks:
        _check_masks(target, shaping, keys)
        _check_named(target, shaping, columns_of_all_versions() if shaping.named else ())


def _check_named(target: LoadTarget, shaping: Shaping, former_columns: Collection[str]) -> None:
    lost = [column for column in shaping.named if same_name(column) not in former_columns]
    if lost:
        raise _refused(
            target,
            f"[[consumer.masks]] gives columns of it that it never had ({', '.join(lost)}): if a name is mistyped, the"
            " values of its column would be seen",
            "correct the name, or write it with a * where the column comes later",
        )


def _check_masks(target: LoadTarget, shaping: Shaping, keys: KeyColumns | None) -> None:
    if not target.key:
        why = "it has no key, and rows that a mask makes equal could not be distinguished"
    elif keys is None:
        why = "its CREATE TABLE is not in the storage, or has a unique key on an expression, so its keys are not known"
    else:
        key_columns = same_names(target.columns[position].name for position in target.key)
        why = mask_fault(shaping, target.columns, {*keys.columns, *key_columns}, keys.parts)
    if why:
        raise _refused(
            target,
            f"columns of it are masked, and that cannot be done: {why}",
            "give those columns another mask (docs/shaping.md), or leave the table out of the rule or of the replica"
            " (--tables)",
        )


def _check_protocol(target: LoadTarget, shaping: Shaping, dialect: Dialect) -> None:
    tells_old, tells_new = protocol_of(dialect).tells_updates(dialect)
    old, new = any(e.update_old for e in shaping.events), any(e.update_new for e in shaping.events)
    if (old and not tells_old) or (new and not tells_new):
        raise _refused(
            target,
            "an event filter asks for the values of UPDATEs, of which CSV has the old ones in a line of their own or"
            " not at all",
            'use canal-json, ignore-event = ["update"], or a row filter ([[consumer.rows]]) instead',
        )


def _refused(target: LoadTarget, message: str, hint: str) -> CannotBeExact:
    return CannotBeExact(message, hint=hint, table=str(target.table))
