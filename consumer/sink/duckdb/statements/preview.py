"""What upstream's statements would do to the replica: their operations, on the tables as earlier ones leave them. Told
in words where rows decide."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping
from datetime import tzinfo

from consumer.errors import DdlRefused
from consumer.model.actions import Action
from consumer.model.names import TableName, same_name
from consumer.model.result import TargetDdl
from consumer.model.steps import ApplyDdl
from consumer.sink.columnar.table import ReplicaTable, quote
from consumer.sink.duckdb.statements.operations import PLAIN, Operations, Tables, action_of, operations, trashed

_ROWS_OF_PARTITIONS = {
    Action.DROP_PARTITION: "deletes the rows of the partition, where its expression can be evaluated",
    Action.TRUNCATE_PARTITION: "deletes the rows of the partition, where its expression can be evaluated",
    Action.EXCHANGE_PARTITION: "exchanges the rows of the partition, where its expression can be evaluated",
}


class Preview:
    """`tables` are those of `names` that the file has now."""

    def __init__(self, names: Collection[TableName], tables: Tables, zone: tzinfo) -> None:
        self._tables, self._zone = dict(tables), zone
        self._spelled: defaultdict[TableName, list[TableName]] = defaultdict(list)
        for name in names:
            self._spelled[name.folded].append(name)

    def look(self, step: ApplyDdl) -> TargetDdl:
        """One statement, behind those that were looked at before."""
        try:
            action = action_of(step)
            if action == Action.DROP_SCHEMA:
                return self._dropped(step.name.database, step.trash)
            rows = [_ROWS_OF_PARTITIONS[action]] if action in _ROWS_OF_PARTITIONS else []
            away = None if step.trash is None else trashed(step, step.trash, self._tables, filled=True)
            if away is not None and action == Action.TRUNCATE_TABLE and step.trash is not None:
                rows = [f"moves the rows of {PLAIN.table(step.name)}, where it has any, to {PLAIN.table(step.trash)}"]
                away = Operations(there=away.there)
            done = away or operations(step, self._tables, self._zone)
        except DdlRefused as error:
            return TargetDdl(error=error.message)
        self._follow(done.there)
        return TargetDdl((*rows, *done.sql), done.note)

    def _dropped(self, database: str, trash: TableName | None) -> TargetDdl:
        own = [name for name in self._tables if same_name(name.database) == same_name(database)]
        self._follow(dict.fromkeys(own))
        moved = f"moves every table of {quote(database)} to the schema {quote(trash.database)}" if trash else ""
        return TargetDdl(tuple(filter(None, (moved, f"DROP SCHEMA IF EXISTS {quote(database)} CASCADE"))))

    def _follow(self, there: Mapping[TableName, ReplicaTable | None]) -> None:
        for changed, table in there.items():
            for name in {changed, *self._spelled.get(changed.folded, ())}:
                if table is None:
                    self._tables.pop(name, None)
                else:
                    self._tables[name] = table
