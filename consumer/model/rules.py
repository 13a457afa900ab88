"""Rules of the operator: which changes and values the replica has, where tables begin, and what readers see."""

from __future__ import annotations

import enum
import hmac
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from enum import StrEnum

from consumer.errors import ConsumerError, RowRefused, from_dict
from consumer.model.hints import ACCEPT_LOSS, AS_FILES_SHOW
from consumer.model.names import TableName, same_names
from consumer.model.table_modes import wildcard

INSERT, UPDATE, DELETE = "insert", "update", "delete"


@dataclass(frozen=True, slots=True)
class EventFilter:
    """Row changes that are dropped: those of the kinds `kinds`, and those of which the expression for their kind is
    TRUE ("" for none). `collation` is how texts are compared."""

    kinds: tuple[str, ...] = ()
    insert: str = ""
    update_old: str = ""
    update_new: str = ""
    delete: str = ""
    collation: str = ""

    @property
    def expressions(self) -> tuple[str, ...]:
        return tuple(filter(None, (self.insert, self.update_old, self.update_new, self.delete)))

    @property
    def leaves_rows(self) -> bool:
        """Whether rows stay as upstream has them no more."""
        return bool({"update", "delete"}.intersection(self.kinds) or self.update_old or self.update_new or self.delete)


class MaskKind(enum.StrEnum):
    NULL = "null"
    FIXED = "fixed"
    HASH = "hash"
    TRUNCATE = "truncate"
    PARTIAL = "partial"


@dataclass(frozen=True, slots=True)
class Mask:
    """What stands in place of the values of some columns, which are names with ``*`` as wildcard. `value` is that of
    FIXED, `length` how many characters TRUNCATE and PARTIAL leave, `key` that of HASH, which is never shown."""

    columns: tuple[str, ...]
    kind: MaskKind
    value: str = ""
    length: int = 0
    key: bytes = field(default=b"", repr=False)

    def fits(self, column: str) -> bool:
        """Whether it is for a column. Case does not matter."""
        return any(wildcard(name).fullmatch(column) for name in self.columns)


@dataclass(frozen=True, slots=True)
class Shaping:
    """The rules of one table: changes that are dropped, which rows the replica has ("" for all), with the collation
    by which texts are compared, and masks: the first that fits a column is its own. `named` are columns that a rule for
    just this table gives by their whole names: one that is not there was mistyped, and its values would be seen."""

    events: tuple[EventFilter, ...] = ()
    where: str = ""
    collation: str = ""
    masks: tuple[Mask, ...] = ()
    named: tuple[str, ...] = ()

    @property
    def leaves_rows(self) -> bool:
        return any(one.leaves_rows for one in self.events)

    def mask_of(self, column: str) -> Mask | None:
        return next((mask for mask in self.masks if mask.fits(column)), None)

    @property
    def texts(self) -> tuple[str, ...]:
        """What `plan` prints, a rule each."""
        found = [f"only rows with {self.where}"] if self.where else []
        for one in self.events:
            kinds = ("every " + kind.upper() for kind in one.kinds)
            with_values = (
                f"{kind} with {text}"
                for kind, text in (
                    ("INSERT", one.insert),
                    ("UPDATE of a row", one.update_old),
                    ("UPDATE to a row", one.update_new),
                    ("DELETE", one.delete),
                )
                if text
            )
            found += [f"drops {text}" for text in (*kinds, *with_values)]
        found += [f"masks {', '.join(mask.columns)} ({mask.kind})" for mask in self.masks]
        return tuple(found)

    @property
    def record(self) -> str:
        """It as a text, the same for the same rules: the order of the columns that a mask is for means nothing, nor
        does their case. It does not have a mask's key, but what changes with the key."""
        found = {name: value for name, value in asdict(self).items() if value and name != "named"}
        if self.masks:
            found["masks"] = [
                {**mask, "columns": sorted(same_names(mask["columns"])), "key": _mark(mask["key"])}
                for mask in found["masks"]
            ]
        return json.dumps(found)


def _mark(key: bytes) -> str:
    return hmac.digest(key, b"which key this is", "sha256")[:8].hex() if key else ""


_HIDDEN_HINT = (
    AS_FILES_SHOW + "; look at the line in the file, if one is named: restore a file that is damaged, or remove it and"
    " go on without its rows: " + ACCEPT_LOSS
)


def hidden(error: ConsumerError, shaping: Shaping | None) -> ConsumerError:
    """`error` of a table, met where its rows are at hand, without what may be a value that is masked."""
    if shaping is None or not shaping.masks or not error.holds_rows:
        return error
    said = error.as_dict()
    said["message"] = f"{type(error).__name__}: what is wrong is not shown, as columns of the table are masked"
    said["hint"] = _HIDDEN_HINT
    if isinstance(error, RowRefused):
        said["more"] = tuple((row, put, said["message"]) for row, put, _ in error.more)
    return from_dict({**said, "holds_rows": False})


def unshaped(table: TableName) -> Shaping | None:
    """The rules of every table where there are none."""
    return None


ShapingOf = Callable[[TableName], Shaping | None]
"""The rules of a table; None where there are none."""


@dataclass(frozen=True, slots=True)
class NamedTable:
    """`setting` is where the rule stands."""

    setting: str
    rule: str
    table: TableName


@dataclass(frozen=True, slots=True)
class NamedTables:
    """All of them. `case_sensitive` says how they are compared with the tables that there are."""

    named: tuple[NamedTable, ...] = ()
    case_sensitive: bool = False

    def missing(self, tables: Iterable[TableName]) -> Iterator[NamedTable]:
        """Those that are none of `tables`."""
        if self.named:
            there = set(map(self._compared, tables))
            yield from (named for named in self.named if self._compared(named.table) not in there)

    def _compared(self, table: TableName) -> TableName:
        return table if self.case_sensitive else table.folded


NONE_NAMED = NamedTables()


NOW = 0
"""Stands for the checkpoint of the run that begins with the table."""


@dataclass(frozen=True, slots=True)
class Starts:
    """What --start-ts says of single tables. `of` gives the commit-ts at which the target was given a table, or NOW;
    None: it begins as all others do. `unfit` are the rules that say nothing of any of some names. `just` gives the rule
    that decides for a table if it is for just this one, else ""."""

    of: Callable[[TableName], int | None] = lambda _: None
    unfit: Callable[[Iterable[TableName]], Sequence[str]] = lambda _: ()
    just: Callable[[TableName], str] = lambda _: ""


NO_STARTS = Starts()


class Consistency(StrEnum):
    """`row`: each row as soon as it is written. `table`: the rows of a load at once, so a table is never between two of
    its watermarks. `snapshot`: the rows of all tables up to one moment at once."""

    ROW = "row"
    TABLE = "table"
    SNAPSHOT = "snapshot"
