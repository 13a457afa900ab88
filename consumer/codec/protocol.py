"""What a protocol says to all who do not know it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from consumer.model.files import Bounds, DataFile, SchemaFile
from consumer.model.load import Dialect, FileSlice, Layout, LoadTarget
from consumer.ports import RangeReader

if TYPE_CHECKING:
    from consumer.codec.rows import RowFile
    from consumer.ddl.declared import Definition

Declared = Callable[[SchemaFile], "Mapping[str, Definition]"]
"""What the statements in storage tell of a schema file's columns, by their names in lower case."""


@dataclass(frozen=True, slots=True)
class RowProtocol:
    """How a changefeed encodes rows. Only where a file is `opened`, Arrow is needed."""

    name: str
    """As TiCDC's `protocol` has it."""
    extension: str
    """Of its data files' names."""
    density: int
    """How many bytes of canal-JSON say about the same as one byte of its files: memory is measured in those."""
    writes_labels: bool
    """Whether values of ENUM and SET are written as their labels, not as numbers."""
    splittable: Callable[[Dialect], bool]
    """Whether a file can be read from its middle."""
    joinable: Callable[[Dialect], bool]
    """Whether files of the same columns can be read one after the other as one."""
    by_position: Callable[[Dialect], bool]
    """Whether nothing but a value's place tells its column."""
    layouts: Callable[[Sequence[SchemaFile], Declared, LoadTarget, Dialect], tuple[Layout, ...]]
    """The columns of the rows in the folders of each schema file; () where rows name them. Raises CannotBeExact."""
    bounds: Callable[[RangeReader, DataFile, Dialect], Bounds]
    """From small reads at the two ends of a file whose rows have a time. Raises CorruptFile, StorageUnavailable."""
    first_ts: Callable[[RangeReader, DataFile, Dialect], int]
    """The time of a file's first row. Raises CorruptFile, StorageUnavailable."""
    opened: Callable[[RangeReader, FileSlice, LoadTarget, Dialect, Layout], RowFile]
    """The file of a slice, to decode its rows. Raises CannotBeExact, CorruptFile, StorageUnavailable."""
