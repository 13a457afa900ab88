"""Which of upstream's columns a table of the target has, and what they are called there."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from functools import cache

from consumer.model.names import same_name


@dataclass(frozen=True, slots=True)
class Chosen:
    """`include` (() for all) and `exclude` are names of columns, with ``*`` as wildcard; `renames` are upstream's and
    the target's names. Case does not matter. `named` are whole names that rules for just this table give: one that the
    table does not have was mistyped, and a column would be there that nobody wants. They make no other rule."""

    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    renames: tuple[tuple[str, str], ...] = ()
    named: tuple[str, ...] = field(default=(), compare=False)

    def __str__(self) -> str:
        """The same for the same rules; the progress keeps it."""
        parts = (
            f"only {_listed(self.include)}" if self.include else "",
            f"without {_listed(self.exclude)}" if self.exclude else "",
            ", ".join(f"{json.dumps(old)} as {json.dumps(new)}" for old, new in self.renames),
        )
        return "; ".join(filter(None, parts))

    def keeps(self, column: str) -> bool:
        """Whether the target has upstream's `column`."""
        return (not self.include or _fits(self.include, column)) and not _fits(self.exclude, column)

    def name(self, column: str) -> str:
        """What upstream's `column` is called in the target."""
        return next((new for old, new in self.renames if same_name(old) == same_name(column)), column)

    def lacking(self, columns: Collection[str]) -> list[str]:
        """Of the whole names that must be there, those that none of `columns` has."""
        there = {same_name(column) for column in columns}
        return [name for name in self.named if same_name(name) not in there]


_NAMES = re.compile(
    r"""(?P<verb>\b(?:only|without)\ )(?P<names>T(?:,\ T)*)|T""".replace("T", r'"(?:[^"\\]|\\.)*"'), re.X
)


def canonical(text: str) -> str:
    """A form as a text (`Chosen`'s among it), the same for all that mean the same: the order of the names that it keeps
    or leaves out means nothing, nor does their case."""
    return _NAMES.sub(lambda found: found["verb"] + _sorted(found["names"]) if found["verb"] else found[0], text)


def _sorted(names: str) -> str:
    return ", ".join(sorted({json.dumps(same_name(name)) for name in json.loads(f"[{names}]")}))


def in_order(names: Iterable[str]) -> tuple[str, ...]:
    """`names` without those that mean the same as another one."""
    return tuple(sorted({same_name(name): name for name in names}.values(), key=same_name))


def _listed(names: tuple[str, ...]) -> str:
    return ", ".join(map(json.dumps, names))


def _fits(names: tuple[str, ...], column: str) -> bool:
    return any(wildcard(name).fullmatch(column) for name in names)


@cache
def wildcard(name: str) -> re.Pattern[str]:
    """The expression for a column's name with ``*``. Case does not matter."""
    return re.compile(".*".join(map(re.escape, name.split("*"))), re.IGNORECASE | re.DOTALL)
