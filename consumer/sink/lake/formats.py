"""The interface of a format: what Delta and Iceberg do differently. Everything else is shared."""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, Protocol

from consumer.errors import BadConfig, ConsumerError, ProgressMoved, SchemaDrift, TargetBusy
from consumer.model.layout import TRANSFORMS, Layout, PartitionTransform
from consumer.model.names import TableName, same_name
from consumer.sink.lake.types import spark_literal, spark_name
from consumer.sink.progress_layout import damaged
from consumer.target import ArrowTable, SparkSource

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


OURS = "storage_consumer.table"
"""A property of each table of a lake. A table without a name is only removed if it has this property."""
_LONGEST = 200
"""The maximum bytes of a name in a location: file systems allow 255, and a number may follow."""


_COMPRESSED = b"\x1f\x8b"
_SAID = ("generation", "consumer", "epoch", "load", "statement")
_MOMENTS = ("from_ts", "commit_ts")
"""The fields that commits of earlier builds lack."""


class Unfit(Exception):
    """The reason why a table cannot be laid out by a column."""


@dataclass(frozen=True, slots=True)
class Commit:
    """What a commit of this program records about itself, as text in the table's own log. A table's newest commit is
    authoritative for it.

    `generation` numbers the commits of a table: each proves that the one before it is the newest. `applied` has, by
    upstream's tables, the commit-ts up to which the table has their rows. `load` and `statement` say where the commit
    comes from.

    With this commit the table equals upstream's at `commit_ts`. Before it, the table was equal from the previous
    commit's `commit_ts` up to `from_ts`. 0 for unknown. `table` is upstream's table, and `upstream` the upstream that
    it belongs to.
    """

    generation: int = 0
    consumer: str = ""
    epoch: int = 0
    applied: Mapping[TableName, int] = field(default_factory=dict)
    load: str = ""
    statement: str = ""
    from_ts: int = 0
    commit_ts: int = 0
    table: str = field(default="", compare=False)
    upstream: str = field(default="", compare=False)

    def following(self, **said: object) -> Commit:
        """Returns the next commit."""
        fresh = {"load": "", "statement": "", "from_ts": 0, "commit_ts": 0}
        return replace(self, generation=self.generation + 1, **{**fresh, **said})  # type: ignore[arg-type]

    @property
    def flat(self) -> dict[str, str]:
        """Returns what others may read of it, one key for each value."""
        said = {"commit-ts": self.commit_ts, "from-ts": self.from_ts, "table": self.table, "upstream": self.upstream}
        return {f"ticdc.{name}": str(value) for name, value in said.items() if value}

    def text(self) -> str:
        applied = [[*table, ts] for table, ts in self.applied.items()]
        named = {name: getattr(self, name) for name in (*_SAID, *_MOMENTS)}
        return json.dumps({"storage_consumer": {**named, "applied": applied}}, ensure_ascii=False)

    @classmethod
    def of(cls, text: str | None) -> Commit | None:
        """Parses a commit's text. Returns None for a commit that is not this program's."""
        try:
            said = json.loads(text or "null")["storage_consumer"]
            applied = {TableName(*entry[:2]): int(entry[2]) for entry in said["applied"]}
            from_ts, commit_ts = (int(said.get(name, 0)) for name in _MOMENTS)
            return cls(**{name: said[name] for name in _SAID}, applied=applied, from_ts=from_ts, commit_ts=commit_ts)
        except (TypeError, ValueError, KeyError):
            return None


@dataclass(frozen=True, slots=True)
class Alteration:
    """Columns that change without a change of rows. `added` are name, type and preceding column, "" for none.
    `loosened` accept NULL from now on. `key` are the columns of the new key, if tables of the format have one."""

    dropped: Sequence[str] = ()
    added: Sequence[tuple[str, str, str]] = ()
    renamed: Sequence[tuple[str, str]] = ()
    loosened: Sequence[str] = ()
    key: Sequence[str] = ()

    def clauses(self) -> list[str]:
        """Returns what follows ALTER TABLE: one clause for each kind of change."""
        added = (
            f"{spark_name(name)} {kind} {f'AFTER {spark_name(before)}' if before else 'FIRST'}"
            for name, kind, before in self.added
        )
        clauses = [f"DROP COLUMNS ({', '.join(map(spark_name, self.dropped))})"] if self.dropped else []
        clauses += [f"ADD COLUMNS ({', '.join(added)})"] if self.added else []
        clauses += [f"RENAME COLUMN {spark_name(old)} TO {spark_name(new)}" for old, new in self.renamed]
        return clauses + [f"ALTER COLUMN {spark_name(name)} DROP NOT NULL" for name in self.loosened]


@dataclass(frozen=True, slots=True)
class Rewrite:
    """The new rows and columns of a table."""

    rows: DataFrame
    kept: Mapping[str, str]
    """Maps the old names of columns that stay to their new names. The table keeps its layout by these."""
    required: Collection[str] = ()
    """The columns that do not accept NULL."""
    key: Sequence[str] = ()
    """As `Alteration.key`."""
    had: Sequence[str] = ()
    """The columns that the table had when `rows` were made from it; () if they were not made from it."""


class Change(Protocol):
    """What one commit does to a table: one of these calls, once."""

    def run(self, statement: str) -> None:
        """Runs a MERGE, an UPDATE or an INSERT into the table that `TableFormat.sql` names."""

    def append(self, rows: DataFrame) -> None: ...

    def replace(self, rewrite: Rewrite) -> None:
        """Replaces its rows and columns by those of `rewrite`. Raises ProgressMoved if the table has other columns by
        now than those they were made from, and Unfit for a column by which it cannot be laid out."""

    def clear(self) -> None:
        """Deletes all rows."""

    def alter(self, alteration: Alteration) -> None:
        """Applies one clause, or only another key, if tables of the format have one."""


class TableFormat(Protocol):
    """One format. A `location` says where a table is: a folder, or a name in a catalog. It stays the same when the
    table gets another name."""

    tried_with: Mapping[str, str]
    """Properties that a table of the format can get later, and that need more names of columns than others do."""

    ways: Sequence[Mapping[str, str]]
    """Each way in which rows are merged, as settings of a session, also into the result of another merge."""

    tells_key: bool
    """Whether a table declares the columns of its key."""

    one_writer: bool
    """Whether writers are only separated within one process, so that nobody may write in parallel to a consumer."""

    def prepare(self, spark: SparkSession) -> None:
        """Prepares a new session for the tables. Raises BadConfig if somebody else started Spark without the format."""

    def called(self, spark: SparkSession) -> str:
        """Returns the format and its release, for messages."""

    def location(self, name: TableName, number: int = 1) -> str:
        """Returns the location for a table called `name`. Later tables of that name have a `number`."""

    def exists(self, location: str) -> bool:
        """Returns whether anything is there, except the remains of a process that died before a table's first
        commit."""

    def foreign(self, location: str) -> bool:
        """Returns whether the folder of a missing table contains a table of another lake: of another format or
        catalog."""

    def resolved(self, layout: Layout) -> Layout:
        """Returns `layout` with everything that the format expresses as properties in its properties. Raises BadConfig
        if no table of the format can have the layout."""

    def unfit(self, types: Mapping[str, str], layout: Layout) -> str:
        """Returns why a table with columns of these types cannot have the layout; "" if it can."""

    def keeps(self, name: str) -> bool:
        """Returns whether the format itself says that no column can have that name, in lower case."""

    def apart(self, name: str) -> bool:
        """Returns whether a table with that column is created differently than without it."""

    def create(
        self, spark: SparkSession, location: str, columns: Sequence[str], layout: Layout, key: Sequence[str] = ()
    ) -> None:
        """Creates an empty table. `columns` are as in a CREATE TABLE, `key` as in `Alteration.key`."""

    def laid_out_by(self, spark: SparkSession, location: str) -> Collection[str]:
        """Returns the columns by which the table or its files are laid out. Only `Change.replace` can rename or drop
        them."""

    def guarded(self, spark: SparkSession, location: str, rows: DataFrame, names: Mapping[str, str]) -> DataFrame:
        """Returns `rows` that fail on a value which the table would not keep. `names` maps their columns to the
        table's."""

    def sql(self, location: str) -> str:
        """Returns the table's name for a statement."""

    def version(self, location: str) -> str:
        """Returns a text that changes with each commit of the table; "" if it does not exist."""

    def few(self, location: str) -> tuple[ArrowTable | None, int]:
        """Returns all rows of a small table, None if it does not exist, and the generation of this program's newest
        commit."""

    def add(self, location: str, rows: ArrowTable, commit: Commit, first: bool = False) -> bool:
        """Appends a few rows without Spark, in one commit. With `first`, a missing table is created with their columns.
        Returns False, with nothing written, if only Spark can write into the table, if at all. Raises ProgressMoved,
        with nothing written, if this program's newest commit in the table is not the preceding one."""

    def frame(self, spark: SparkSession, location: str) -> DataFrame:
        """Returns the table's present rows."""

    def commits(self, location: str) -> Iterator[tuple[str, Commit]]:
        """Yields the table's versions that are commits of this program, as far as its log goes back, the newest first.
        Each has the text that follows VERSION AS OF. Raises SchemaDrift as `latest`."""

    def is_whole(self, location: str, version: str) -> bool:
        """Returns whether the files of a version in the log exist, too."""

    def is_empty(self, spark: SparkSession, location: str) -> bool:
        """Returns whether the table certainly has no row. Reads no rows."""

    def latest(self, location: str) -> Commit | None:
        """Returns this program's newest commit, None if the log has none. Reads the log from that commit on. Raises
        SchemaDrift if somebody has restored an older state since, or while that commit began, or replaced the table."""

    def committing(self, spark: SparkSession, location: str, commit: Commit) -> AbstractContextManager[Change]:
        """Makes the changes of the context into `commit`. Raises ProgressMoved if this program's newest commit in the
        table is not the preceding one, SchemaDrift as `latest`, and TargetBusy if another program interfered. Then
        nothing was written."""

    def remove(self, location: str) -> None:
        """Removes the table and its rows. It may already be gone, also in part."""

    def compact(self, spark: SparkSession, location: str) -> tuple[int, int]:
        """Merges the small files of a table, in a commit that is not counted as this program's. Returns their numbers
        before and after. Raises TargetBusy while somebody writes to it."""

    def expire(self, spark: SparkSession, location: str, hours: int) -> None:
        """Removes files that no version of the last `hours` has. Others may read and write meanwhile."""

    def forget(self, location: str) -> None:
        """Removes old versions of a small table of this program, if the format keeps them until somebody does."""

    def places(self) -> Collection[str]:
        """Returns the locations of tables, whoever has created them. Some may only contain the remains of a process
        that died."""

    def is_left(self, spark: SparkSession, location: str, before: datetime) -> bool:
        """Returns whether this program has created what is there, and nobody has written to it since `before`."""


def new_location(tables: TableFormat, name: TableName) -> str:
    """Returns the location for a new table called `name`. Nothing exists there yet."""
    number = 1
    while tables.exists(location := tables.location(name, number)) or tables.foreign(location):
        number += 1
    return location


def has_delta(files: SparkSource, folder: str) -> bool:
    """Returns whether the folder contains a Delta table."""
    return bool(delta_commits(files, folder))


def delta_commits(files: SparkSource, folder: str) -> list[str]:
    """Returns the versions in the log of a Delta table, the newest first."""
    names = files.names(f"{folder}/_delta_log")
    return sorted((name[:-5] for name in names if name.endswith(".json") and name[:-5].isdigit()), reverse=True)


def has_iceberg(files: SparkSource, folder: str) -> bool:
    """Returns whether the folder contains an Iceberg table."""
    metadata = f"{folder}/metadata"
    names = (name for name in files.names(metadata) if name.endswith(".metadata.json"))
    return any(_tells_of_a_table(files.read(f"{metadata}/{name}")) for name in names)


def _tells_of_a_table(metadata: bytes) -> bool:
    """Returns whether the metadata file belongs to a table. A process of this program that dies within a table's first
    commit leaves such a file, complete or in part, which no catalog names. A table of this program that is in use has
    commits."""
    try:
        said = json.loads(metadata)
    except ValueError:
        return metadata.startswith(_COMPRESSED)
    return OURS not in said.get("properties", {}) or said.get("current-snapshot-id", -1) not in (-1, None)


def layout_clauses(layout: Layout) -> str:
    """Returns what follows the columns of a CREATE TABLE; "" for nothing."""
    parts = (_part(part) for part in layout.partition_by)
    properties = (f"{spark_literal(name)} = {spark_literal(value)}" for name, value in layout.properties)
    texts = {
        "PARTITIONED BY": ", ".join(parts),
        "CLUSTER BY": ", ".join(map(spark_name, layout.cluster_by)),
        "TBLPROPERTIES": ", ".join(properties),
    }
    return "".join(f" {clause} ({text})" for clause, text in texts.items() if text)


def _part(part: PartitionTransform) -> str:
    if part.transform == "identity":
        return spark_name(part.column)
    width = f"{part.width}, " if part.width else ""
    return f"{TRANSFORMS[part.transform]}({width}{spark_name(part.column)})"


def resolved_properties(layout: Layout, reserved: Sequence[str], copying: Mapping[str, str]) -> Layout:
    """Returns `layout` with the properties `copying` if files are to be rewritten, unless it sets others itself. Raises
    BadConfig for a property that begins like one of `reserved`, on which this program depends."""
    for key, _ in layout.properties:
        if key.lower().startswith(tuple(start.lower() for start in ("storage_consumer", *reserved))):
            raise BadConfig(
                f"[[consumer.lake-tables]] sets the property {key}, on which this program builds", hint="leave it out"
            )
    properties = {**(copying if layout.copy_on_write else {}), **dict(layout.properties)}
    return replace(layout, properties=tuple(sorted(properties.items())), copy_on_write=False)


def path_segment(name: str) -> str:
    """Returns a name as a part of a location. Letters with a special meaning in a path or in Spark become their
    numbers. A name that is too long for a folder is cut and ends with a checksum."""
    kept = "".join(c if c.isalnum() or c in "_-$" else f"%{ord(c):02X}" for c in name).encode()
    if len(kept) > _LONGEST:
        kept = kept[:_LONGEST] + f"_{zlib.crc32(kept):08x}".encode()
    return kept.decode(errors="ignore") or "%"


def glue_segment(name: str) -> str:
    """Returns a name as a part of a location in Glue, which has at most 252 lower-case letters, digits and underscores.
    A name with others is changed, and ends with a checksum."""
    same = same_name(name)
    if re.fullmatch(r"[a-z0-9_]{1,252}", same):
        return same
    return f"{re.sub('[^a-z0-9_]', '_', same)[:240]}_{zlib.crc32(same.encode()):08x}"


def parquet_bytes(rows: ArrowTable, numbers: Sequence[int | None] = ()) -> bytes:
    """Returns the rows as a Parquet file. `numbers` are the table's numbers of its columns, by default their order."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    fields = [
        field if number is None else field.with_metadata({"PARQUET:field_id": str(number)})
        for number, field in zip(numbers or range(1, len(rows.schema) + 1), rows.schema, strict=True)
    ]
    sink = pa.BufferOutputStream()
    pq.write_table(rows.cast(pa.schema(fields)), sink, store_decimal_as_integer=True)
    return bytes(sink.getvalue().to_pybytes())


def read_parquet(contents: Iterable[bytes]) -> ArrowTable | None:
    """Returns the rows of files of the progress; None if there is no file. Raises BadConfig if one is damaged."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    files = list(contents)
    try:
        tables = [pq.read_table(pa.BufferReader(content)) for content in files]
    except (pa.ArrowInvalid, OSError) as error:
        raise damaged(f"a file of its rows cannot be read: {error}") from error
    return pa.concat_tables(tables) if tables else None


def accepts_rows(has: Mapping[str, tuple[object, bool]], row_types: Mapping[str, object], rows: ArrowTable) -> bool:
    """Returns whether a table with the columns `has`, each with a type and whether it accepts NULL, accepts `rows`
    unchanged, whose types are `row_types`. If somebody has changed the table, Spark either reports the difference or
    converts the values."""
    lacking = [name for name, (_, nullable) in has.items() if not nullable and name not in row_types]
    fits = (
        name in has and has[name][0] == kind and (has[name][1] or not rows[name].null_count)
        for name, kind in row_types.items()
    )
    return not lacking and all(fits)


def table_busy(location: str) -> TargetBusy:
    return TargetBusy(f"another program is writing to {location}", hint="it is tried again")


def overtaken_commit(location: str, newest: Commit | None, generation: int) -> ConsumerError:
    """Returns the error if another commit came before this program's commit number `generation`, 0 if it has no number.
    The other commit is this program's too, or that of somebody who keeps the table small."""
    return (
        outdated_writer(location)
        if generation and newest is not None and newest.generation >= generation
        else table_busy(location)
    )


def check_newest(location: str, newest: Commit | None, generation: int) -> None:
    """Raises ProgressMoved if the table already has this program's commit of that number, SchemaDrift if it lacks the
    preceding one."""
    number = newest.generation if newest is not None else 0
    if number >= generation:
        raise outdated_writer(location)
    if number < generation - 1:
        raise SchemaDrift(f"{location} lacks this program's newest commit, as where an older copy of it was put back")


def java_list(java: Any, values: Iterable[Any]) -> Any:
    """Returns a Java list, by Java's packages in py4j."""
    made = java.java.util.ArrayList()
    for value in values:
        made.add(value)
    return made


def table_rolled_back(location: str, how: str) -> SchemaDrift:
    return SchemaDrift(f"{location} is not what this program's newest commit left: somebody has {how}")


def outdated_writer(location: str) -> ProgressMoved:
    return ProgressMoved(
        f"another writer has committed to {location} meanwhile",
        hint="run again: the progress is read again; only one consumer of a lake can run",
    )
