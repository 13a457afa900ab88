"""Which values older rows have in the current columns: upstream executed the statements, so its conversions count.

In a change a value is what it was then: it only has to be a value of the type of now, too. In the state of a table it
is what the statements have made of it.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import tzinfo

from consumer.model.columns import Column
from consumer.model.types.conversions import Conversion, Way
from consumer.source.options import Mode
from consumer.verify.known import Conversions, ValueRules, upstream_conversions, upstream_value_rules


def followed(mode: Mode, zone: tzinfo) -> ValueRules:
    """Returns the rules by which values are converted in this mode. `zone` is the changefeed's."""
    upstream = upstream_value_rules(zone, nearly=True)
    return replace(upstream, made=_held) if mode is Mode.CHANGES else upstream


def _held(old: Column, new: Column) -> Conversions:
    """Returns how a value of `old` is read as one of `new`: both are written alike, except for the number of a
    label."""
    new = replace(new, nullable=True)  # it could be NULL then
    means_the_same = Conversion(old, new).way in (Way.KEPT, Way.SAME)
    if old.labelled or new.labelled:
        return upstream_conversions(old, new) if means_the_same else None
    return () if means_the_same or old.family is new.family else None
