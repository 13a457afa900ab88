"""Checks that rows can be written to an existing table of the target."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from consumer.ddl.session_times import zone_dependent
from consumer.ddl.tokens import tokenize
from consumer.errors import CannotBeExact, Code, SchemaDrift
from consumer.model.columns import Column
from consumer.model.hints import RESYNC
from consumer.model.load import Purpose
from consumer.model.names import TableName, qualified, quote, same_name, same_names
from consumer.sink.mysql.settings import MySqlSettings
from consumer.sink.mysql.statements.zone import UTC
from consumer.sink.mysql.tables.columns import column_type, misfit, wrong_label
from consumer.sink.mysql.tables.describe import ServerTable
from consumer.sink.mysql.target import TargetColumn
from consumer.target import LoadRequest

_DOUBLE_DIGITS = 15
_TRANSACTIONAL = {"innodb", "rocksdb", "tokudb", "ndbcluster", "ndb", ""}


def check_table(request: LoadRequest, table: ServerTable, settings: MySqlSettings) -> None:
    if "VIEW" in table.kind:
        raise CannotBeExact(
            f"{request.name} is a view in the target, rows cannot be written to it",
            hint="drop the view, then load the table again: " + RESYNC,
            table=str(request.table),
            code=Code.TARGET_TABLE,
        )
    if table.triggers and not settings.allow_triggers:
        raise CannotBeExact(
            f"the target table {request.name} has triggers, which would change rows beside those of upstream",
            hint="drop them, or allow them with allow-triggers=true in --downstream-uri",
            table=str(request.table),
            code=Code.TARGET_TABLE,
        )


def check_engine(request: LoadRequest, table: ServerTable, has_key: bool, staged: bool) -> None:
    """Raises CannotBeExact if the table needs transactions and its engine has none. Rows that are sent again are
    recognized by a key, or by a record in the same transaction. The rows of a table or a round appear together only by
    a transaction."""
    if table.engine.lower() in _TRANSACTIONAL or (has_key and not staged):
        return
    needs = "the --consistency" if has_key else "a table with no key"
    raise CannotBeExact(
        f"{needs} needs transactions, the table's engine {table.engine} has none",
        hint=f"ALTER TABLE {qualified(*table.name)} ENGINE = InnoDB",
        table=str(request.table),
        code=Code.TARGET_TABLE,
    )


def check_stored(request: LoadRequest, table: ServerTable) -> None:
    """Raises SchemaDrift for a stored generated column of the target that upstream does not compute: its values would
    differ from the rows' values."""
    for column in table.columns if request.load.purpose is not Purpose.COMPARE else ():
        if column.generated and not column.virtual and same_name(column.name) in request.plain:
            raise SchemaDrift(
                f"the target computes {quote(column.name)}, and upstream does not: the rows' values would be lost",
                hint=f"make it a plain column: {_modify(request, column, column.type)}",
                table=str(request.table),
            )


def computed_when_read(request: LoadRequest, table: ServerTable) -> tuple[str, ...]:
    """Returns the columns of upstream, in its spelling, that the target computes when they are read. Raises
    SchemaDrift."""
    virtual = same_names(column.name for column in table.columns if column.virtual)
    computed = tuple(column.name for column in request_columns(request) if same_name(column.name) in virtual)
    if computed and request.load.mode is not None:
        raise SchemaDrift(
            f"the target computes {quoted_list(computed)} when it is read, and the table's mode writes all columns",
            hint=f"make it a plain column in {request.name}, then run again",
            table=str(request.table),
        )
    return computed


def check_types(request: LoadRequest, columns: Sequence[tuple[Column, TargetColumn]]) -> None:
    for column, target in columns:
        if reason := misfit(column, target, same_name(column.name) in request.added):
            raise SchemaDrift(
                f"column {quote(column.name)} is {type_of(column)} upstream and {target.type} in the target: {reason}",
                hint=_modify(request, target, type_of(column)),
                table=str(request.table),
            )


def check_labels(request: LoadRequest, columns: Sequence[tuple[Column, TargetColumn]]) -> None:
    for column, target in columns:
        declared = request.labels.get(same_name(column.name), ())
        if wrong := wrong_label(declared, target):
            raise SchemaDrift(
                f"column {quote(column.name)}: {wrong}, and the rows carry the labels' numbers",
                hint=_modify(request, target, type_of(replace(column, elements=declared))),
                table=str(request.table),
            )


def _modify(request: LoadRequest, target: TargetColumn, column_type: str) -> str:
    return (
        f"ALTER TABLE {qualified(*request.name)} MODIFY COLUMN {quote(target.name)} {column_type}; then run again, or"
        " where rows are in the table load it again from the storage: " + RESYNC
    )


def request_columns(request: LoadRequest) -> list[Column]:
    return [column for column in request.columns if not column.hidden and column.name not in request.load.absent]


def quoted_list(names: Sequence[str]) -> str:
    return ", ".join(map(quote, names))


def type_of(column: Column) -> str:
    return column_type(column) + ("" if column.nullable else " NOT NULL")


def refuse_session_times(name: TableName, table: ServerTable, zone: str) -> None:
    """Raises CannotBeExact if the server would store or compare values computed from TIMESTAMPs in another zone than
    upstream: the writer's sessions are in UTC, upstream's were not."""
    if zone in ("UTC", UTC):
        return
    times = [column.name for column in table.columns if column.data_type == "timestamp" and not column.generated]
    # MySQL shows the quotes of texts as \'.
    texts = {column.name: column.expression.replace("\\'", "'") for column in table.columns if column.generated}
    dependent = zone_dependent(times, {column: tokenize(text) for column, text in texts.items()})
    for column in table.columns:
        if column.name in dependent and not column.virtual:
            raise _refused(
                name,
                column.name,
                f"ALTER TABLE {qualified(*table.name)} MODIFY COLUMN {quote(column.name)} {column.type}"
                " makes it a plain column, as the rows have its values; then run again",
            )
    for key in table.unique_keys:
        for part in key.columns:
            if part in dependent:
                hint = f"ALTER TABLE {qualified(*table.name)} DROP INDEX {quote(key.name)}; then run again"
                raise _refused(name, part, hint)


def _refused(name: TableName, column: str, hint: str) -> CannotBeExact:
    return CannotBeExact(
        f"column {quote(column)} of the target is generated from a TIMESTAMP: its values depend on the time zone of the"
        " session that writes, and rows are written in UTC",
        hint=hint,
        table=str(name),
        code=Code.AMBIGUOUS_TIME,
    )


def refuse_indistinct(name: TableName, table: ServerTable) -> None:
    """Raises CannotBeExact if a unique key has a DOUBLE(M,D) with numbers that a double cannot distinguish."""
    for column in (table.column(part) for unique in table.unique_keys for part in unique.columns):
        if column and column.rounded is not None and column.rounded[0] > _DOUBLE_DIGITS:
            raise CannotBeExact(
                f"{quote(column.name)} of a unique key is {column.type.upper()}: the server rounds it, and a double "
                f"has {_DOUBLE_DIGITS} digits, so two keys can become one",
                hint=f"give the target's column the type DOUBLE, or at most {_DOUBLE_DIGITS} digits",
                table=str(name),
                code=Code.TARGET_KEY,
            )
