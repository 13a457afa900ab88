"""The statements of one table, as `verify` reads its rows between them: which ones change what rows are or have,
and the columns that the table has between two of them."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

from consumer.ddl.changes import changes_of, takes_rows
from consumer.ddl.declared import Definition
from consumer.history.incarnations import Incarnation
from consumer.model.actions import Action
from consumer.model.columns import Column
from consumer.model.ddl_policy import ignored_reason
from consumer.model.files import SchemaFile
from consumer.model.names import TableName, same_name
from consumer.model.progress import DdlState, Progress
from consumer.model.steps import ddl_id
from consumer.plan.assembly import Assembly


@dataclass(frozen=True)
class TableStatements:
    """Those of the table `name` up to `end`. A table that `keeps_ended` rows in the target is not emptied by a TRUNCATE
    TABLE. `executed` has the paths of all statements that have run."""

    name: TableName
    table: Incarnation
    end: int
    keeps_ended: bool
    assembly: Assembly
    progress: Progress
    executed: Collection[str] = ()

    @cached_property
    def all(self) -> list[SchemaFile]:
        """Without each TRUNCATE TABLE that a policy has ignored: the rows must be there."""
        return [file for file in self.table.statements if file.version <= self.end and not self._is_ignored(file)]

    @cached_property
    def begins(self) -> int:
        """The statement that the table was empty behind; 0 for none in the storage."""
        emptied = [] if self.keeps_ended else [file for file in self.all if file.action is Action.TRUNCATE_TABLE]
        birth = self.table.birth
        return max((file.version for file in emptied), default=birth.version if birth is not None else 0)

    @cached_property
    def given(self) -> int:
        """The moment as of which the target was given the table, 0 for none."""
        return max(self.progress.start_ts, self.table.given_at(self.progress))

    @cached_property
    def moves(self) -> list[SchemaFile]:
        """Statements behind the beginning that brought rows from another table."""
        found = self.assembly.history.exchanges_of(self.table, self.end)
        return [file for file in found if file.version > self.begins]

    @cached_property
    def cuts(self) -> list[SchemaFile]:
        """The statements that change what rows are or have, in order."""
        found: dict[str, SchemaFile] = {file.path: file for file in self.moves}
        last: SchemaFile | None = None
        for file in self.all:
            earlier = last or self.before(file.version)
            changed = earlier is None or self.columns(earlier) != self.columns(file) or earlier.name != file.name
            if changed or takes_rows_away(file) or changes_of(file).columns.columns:
                found[file.path] = file
            last = file
        return sorted(found.values(), key=lambda file: (file.version, file.path))

    @property
    def left_out(self) -> SchemaFile | None:
        """The first statement that would have taken rows away, and was not executed."""
        for file in self.all:
            record = self.progress.ddls.get(ddl_id(file))
            skipped = record is not None and record.state is DdlState.SKIPPED and file.version > self.given
            if skipped and (file.action is Action.TRUNCATE_TABLE or takes_rows_away(file)):
                return file
        return None

    @property
    def waits(self) -> int:
        """The version of the first statement filed under the table's name that has not run, 0 for none: it is refused,
        or waits for others of its moment. The watermark can be that version."""
        own = (
            file for file in self.assembly.catalog.by_table.get(self.name, ()) if self.table.since[-1] < file.version
        )
        waiting = (file.version for file in own if file.query and file.path not in self.executed)
        return min((version for version in waiting if version <= self.end), default=0)

    def is_own(self, file: SchemaFile) -> bool:
        """Whether the statement tells columns of this table, and not of one that it exchanged a partition with."""
        return file.path in self._paths

    def before(self, version: int) -> SchemaFile | None:
        """The schema file that tells the table's columns before `version`."""
        known = self.table.files
        return known[max(bisect_left(known, version, key=_version) - 1, 0)] if known else None

    def columns(self, file: SchemaFile | None) -> tuple[Column, ...]:
        """With the labels that the statements tell."""
        if file is None:
            return ()
        declared = self.declared(file)
        return tuple(
            replace(column, elements=column.elements or declared.get(same_name(column.name), Definition()).elements)
            if column.labelled
            else column
            for column in file.columns
        )

    def declared(self, file: SchemaFile | None) -> Mapping[str, Definition]:
        """What the statements say of each column as of `file`."""
        return {} if file is None else self.assembly.catalog.declared(file)

    @cached_property
    def _paths(self) -> frozenset[str]:
        return frozenset(file.path for file in self.table.files)

    def _is_ignored(self, file: SchemaFile) -> bool:
        action, record = file.action, self.progress.ddls.get(ddl_id(file))
        if action is not Action.TRUNCATE_TABLE or record is None:
            return False
        return record.state is DdlState.SKIPPED and record.reason == ignored_reason(action)


def takes_rows_away(file: SchemaFile) -> bool:
    """Whether rows of the table may be gone behind the statement, though no change tells it: also where a partition's
    part of the statement was not understood."""
    return takes_rows(file) or "PARTITION" in changes_of(file).partitions.misread.upper()


def _version(file: SchemaFile) -> int:
    return file.version
