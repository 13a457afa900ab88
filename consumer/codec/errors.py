"""Errors of data files, with their coordinates."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

from consumer.errors import CannotBeExact, CorruptFile, RowsVary, SchemaDrift
from consumer.model.files import DataFile
from consumer.model.hints import ACCEPT_LOSS, FROM_A_NEW_PREFIX, RESYNC, WITH_A_COPY, Hint, Instead
from consumer.model.load import FileSlice, LoadTarget

DAMAGED = (
    "check that `protocol` and `terminator` are the changefeed's; if they are, the file is damaged: "
    "restore it, or remove it and continue without its rows: " + ACCEPT_LOSS
)
BEGUN = Hint(
    Instead(
        "the row that is cut off is newer than those to be applied, so nothing is lost: the file is being written or"
        " copied, or a mount shows a part of it; see that the whole file is there, and run again"
    )
)
_HANDLE_KEY_ONLY = (
    "delete-only-output-handle-key-columns is set in the changefeed and its handle key is another one than the "
    f"target's: unset the option, or give the table a primary key; {WITH_A_COPY}"
)
_SELECTORS = (
    "column selectors, or an ALTER that TiCDC did not write, leave the rows and the schema file different: let the "
    f"selectors keep the columns; {WITH_A_COPY}"
)
_MIXED = (
    "column selectors, or an ALTER that TiCDC did not write, changed what rows have, so the rows before are not whole: "
    f"see that rows stay of one kind; {WITH_A_COPY}"
)

_NOT_NULL = (
    "TiCDC lost the value (v8.5.4 writes the text 'null' as NULL): put upstream's value into the file, or continue"
    " without such rows with on-bad-row = 'quarantine'"
)
_COMPUTED = (
    "upstream keeps the column's values: make it a plain column in the target (DROP COLUMN, ADD COLUMN); where rows are"
    " in the table, copy it from upstream, or load it again from the storage: " + RESYNC
)


def bad_end(file: DataFile, expected: str, reason: str, hint: str) -> CorruptFile:
    """Returns the error about the first or last row of a file of which nothing else was read."""
    folder = file.folder
    message = f"this is not a {expected}: {reason}"
    return CorruptFile(message, table=folder.root, path=file.path, version=folder.version, hint=hint)


@dataclass(frozen=True, slots=True)
class FileCoordinates:
    """Where a slice's rows come from. Lines count from 1."""

    path: str
    table: str
    computed: tuple[str, ...] = ()
    """The columns that the target computes when it is read."""
    left_out: tuple[str, ...] = ()
    """Columns of a table with a key that selectors can leave out of the rows."""

    @classmethod
    def of(cls, piece: FileSlice, target: LoadTarget) -> Self:
        return cls(piece.path, str(target.table), target.computed, target.load.unselected if target.key else ())

    def at(self, line: int | None) -> dict[str, Any]:
        """Returns the coordinates of an error that shows no value of the row."""
        return {"table": self.table, "path": self.path, "line": line, "holds_rows": False}

    def corrupt(self, message: str, line: int | None = None, hint: str = "") -> CorruptFile:
        return CorruptFile(message, hint=hint or DAMAGED, **{**self.at(line), "holds_rows": True})

    def lacking(self, columns: list[str], line: int) -> RowsVary:
        """Returns the error for a row without `columns`, none of them a key's: the load can be planned again without
        them."""
        message = f"the row has no column {', '.join(columns)}, which its schema file lists"
        return RowsVary(message, absent=columns, hint=_SELECTORS, **self.at(line))

    def key_lacking(self, columns: list[str], line: int) -> SchemaDrift:
        """Returns the error for a row without `columns`. If selectors do not leave them out, nothing can replace
        them."""
        if set(columns) <= set(self.left_out):
            return self.lacking(columns, line)
        message = f"the row has no column {', '.join(columns)}, without which the row cannot be identified"
        return SchemaDrift(message, hint=_SELECTORS, **self.at(line))

    def carrying(self, column: str, line: int) -> RowsVary:
        """Returns the error for a row with a column that the load was planned without. No line is bad."""
        if column in self.computed:
            message = f"the row has a value of the column {column}, which the target computes when it is read"
            return RowsVary(message, carried=[column], hint=_COMPUTED, **self.at(line))
        message = f"the row has the column {column}, which other rows between the same statements do not have"
        return RowsVary(message, carried=[column], hint=_MIXED, **self.at(line))

    def mislabelled(self, column: str, wrong: str, type_: str, line: int) -> SchemaDrift:
        """Returns the error for a row whose numbers of labels mean other labels in the target."""
        return SchemaDrift(
            f"column {column}: {wrong}, and the rows carry the labels' numbers",
            hint=f"give the target's column the type that the row shows, {type_}, and run again; where rows are in the"
            " table, copy it from upstream, or load it again from the storage: " + RESYNC,
            **self.at(line),
        )

    def delete_lacking(self, columns: list[str], line: int) -> CannotBeExact:
        """Returns the error for a DELETE without `columns`, of a table whose mode keeps deleted rows, or whose old
        values are read."""
        return CannotBeExact(
            f"a DELETE does not have column {', '.join(columns)}, and what is kept or asked for of a deleted row is all"
            " its values",
            hint=f"unset delete-only-output-handle-key-columns in the changefeed; {WITH_A_COPY}",
            **self.at(line),
        )

    def event_without_ts(self, commit_ts: str, line: int) -> CannotBeExact:
        return CannotBeExact(
            "a row has no commit-ts, and the table's mode keeps the time of each change",
            hint=f"set {commit_ts}, {FROM_A_NEW_PREFIX}",
            **self.at(line),
        )

    def key_missing(self, key: list[str], carried: list[str], line: int) -> CannotBeExact:
        return CannotBeExact(
            f"a DELETE has no value of the key ({', '.join(key)}), only the columns ({', '.join(carried)})",
            hint=_HANDLE_KEY_ONLY,
            **self.at(line),
        )

    def key_null(self, column: str, line: int) -> CannotBeExact:
        return CannotBeExact(
            f"the row is NULL in {column}, a column of the key, so the key does not identify rows",
            hint=f"a key's columns must be NOT NULL upstream: give the table a primary key; {WITH_A_COPY}",
            **self.at(line),
        )

    def null(self, column: str, line: int) -> CorruptFile:
        """Returns the error for a row that TiDB cannot have had."""
        message = f"the row is NULL in column {column}, which its schema file calls NOT NULL"
        return CorruptFile(message, hint=_NOT_NULL, **self.at(line))

    def not_told(self, column: str, line: int) -> CannotBeExact:
        """Returns the error for a DELETE without a column that an event filter needs."""
        return CannotBeExact(
            f"an event filter asks for column {column} of DELETEs, and this one does not have it",
            hint="unset delete-only-output-handle-key-columns (CSV: have a value for each column) in the changefeed,"
            f" {FROM_A_NEW_PREFIX}; or let ignore-delete-value-expr name columns of the key only",
            **self.at(line),
        )

    def old_missing(self, line: int) -> CannotBeExact:
        return CannotBeExact(
            "an UPDATE does not say what the row was",
            hint=f"give the table a primary key, or set enable-old-value=true in the changefeed; {WITH_A_COPY}",
            **self.at(line),
        )

    def no_commit_ts(self, commit_ts: str, line: int) -> CannotBeExact:
        return CannotBeExact(
            "a row of a table with no key has no commit-ts, so a row written again looks the same as an equal row",
            hint=f"set {commit_ts}, {FROM_A_NEW_PREFIX}",
            **self.at(line),
        )
