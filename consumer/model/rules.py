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
    """Row changes that are dropped: those of the kinds `kinds`, and those for which the expression for their kind is
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
        """Whether rows can stay that upstream no longer has in this form."""
        return bool({"update", "delete"}.intersection(self.kinds) or self.update_old or self.update_new or self.delete)


class MaskKind(enum.StrEnum):
    NULL = "null"
    FIXED = "fixed"
    HASH = "hash"
    TRUNCATE = "truncate"
    PARTIAL = "partial"


@dataclass(frozen=True, slots=True)
class Mask:
    """A replacement for the values of some columns, which are names with ``*`` as wildcard. `value` is that of FIXED,
    `length` how many characters TRUNCATE and PARTIAL leave, `key` that of HASH, which is never shown."""

    columns: tuple[str, ...]
    kind: MaskKind
    value: str = ""
    length: int = 0
    key: bytes = field(default=b"", repr=False)

    def fits(self, column: str) -> bool:
        """Returns whether the mask is for a column. Case does not matter."""
        return any(wildcard(name).fullmatch(column) for name in self.columns)


@dataclass(frozen=True, slots=True)
class Shaping:
    """The rules of one table: changes that are dropped, which rows the replica has ("" for all), with the collation by
    which texts are compared, and masks: the first that matches a column applies to it. `named` are columns that a rule
    for just this table gives by their full names: if one of them does not exist it was mistyped, and its values would
    be visible."""

    events: tuple[EventFilter, ...] = ()
    where: str = ""
    collation: str = ""
    masks: tuple[Mask, ...] = ()
    named: tuple[str, ...] = ()

    @property
    def leaves_rows(self) -> bool:
        return any(event_filter.leaves_rows for event_filter in self.events)

    def mask_of(self, column: str) -> Mask | None:
        return next((mask for mask in self.masks if mask.fits(column)), None)

    @property
    def texts(self) -> tuple[str, ...]:
        """The texts that `plan` prints, one for each rule."""
        texts = [f"only rows with {self.where}"] if self.where else []
        for event_filter in self.events:
            kinds = ("every " + kind.upper() for kind in event_filter.kinds)
            with_values = (
                f"{kind} with {text}"
                for kind, text in (
                    ("INSERT", event_filter.insert),
                    ("UPDATE of a row", event_filter.update_old),
                    ("UPDATE to a row", event_filter.update_new),
                    ("DELETE", event_filter.delete),
                )
                if text
            )
            texts += [f"drops {text}" for text in (*kinds, *with_values)]
        texts += [f"masks {', '.join(mask.columns)} ({mask.kind})" for mask in self.masks]
        return tuple(texts)

    @property
    def record(self) -> str:
        """The rules as a text, the same for the same rules: the order and the case of the columns of a mask do not
        matter. It does not have a mask's key, but a mark that changes with the key."""
        record = {name: value for name, value in asdict(self).items() if value and name != "named"}
        if self.masks:
            record["masks"] = [
                {**mask, "columns": sorted(same_names(mask["columns"])), "key": _mark(mask["key"])}
                for mask in record["masks"]
            ]
        return json.dumps(record)


def _mark(key: bytes) -> str:
    return hmac.digest(key, b"which key this is", "sha256")[:8].hex() if key else ""


_HIDDEN_HINT = (
    AS_FILES_SHOW + "; look at the line in the file, if one is named: restore a file that is damaged, or remove it and"
    " continue without its rows: " + ACCEPT_LOSS
)


def hide_masked_values(error: ConsumerError, shaping: Shaping | None) -> ConsumerError:
    """Returns `error`, which a table met where its rows are read, without what may be a masked value."""
    if shaping is None or not shaping.masks or not error.holds_rows:
        return error
    fields = error.as_dict()
    fields["message"] = f"{type(error).__name__}: what is wrong is not shown, as columns of the table are masked"
    fields["hint"] = _HIDDEN_HINT
    if isinstance(error, RowRefused):
        fields["more"] = tuple((row, put, fields["message"]) for row, put, _ in error.more)
    return from_dict({**fields, "holds_rows": False})


def unshaped(table: TableName) -> Shaping | None:
    """Returns None for every table: there are no rules."""
    return None


ShapingOf = Callable[[TableName], Shaping | None]
"""Returns the rules of a table; None if it has none."""


@dataclass(frozen=True, slots=True)
class NamedTable:
    """A table that a rule names. `setting` is where the rule is written."""

    setting: str
    rule: str
    table: TableName


@dataclass(frozen=True, slots=True)
class NamedTables:
    """All tables that rules name. `case_sensitive` is how they are compared with the tables that exist."""

    named: tuple[NamedTable, ...] = ()
    case_sensitive: bool = False

    def missing(self, tables: Iterable[TableName]) -> Iterator[NamedTable]:
        """Yields those that are none of `tables`."""
        if self.named:
            existing = set(map(self._compared, tables))
            yield from (named for named in self.named if self._compared(named.table) not in existing)

    def _compared(self, table: TableName) -> TableName:
        return table if self.case_sensitive else table.folded


NONE_NAMED = NamedTables()


NOW = 0
"""Stands for the checkpoint of the run that begins with the table."""


@dataclass(frozen=True, slots=True)
class Starts:
    """The values of --start-ts for single tables. `of(table)` returns the commit-ts up to which the target already
    holds the table, or NOW; None: it begins like all others. `unfit(names)` returns the rules that match none of the
    names. `just(table)` returns the rule that decides for a table if it names just this one, else ""."""

    of: Callable[[TableName], int | None] = lambda _: None
    unfit: Callable[[Iterable[TableName]], Sequence[str]] = lambda _: ()
    just: Callable[[TableName], str] = lambda _: ""


NO_STARTS = Starts()


class Consistency(StrEnum):
    """What readers see together. `row`: each row as soon as it is written. `table`: the rows of a load at once, so a
    table is never between two of its watermarks. `snapshot`: the rows of all tables up to one moment at once."""

    ROW = "row"
    TABLE = "table"
    SNAPSHOT = "snapshot"
