"""Which column names a format or Spark reserves for itself.

While they read or change a table, Spark, Delta and Iceberg add columns of their own to those of the table, and no list
has all of their names. A table with such a name cannot be read, is not changed where it should be, or gets other values
than were written. So a name is tried before a table gets it: rows are written, merged and read under it. The names of
the lake's tables have been tried this way.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from uuid import uuid4

from consumer.model.layout import Layout
from consumer.model.names import TableName, same_name
from consumer.sink.lake.failures import is_lasting
from consumer.sink.lake.formats import TableFormat
from consumer.sink.lake.progress import LakeTable
from consumer.sink.lake.types import spark_name
from consumer.sink.progress_layout import SCHEMA

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Properties = tuple[tuple[str, str], ...]
_AT_ONCE = 200
"""The number of names that are tried together: the jobs of a MERGE cost more than its columns."""
_KEY = "n"
_PLAIN = "plain"
"""A name that no format reserves."""


_KNOWN: dict[tuple[type[TableFormat], Properties, str], bool] = {}
"""The results for names, in lower case: whether tables of a format with these properties can have them. They depend on
the releases of Spark and of the format, which stay the same within a process."""


@dataclass(frozen=True, slots=True)
class ReservedNames:
    """Tries names on tables of a format."""

    tables: TableFormat
    _proven: set[str] = field(default_factory=lambda: {_KEY}, init=False)
    """The names, in lower case, that tables of the lake have."""

    def unusable(
        self, spark: SparkSession, names: Collection[str], layout: Layout, lake_tables: Iterable[LakeTable]
    ) -> list[str]:
        """Returns those of `names` that a table with this layout cannot have. The lake has the tables `lake_tables`,
        whose names are only read if a name is new. Raises errors that may pass."""
        untested = self._untested(names, layout)
        if untested:
            self._proven.update(same_name(name) for table in lake_tables for name in table.replica.types)
            untested = self._untested(untested, layout)
        reserved = set(filter(self.tables.keeps, untested))
        for apart in (False, True):
            others = [name for name in untested if name not in reserved and self.tables.apart(name) is apart]
            for start in range(0, len(others), _AT_ONCE):
                reserved |= set(self._lost(spark, others[start : start + _AT_ONCE], layout))
        _KNOWN.update({self._key(name, layout): name not in reserved for name in untested})
        return [name for name in names if not _KNOWN.get(self._key(name, layout), True)]

    def _untested(self, names: Iterable[str], layout: Layout) -> list[str]:
        """Returns those of `names` that have no result yet, in lower case."""
        new = sorted({same_name(name) for name in names} - self._proven)
        return [name for name in new if self._key(name, layout) not in _KNOWN]

    def _key(self, name: str, layout: Layout) -> tuple[type[TableFormat], Properties, str]:
        return type(self.tables), layout.properties, same_name(name)

    def _lost(self, spark: SparkSession, names: Sequence[str], layout: Layout) -> Iterator[str]:
        """Yields those of `names` that do not work in a table. Halves are tried until each such name is alone."""
        if self._works(spark, names, layout):
            return
        if len(names) == 1:
            # Properties that name another column of the table fail in every trial. Then it proves nothing about a name.
            plain = self._key("", layout)  # no column has this name
            if plain not in _KNOWN:
                _KNOWN[plain] = self._works(spark, [_PLAIN], layout)
            if _KNOWN[plain]:
                yield from names
            return
        middle = len(names) // 2
        yield from self._lost(spark, names[:middle], layout)
        yield from self._lost(spark, names[middle:], layout)

    def _works(self, spark: SparkSession, names: Sequence[str], layout: Layout) -> bool:
        """Returns whether rows are read from a table with these columns as they were written and merged."""
        location = self.tables.location(TableName(SCHEMA, f"tried_{uuid4().hex}"))
        trial = _Trial(self.tables.sql(location), names, len(self.tables.ways))
        session = spark.newSession()
        self.tables.prepare(session)
        session.conf.set("spark.sql.shuffle.partitions", "1")
        try:
            columns = [f"{spark_name(name)} INT" for name in (_KEY, *names)]
            properties = {**self.tables.tried_with, **dict(layout.properties)}
            self.tables.create(session, location, columns, Layout(properties=tuple(properties.items())))
            session.sql(trial.first()).collect()
            for number, way in enumerate(self.tables.ways):
                for setting, value in way.items():
                    session.conf.set(setting, value)
                session.sql(trial.merge(number)).collect()
            rows = session.sql(trial.read()).collect()
            return sorted(map(tuple, rows)) == trial.wanted()
        except Exception as error:
            if not is_lasting(error):
                raise
            return False
        finally:
            self.tables.remove(location)


@dataclass(frozen=True, slots=True)
class _Trial:
    """Rows of `table`, whose columns are a key and `names`: one for each of the `merges`, and two more. Each merge
    changes the row 0, removes one and inserts one. The value of a row grows by one from column to column."""

    table: str
    names: Sequence[str]
    merges: int

    def first(self) -> str:
        rows = ", ".join(f"({key}, {1000 * key})" for key in range(self.merges + 2))
        values = ", ".join(self._values("v.value"))
        return f"INSERT INTO {self.table} ({self._listed}) SELECT v.key, {values} FROM VALUES {rows} AS v(key, value)"

    def merge(self, number: int) -> str:
        """Returns the MERGE. The merged rows have the key, whether they are put, and the first value before and after.
        By turns only the key, or all columns, identify a row."""
        removed, new = number + 1, _NEW + number
        rows = f"(0, true, {_CHANGED * number}, {_CHANGED * (number + 1)}), ({removed}, false, {1000 * removed}, 0)"
        rows = f"{rows}, ({new}, true, 0, {1000 * new})"
        target_columns = [f"t.{spark_name(name)}" for name in self.names]
        old = [f"{name} = {value}" for name, value in zip(target_columns, self._values("s.old"), strict=True)]
        same = " AND ".join((f"t.{_KEY} = s.key", *(old if number % 2 else ())))
        new_values = self._values("s.new")
        assigned = ", ".join(f"{name} = {value}" for name, value in zip(target_columns, new_values, strict=True))
        return (
            f"MERGE INTO {self.table} t USING (SELECT * FROM VALUES {rows} AS v(key, put, old, new)) s "
            f"ON {same} WHEN MATCHED AND NOT s.put THEN DELETE "
            f"WHEN MATCHED THEN UPDATE SET {assigned} "
            f"WHEN NOT MATCHED AND s.put THEN INSERT ({self._listed}) VALUES ({', '.join(('s.key', *new_values))})"
        )

    def read(self) -> str:
        conditions = " AND ".join(f"{spark_name(name)} >= {number}" for number, name in enumerate(self.names))
        return f"SELECT * FROM {self.table} WHERE {conditions}"

    def wanted(self) -> list[tuple[int, ...]]:
        last = self.merges + 1
        firsts = {0: _CHANGED * self.merges, last: 1000 * last}
        firsts |= {_NEW + number: 1000 * (_NEW + number) for number in range(self.merges)}
        return [(key, *(first + number for number in range(len(self.names)))) for key, first in sorted(firsts.items())]

    @property
    def _listed(self) -> str:
        return ", ".join(map(spark_name, (_KEY, *self.names)))

    def _values(self, first: str) -> list[str]:
        return [f"{first} + {number}" for number in range(len(self.names))]


_NEW, _CHANGED = 100, 1_000_000
"""The key of the first row that a merge inserts, and the number that a change adds."""
