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

    `table == ""` is a database-level file. `query == ""` means that the table has these columns from `version` on, and
    that there is nothing to execute.
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
        """The action, NONE for a type that no TiCDC writes."""
        return _ACTIONS.get(self.type, Action.NONE)

    def once(self, make: Callable[[SchemaFile], _Made]) -> _Made:
        """Returns what `make` computes from the file. It is computed at the first call, and kept with the file, which
        is kept for as long as it is in the storage. So it must be small. An error is not kept."""
        if make not in self._made:
            self._made[make] = make(self)
        kept: _Made = self._made[make]
        return kept


class Folder(NamedTuple):
    """One directory of data files, with one counter of file numbers: ``root/version[/partition][/date]`` and the
    dispatcher in the name. It is a tuple, because rounds look up many of them."""

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


class IndexEntry(NamedTuple):
    """The number of a data file that an index file names. `as_listed` means that it is the same index file as in the
    listing, so that the listing is not older."""

    number: int
    as_listed: bool


@dataclass(frozen=True, slots=True)
class Bounds:
    """First and last commit-ts of one file. `exact` is False if rows only have `es` (then both are ``es << 18``)."""

    first: int
    last: int
    exact: bool

    def ends_by(self, ts: int) -> bool:
        """Returns whether all of its rows are at or below `ts`."""
        return self.last <= ts if self.exact else self.last < ms_to_tso(tso_to_ms(ts))


def known_bounds(results: Mapping[str, object]) -> dict[str, Bounds]:
    """Returns by path the bounds of the files that have some; the others have an error."""
    return {path: bounds for path, bounds in results.items() if isinstance(bounds, Bounds)}


@dataclass(frozen=True, slots=True)
class Listing:
    """One listing of the storage, taken after `checkpoint` was read.

    - `files` is keyed by root.
    - `unknown` are paths of no known form.
    - `broken` are errors of schema files that cannot be used; `table` of each is the file's root.
    - `settled` means that the changefeed has passed `checkpoint`, so every schema file of that version is in the
      storage.
    - `partial` means that data files which are already done are left out.
    - `indexes` are the folders' index files.
    - `packed` has by folder the greatest number of a file that exists under a longer name, as a packing tool leaves it.
    - `empty_folders` are folders of the progress that were listed and have no file, `closed` those that are over and
      were not listed.
    - `reached` is the changefeed's own checkpoint if it is above `checkpoint`.
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
    empty_folders: Collection[Folder] = ()
    closed: Collection[Folder] = ()
    reached: int = 0
