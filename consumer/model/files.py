"""The content of the storage, as typed values. Paths are relative to the upstream URI."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeVar

from consumer.errors import ConsumerError
from consumer.model.actions import Action
from consumer.model.columns import Column
from consumer.model.names import TableName
from consumer.model.times import ms_to_tso, tso_to_ms

_Made = TypeVar("_Made")
_ACTIONS: Mapping[int, Action] = {int(action): action for action in Action}


@dataclass(frozen=True, slots=True)
class StoredFile:
    """One object of a listing. `stamp` identifies the content (etag, or modification time). `modified` is its
    modification time, in ns since 1970, 0 if the storage has none."""

    path: str
    size: int
    stamp: str
    modified: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class SchemaFile:
    """A parsed schema file. `root` is the folder above ``meta/`` (``db/table``, ``db``, or a table id).

    `table == ""` is a database-level file. `query == ""` says: these columns from `version` on, nothing to execute.
    """

    path: str
    root: str
    database: str
    table: str
    version: int
    checksum: int
    query: str
    type: int
    columns: tuple[Column, ...]
    _made: dict[Any, Any] = field(default_factory=dict, init=False, compare=False, repr=False)

    @property
    def name(self) -> TableName:
        return TableName(self.database, self.table)

    @property
    def action(self) -> Action:
        """NONE for a type that no TiCDC lets through."""
        return _ACTIONS.get(self.type, Action.NONE)

    def once(self, make: Callable[[SchemaFile], _Made]) -> _Made:
        """What `make` makes of the file: made when it is first asked for, and kept with the file, which is known for
        as long as it lies in the storage. So it must be small. An error is not kept."""
        if make not in self._made:
            self._made[make] = make(self)
        found: _Made = self._made[make]
        return found


class Folder(NamedTuple):
    """One directory of data files, with one counter of file numbers: ``root/version[/partition][/date]`` and the
    dispatcher in the name. A tuple, because rounds look up many of them."""

    root: str
    version: int
    partition: str = ""
    date: str = ""
    dispatcher: str = ""

    @property
    def series(self) -> tuple[str, str, str]:
        """The series that this folder's files belong to: over versions and dates, one per partition and dispatcher."""
        return (self.root, self.partition, self.dispatcher)


@dataclass(frozen=True, slots=True, order=True)
class DataFile:
    """One data file. Sorting by (folder, index) is file order within a series; `modified` as in StoredFile."""

    folder: Folder
    index: int
    path: str
    size: int
    stamp: str
    modified: int = field(default=0, compare=False)


class Named(NamedTuple):
    """The number of a data file that an index file names. `as_listed`: it is the index file that the listing has, so
    that the listing is not older."""

    number: int
    as_listed: bool


@dataclass(frozen=True, slots=True)
class Bounds:
    """First and last commit-ts of one file; `exact` is False where rows only say `es` (then both are ``es << 18``)."""

    first: int
    last: int
    exact: bool

    def ends_by(self, ts: int) -> bool:
        """Whether all of its rows are at or below `ts`."""
        return self.last <= ts if self.exact else self.last < ms_to_tso(tso_to_ms(ts))


def known_bounds(looked_at: Mapping[str, object]) -> dict[str, Bounds]:
    """By path, the bounds of the files that have some; of the others an error tells why not."""
    return {path: bounds for path, bounds in looked_at.items() if isinstance(bounds, Bounds)}


@dataclass(frozen=True, slots=True)
class Listing:
    """One look at the storage, taken after `checkpoint` was read.

    `files` is keyed by root. `unknown` are paths of no known form; `broken` are errors of schema files that cannot be
    used; `table` of each is the file's root. `settled`: the changefeed is past `checkpoint`, so every schema file of
    that version is in the storage. `partial`: data files that are already done are left out. `indexes` are the folders'
    index files; `packed` has the greatest number of a file that is there under a longer name, as a tool leaves it that
    packs files; `gone` are folders of the progress that were looked at and hold no file, `closed` are those that are
    over and were not looked at. `reached` is the changefeed's own checkpoint if it is above `checkpoint`.
    """

    checkpoint: int
    schemas: Sequence[SchemaFile]
    files: Mapping[str, Sequence[DataFile]]
    unknown: Sequence[str] = ()
    broken: Sequence[ConsumerError] = ()
    settled: bool = False
    partial: bool = False
    indexes: Mapping[Folder, StoredFile] = field(default_factory=dict)
    packed: Mapping[Folder, int] = field(default_factory=dict)
    gone: Collection[Folder] = ()
    closed: Collection[Folder] = ()
    reached: int = 0
