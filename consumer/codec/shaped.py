"""The changes of a block as the rules of its table leave them."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from consumer.codec.change_table import PUT, Flags, Origin
from consumer.codec.rows import BlockRows
from consumer.fold.late_deletes import without_late_deletes
from consumer.model.load import LoadTarget
from consumer.model.rules import DELETE, INSERT, UPDATE
from consumer.model.times import Clock

_PUT_AT = 1


def shaped(rows: BlockRows, inside: Flags, origin: Origin, target: LoadTarget, clock: Clock) -> pa.Table:
    """`rows.changes` without the changes that an event filter drops. A put of a row that the replica is not to have is
    a delete of its key: late deletes are known before. Masks come last. Raises as `rows.changes`."""
    if target.load.shaping is None:
        return rows.changes(inside, origin)
    from consumer.shaping.masks import masked  # what is needed for rules is loaded only where there are some
    from consumer.shaping.rules import rules_of

    rules = rules_of(target.load.shaping, target.columns, clock)
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
    return masked(changes, target) if target.load.shaping.masks else changes


def fitting(net: pa.Table, target: LoadTarget, clock: Clock) -> pa.Table:
    """Of the net rows of a table with no key those that the replica has. They are counted before, because what was sent
    again shows by all rows. Raises CannotBeExact."""
    if target.load.shaping is None or not net.num_rows:
        return net
    from consumer.shaping.rules import rules_of

    where = rules_of(target.load.shaping, target.columns, clock).where
    return net if where is None else net.filter(pa.array(where.holds(net)))


def _without(inside: Flags, which: Flags, dropped: Flags) -> Flags:
    """`inside` without those of the rows `which` that are dropped."""
    left = inside.copy()
    left[np.flatnonzero(which)[dropped]] = False
    return left
