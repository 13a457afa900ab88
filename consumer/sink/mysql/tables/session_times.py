"""Generated columns of the target that read TIMESTAMPs: the writer's sessions are in UTC, upstream's were not."""

from __future__ import annotations

from consumer.ddl.session_times import hanging
from consumer.ddl.tokens import tokenize
from consumer.errors import CannotBeExact
from consumer.model.names import TableName, qualified, quote
from consumer.sink.mysql.statements.zone import UTC
from consumer.sink.mysql.tables.describe import TargetTable


def refuse_session_times(name: TableName, table: TargetTable, zone: str) -> None:
    """Raises CannotBeExact where the server would keep, or compare, what it computes in another zone than upstream."""
    if zone in ("UTC", UTC):
        return
    times = [column.name for column in table.columns if column.data_type == "timestamp" and not column.generated]
    # MySQL shows the quotes of texts as \'
    texts = {column.name: column.expression.replace("\\'", "'") for column in table.columns if column.generated}
    found = hanging(times, {column: tokenize(text) for column, text in texts.items()})
    for column in table.columns:
        if column.name in found and not column.virtual:
            raise _refused(
                name,
                column.name,
                f"ALTER TABLE {qualified(*table.name)} MODIFY COLUMN {quote(column.name)} {column.type}"
                " makes it a plain column, as the rows have its values; then run again",
            )
    for key in table.unique_keys:
        for part in key.columns:
            if part in found:
                hint = f"ALTER TABLE {qualified(*table.name)} DROP INDEX {quote(key.name)}; then run again"
                raise _refused(name, part, hint)


def _refused(name: TableName, column: str, hint: str) -> CannotBeExact:
    return CannotBeExact(
        f"column {quote(column)} of the target is generated from a TIMESTAMP: its values depend on the time zone of the"
        " session that writes, and rows are written in UTC",
        hint=hint,
        table=str(name),
    )
