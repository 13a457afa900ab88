"""The seam of a format: what Delta and Iceberg do each in its own way. All else is shared."""

from __future__ import annotations

import json
import zlib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, Protocol

from consumer.errors import BadConfig, ConsumerError, ProgressMoved, SchemaDrift, TargetBusy
from consumer.model.layout import TRANSFORMS, Layout, PartitionTransform
from consumer.model.names import TableName
from consumer.sink.lake.types import literal, quoted
from consumer.target import ArrowTable, SparkSource

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


OURS = "storage_consumer.table"
"""A property of each table of a lake: one that nobody knows goes away only if it has this."""
_LONGEST = 200
"""Bytes of a name in a place: file systems take 255, and a number may come behind."""


_COMPRESSED = b"\x1f\x8b"
_SAID = ("generation", "consumer", "epoch", "load", "statement")
_MOMENTS = ("from_ts", "commit_ts")
"""What commits of earlier builds do not say."""


class Unfit(Exception):
    """Why a table cannot be laid out by a column."""


@dataclass(frozen=True, slots=True)
class Commit:
    """What a commit of ours says of itself, as a text in the table's own log. The newest of a table is the truth of it.

    `generation` numbers the commits of a table: each proves that the one before it is the newest. `applied` has, by
    upstream's tables, the commit-ts up to which the table has their rows; `load` and `statement` are what it came of.

    From it on the table is as upstream's was at `commit_ts`, and until then it was so from its own `commit_ts` up to
    `from_ts`; 0: that is not known. `table` is upstream's, and `upstream` whose it is.
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
        """The one behind this."""
        fresh = {"load": "", "statement": "", "from_ts": 0, "commit_ts": 0}
        return replace(self, generation=self.generation + 1, **{**fresh, **said})  # type: ignore[arg-type]

    @property
    def flat(self) -> dict[str, str]:
        """What others read of it, each in a key of its own."""
        said = {"commit-ts": self.commit_ts, "from-ts": self.from_ts, "table": self.table, "upstream": self.upstream}
        return {f"ticdc.{name}": str(value) for name, value in said.items() if value}

    def text(self) -> str:
        applied = [[*table, ts] for table, ts in self.applied.items()]
        named = {name: getattr(self, name) for name in (*_SAID, *_MOMENTS)}
        return json.dumps({"storage_consumer": {**named, "applied": applied}}, ensure_ascii=False)

    @classmethod
    def of(cls, text: str | None) -> Commit | None:
        """None for a commit that is not ours."""
        try:
            said = json.loads(text or "null")["storage_consumer"]
            applied = {TableName(*place[:2]): int(place[2]) for place in said["applied"]}
            from_ts, commit_ts = (int(said.get(name, 0)) for name in _MOMENTS)
            return cls(**{name: said[name] for name in _SAID}, applied=applied, from_ts=from_ts, commit_ts=commit_ts)
        except (TypeError, ValueError, KeyError):
            return None


@dataclass(frozen=True, slots=True)
class Alteration:
    """Columns that change while no row does. `added` are name, type and the column in front, "" for none; `loosened`
    take NULL from now on. `key` are then the columns of the key, where the format tells of one."""

    dropped: Sequence[str] = ()
    added: Sequence[tuple[str, str, str]] = ()
    renamed: Sequence[tuple[str, str]] = ()
    loosened: Sequence[str] = ()
    key: Sequence[str] = ()

    def clauses(self) -> list[str]:
        """What follows ALTER TABLE: one for each kind of change."""
        added = (
            f"{quoted(name)} {kind} {f'AFTER {quoted(before)}' if before else 'FIRST'}"
            for name, kind, before in self.added
        )
        found = [f"DROP COLUMNS ({', '.join(map(quoted, self.dropped))})"] if self.dropped else []
        found += [f"ADD COLUMNS ({', '.join(added)})"] if self.added else []
        found += [f"RENAME COLUMN {quoted(old)} TO {quoted(new)}" for old, new in self.renamed]
        return found + [f"ALTER COLUMN {quoted(name)} DROP NOT NULL" for name in self.loosened]


@dataclass(frozen=True, slots=True)
class Rewrite:
    """The rows that a table is to have in place of its own, with their columns."""

    rows: DataFrame
    kept: Mapping[str, str]
    """By their names until then, what columns that stay are called. The table is laid out by these as it was."""
    required: Collection[str] = ()
    """Those that take no NULL."""
    key: Sequence[str] = ()
    """As of an `Alteration`."""
    had: Sequence[str] = ()
    """The columns that the table had when `rows` were made of it; () where they were not."""


class Change(Protocol):
    """What one commit does to a table: one of these, once."""

    def run(self, statement: str) -> None:
        """A MERGE, an UPDATE or an INSERT into the table that `TableFormat.sql` names."""

    def append(self, rows: DataFrame) -> None: ...

    def replace(self, rewrite: Rewrite) -> None:
        """Its rows and columns become those of `rewrite`. Raises ProgressMoved where it has other columns by now than
        they were made of, Unfit for a column that it cannot be laid out by."""

    def clear(self) -> None:
        """All rows go."""

    def alter(self, alteration: Alteration) -> None:
        """One clause of it is all there is; or only another key, where the format tells of one."""


class TableFormat(Protocol):
    """One format. `place` is where a table is: a folder, or a name in a catalog; it stays the same while the table has
    other names."""

    tried_with: Mapping[str, str]
    """Properties that a table of the format can come to have, and that need more names of columns than others do."""

    ways: Sequence[Mapping[str, str]]
    """Each way in which rows are merged, as settings of a session, also into what another merge has left."""

    tells_key: bool
    """Whether a table says of which columns its key is."""

    one_writer: bool
    """Whether writers are kept apart only within one process, so nobody may write beside a consumer."""

    def prepare(self, spark: SparkSession) -> None:
        """A new session is one that knows the tables. Raises BadConfig where that Spark was started without the format:
        by somebody else."""

    def called(self, spark: SparkSession) -> str:
        """The format and its release, for messages."""

    def place(self, name: TableName, number: int = 1) -> str:
        """Where a table is that is called `name`; the next ones of that name have a `number`."""

    def exists(self, place: str) -> bool:
        """Whether anything is there, but for what a process left that died before a table's first commit."""

    def foreign(self, place: str) -> bool:
        """Whether the folder of a table that is not there holds one of another lake: of another format or catalog."""

    def resolved(self, layout: Layout) -> Layout:
        """`layout`, whose properties say all that the format has as properties. Raises BadConfig where no table of it
        can be laid out so."""

    def unfit(self, types: Mapping[str, str], layout: Layout) -> str:
        """Why a table with columns of these types cannot be laid out so; "" where it can."""

    def keeps(self, name: str) -> bool:
        """Whether the format says itself that no column can have that name, in lower case."""

    def apart(self, name: str) -> bool:
        """Whether a table with that column is made otherwise than without it."""

    def create(
        self, spark: SparkSession, place: str, columns: Sequence[str], layout: Layout, key: Sequence[str] = ()
    ) -> None:
        """An empty table; `columns` as in a CREATE TABLE, `key` as of an `Alteration`."""

    def laid_out_by(self, spark: SparkSession, place: str) -> Collection[str]:
        """The columns by which the table or its files are laid out. Only `Change.replace` can rename or drop them."""

    def guarded(self, spark: SparkSession, place: str, rows: DataFrame, names: Mapping[str, str]) -> DataFrame:
        """`rows`, which fail where a value is one that the table would not keep. `names`: what their columns are called
        in the table."""

    def sql(self, place: str) -> str:
        """The table's name in a statement."""

    def version(self, place: str) -> str:
        """Of a table: another text behind each commit; "" where it is not there."""

    def few(self, place: str) -> tuple[ArrowTable | None, int]:
        """All rows of a small table, and the number of its newest commit of ours; None where it is not there."""

    def add(self, place: str, rows: ArrowTable, commit: Commit, first: bool = False) -> bool:
        """Append a few rows without Spark, in one commit. `first`: a table that is not there is made with their
        columns. False where at most Spark can write into the table: nothing was written. Raises ProgressMoved where the
        table's newest commit of ours is not the one before it: then nothing was written either."""

    def frame(self, spark: SparkSession, place: str) -> DataFrame:
        """Its rows now."""

    def commits(self, place: str) -> Iterator[tuple[str, Commit]]:
        """The table's versions that are commits of ours, as far as its log goes back, the newest first; each by what
        follows VERSION AS OF. Raises SchemaDrift as `latest`."""

    def is_whole(self, place: str, version: str) -> bool:
        """Whether the files of a version that the log has are there, too."""

    def is_empty(self, spark: SparkSession, place: str) -> bool:
        """Whether it surely has no row; looks at no rows."""

    def latest(self, place: str) -> Commit | None:
        """What the newest commit of ours says; None where the log has none. Reads the log from that commit on. Raises
        SchemaDrift where somebody has restored an older state since, or put another table into its place."""

    def committing(self, spark: SparkSession, place: str, commit: Commit) -> AbstractContextManager[Change]:
        """What is done within becomes `commit`. Raises ProgressMoved where the table's newest commit of ours is not the
        one before it, SchemaDrift as `latest`, TargetBusy where another program was in the way: then nothing was
        written."""

    def remove(self, place: str) -> None:
        """It and its rows are gone; it may be gone already, also in part."""

    def compact(self, spark: SparkSession, place: str) -> tuple[int, int]:
        """Put the small files of a table together, in a commit that is none of ours: how many there were of these, and
        are. Raises TargetBusy while somebody writes to it."""

    def expire(self, spark: SparkSession, place: str, hours: int) -> None:
        """Remove files that no version of the last `hours` has. Others may read and write meanwhile."""

    def forget(self, place: str) -> None:
        """Remove old versions of a small table of our own, where the format keeps them until somebody does."""

    def places(self) -> Collection[str]:
        """Where tables are, whoever has made them; in some only what a death has left."""

    def is_left(self, spark: SparkSession, place: str, before: datetime) -> bool:
        """Whether this program has made what is there, and nobody has written to it since `before`."""


def new_place(tables: TableFormat, name: TableName) -> str:
    """Where a table is to be made that is called `name`: nothing is there yet."""
    number = 1
    while tables.exists(place := tables.place(name, number)) or tables.foreign(place):
        number += 1
    return place


def has_delta(files: SparkSource, folder: str) -> bool:
    """Whether the folder is that of a Delta table."""
    return bool(delta_commits(files, folder))


def delta_commits(files: SparkSource, folder: str) -> list[str]:
    """Of the versions that the log of a Delta table has, the newest first."""
    names = files.names(f"{folder}/_delta_log")
    return sorted((name[:-5] for name in names if name.endswith(".json") and name[:-5].isdigit()), reverse=True)


def has_iceberg(files: SparkSource, folder: str) -> bool:
    """Whether the folder is that of an Iceberg table."""
    metadata = f"{folder}/metadata"
    names = (name for name in files.names(metadata) if name.endswith(".metadata.json"))
    return any(_tells_of_a_table(files.read(f"{metadata}/{name}")) for name in names)


def _tells_of_a_table(metadata: bytes) -> bool:
    """A process of this program that dies within a table's first commit leaves such a file, whole or in part, that no
    catalog names. In one of ours that is in use there are commits."""
    try:
        said = json.loads(metadata)
    except ValueError:
        return metadata.startswith(_COMPRESSED)
    return OURS not in said.get("properties", {}) or said.get("current-snapshot-id", -1) not in (-1, None)


def laid_out(layout: Layout) -> str:
    """What follows the columns of a CREATE TABLE; "" for nothing."""
    parts = (_part(part) for part in layout.partition_by)
    properties = (f"{literal(name)} = {literal(value)}" for name, value in layout.properties)
    found = {
        "PARTITIONED BY": ", ".join(parts),
        "CLUSTER BY": ", ".join(map(quoted, layout.cluster_by)),
        "TBLPROPERTIES": ", ".join(properties),
    }
    return "".join(f" {clause} ({text})" for clause, text in found.items() if text)


def _part(part: PartitionTransform) -> str:
    if part.transform == "identity":
        return quoted(part.column)
    width = f"{part.width}, " if part.width else ""
    return f"{TRANSFORMS[part.transform]}({width}{quoted(part.column)})"


def resolved_properties(layout: Layout, own: Sequence[str], copying: Mapping[str, str]) -> Layout:
    """`layout` with the properties `copying` where files are to be written anew, unless it says others itself. Raises
    BadConfig for a property that begins as one of `own`, on which this program builds."""
    for key, _ in layout.properties:
        if key.lower().startswith(tuple(start.lower() for start in ("storage_consumer", *own))):
            raise BadConfig(
                f"[[consumer.lake-tables]] sets the property {key}, on which this program builds", hint="leave it out"
            )
    found = {**(copying if layout.copy_on_write else {}), **dict(layout.properties)}
    return replace(layout, properties=tuple(sorted(found.items())), copy_on_write=False)


def segment(name: str) -> str:
    """A name as a part of a place: letters that a path or Spark would read otherwise are written as their numbers. One
    that a folder cannot have is cut and ends with a checksum."""
    kept = "".join(c if c.isalnum() or c in "_-$" else f"%{ord(c):02X}" for c in name).encode()
    if len(kept) > _LONGEST:
        kept = kept[:_LONGEST] + f"_{zlib.crc32(kept):08x}".encode()
    return kept.decode(errors="ignore") or "%"


def as_parquet(rows: ArrowTable, numbers: Sequence[int | None] = ()) -> bytes:
    """A file of them. `numbers` are those that the table has given to its columns, as a rule by their order."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    fields = [
        field if number is None else field.with_metadata({"PARQUET:field_id": str(number)})
        for number, field in zip(numbers or range(1, len(rows.schema) + 1), rows.schema, strict=True)
    ]
    sink = pa.BufferOutputStream()
    pq.write_table(rows.cast(pa.schema(fields)), sink, store_decimal_as_integer=True)
    return bytes(sink.getvalue().to_pybytes())


def of_parquet(contents: Iterable[bytes]) -> ArrowTable | None:
    """The rows of such files; None where there is no file."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    tables = [pq.read_table(pa.BufferReader(content)) for content in contents]
    return pa.concat_tables(tables) if tables else None


def takes(has: Mapping[str, tuple[object, bool]], own: Mapping[str, object], rows: ArrowTable) -> bool:
    """Whether a table with the columns that it `has`, each of a type and with NULL or not, takes `rows` as they are,
    whose types are its `own`. Where somebody has changed it, Spark says how, or makes values of its types of them."""
    lacking = [name for name, (_, nullable) in has.items() if not nullable and name not in own]
    fits = (
        name in has and has[name][0] == kind and (has[name][1] or not rows[name].null_count)
        for name, kind in own.items()
    )
    return not lacking and all(fits)


def busy(place: str) -> TargetBusy:
    return TargetBusy(f"another program is writing to {place}", hint="it is tried again")


def outrun(place: str, newest: Commit | None, generation: int) -> ConsumerError:
    """What is raised where another commit came before ours of that number: one of ours too, or that of somebody who
    keeps the table small. 0: ours has no number."""
    return moved(place) if generation and newest is not None and newest.generation >= generation else busy(place)


def check_newest(place: str, newest: Commit | None, generation: int) -> None:
    """Raises ProgressMoved where the table has our commit of that number, SchemaDrift where it lacks the one before."""
    found = newest.generation if newest is not None else 0
    if found >= generation:
        raise moved(place)
    if found < generation - 1:
        raise SchemaDrift(f"{place} lacks this program's newest commit, as where an older copy of it was put back")


def java_list(java: Any, values: Iterable[Any]) -> Any:
    """One of Java's, by its packages as py4j shows them."""
    made = java.java.util.ArrayList()
    for value in values:
        made.add(value)
    return made


def undone(place: str, how: str) -> SchemaDrift:
    return SchemaDrift(f"{place} is not what this program's newest commit left: somebody has {how}")


def moved(place: str) -> ProgressMoved:
    return ProgressMoved(
        f"another writer has committed to {place} meanwhile",
        hint="run again: the progress is read again; only one consumer of a lake can run",
    )
