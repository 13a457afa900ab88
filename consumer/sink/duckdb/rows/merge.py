"""Publishes what writers staged for one table, in the current transaction."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import duckdb

from consumer.errors import CannotBeExact, RowRefused, SchemaDrift, StagedRowsGone
from consumer.model.hints import REFUSED_ROW, about_table, load_again, resync_command
from consumer.model.load import Ending, LoadTarget
from consumer.model.names import TableName
from consumer.model.texts import count_text
from consumer.model.times import LOGICAL_BITS
from consumer.sink.columnar.table import (
    TEXT,
    ColumnarTarget,
    Held,
    ReplicaTable,
    quote_name,
    quote_text,
    text_expression,
)
from consumer.sink.duckdb.connection import qualified_name
from consumer.sink.duckdb.tables import has_rows


@dataclass(frozen=True, slots=True)
class Published:
    """`widened` are columns that had to become VARCHAR. `defaulted` counts new rows that got the replica's defaults."""

    widened: tuple[str, ...]
    defaulted: int


class Refusal(NamedTuple):
    """A row that the table cannot hold: its identity, whether it was to be written, and why."""

    row: int
    put: bool
    reason: str


@dataclass(frozen=True, slots=True)
class _Staged:
    """The staged files of one table as a FROM clause, and the value of each column in its table's type."""

    source: str
    values: tuple[str, ...]


def publish_staged_files(
    connection: duckdb.DuckDBPyConnection,
    target: LoadTarget,
    table: ReplicaTable,
    paths: Sequence[str],
    left_out: Collection[int] = (),
) -> Published:
    """Merges the staged changes into their table, except the rows `left_out`.

    Raises RowRefused, SchemaDrift if a new row has no value for a column that rows lack, and CannotBeExact if a row to
    remove from a table with no key does not exist.
    """
    listed = f"[{', '.join(map(_pattern, paths))}]"
    source = f"read_parquet({listed}, union_by_name = true)"
    if left_out:
        source = f"(SELECT * FROM {source} WHERE {quote_name('row')} NOT IN ({', '.join(map(str, left_out))}))"
    present = _staged_columns(connection, target, listed)
    types = dict(table.types)
    try:
        widened = _widen(connection, target, table, source, present)
        types |= dict.fromkeys(widened, TEXT)
        staged = _Staged(source, tuple(f"CAST({value} AS {kind})" for value, kind in _values(target, types, present)))
        defaulted = 0
        if target.key:
            defaulted = _merge_keyed(connection, target, table, staged)
        else:
            _merge_multiset(connection, target, table.name, staged, counted="copies" in present)
    except (duckdb.DataError, duckdb.ProgrammingError, duckdb.IntegrityError) as error:
        values = dict(zip(target.names, _values(target, types, present), strict=True))
        puts = "put" if target.key else "copies > 0" if "copies" in present else "n > 0"
        most = 1 if target.load.quarantine is None else target.load.quarantine.most + 1
        key = [target.names[position] for position in target.key]
        refused = refused_rows(connection, table.name, source, values, key=key, put=puts, most=most)
        first = refused[0] if refused and target.load.quarantine is None else None
        raise RowRefused(
            f"the DuckDB file refuses rows: {str(error).splitlines()[0]}",
            hint=about_table(REFUSED_ROW, target.table),
            table=str(target.table),
            row=None if first is None else first.row,
            put=first is None or first.put,
            more=() if target.load.quarantine is None else refused,
            of_data=bool(refused),
        ) from error
    return Published(widened, defaulted)


def _staged_columns(connection: duckdb.DuckDBPyConnection, target: LoadTarget, listed: str) -> frozenset[str]:
    try:
        names = connection.execute(f"SELECT DISTINCT name FROM parquet_schema({listed})").fetchall()
    except duckdb.Error as error:
        raise StagedRowsGone(
            f"its staged rows are gone or damaged: {str(error).splitlines()[0]}",
            hint="run again: nothing was published, and the rows are staged again",
            table=str(target.table),
        ) from error
    return frozenset(name for (name,) in names)


def _merge_keyed(
    connection: duckdb.DuckDBPyConnection, target: LoadTarget, table: ReplicaTable, staged: _Staged
) -> int:
    """Returns how many rows are new and got the replica's defaults in columns that rows lack."""
    name = qualified_name(connection, table.name)
    if target.extra_columns:
        _complete(connection, target, table, staged)
    if has_rows(connection, table.name):
        _check_keys(connection, target, name)
        keys = ", ".join(f"{staged.values[position]} AS k{position}" for position in target.key)
        same = " AND ".join(f"t.{quote_name(target.names[position])} = s.k{position}" for position in target.key)
        replaced_keys = f"SELECT {keys} FROM {staged.source}"
        if target.ending is not None:
            connection.execute(_ended(target, target.ending, table, name, f"{replaced_keys} WHERE NOT put"))
            replaced_keys += " WHERE put"
        connection.execute(f"DELETE FROM {name} t USING ({replaced_keys}) s WHERE {same}")
    columns = ", ".join(map(quote_name, target.names))
    if not target.extra_columns:
        connection.execute(
            f"INSERT INTO {name} ({columns}) SELECT {', '.join(staged.values)} FROM {staged.source} WHERE put"
        )
        return 0
    values = ", ".join(f"v{position}" for position in range(len(target.names)))
    kept = ", ".join(map(quote_name, target.extra_columns))
    completed = ", ".join(f"e{position}" for position in range(len(target.extra_columns)))
    old = f"SELECT {values}, {completed} FROM completed WHERE there"
    connection.execute(f"INSERT INTO {name} ({columns}, {kept}) {old}")
    new = f"SELECT {values} FROM completed WHERE NOT there"
    (inserted,) = connection.execute(f"INSERT INTO {name} ({columns}) {new}").fetchall()[0]
    connection.execute("DROP TABLE temp.main.completed")
    return int(inserted)


def _check_keys(connection: duckdb.DuckDBPyConnection, target: LoadTarget, name: str) -> None:
    """Raises SchemaDrift if rows were applied that lacked columns of the key: they are not found by it."""
    names = [quote_name(target.names[position]) for position in target.key]
    if connection.execute(f"SELECT 1 FROM {name} WHERE {' IS NULL OR '.join(names)} IS NULL LIMIT 1").fetchall():
        raise SchemaDrift(
            f"the table holds rows with NULL in its key ({', '.join(names)}): earlier changes lacked these columns; the"
            " present changes have them, and cannot match those rows",
            hint="did the changefeed's column selectors change? Load the table again from the storage:"
            " " + resync_command(target.table),
            table=str(target.table),
        )


def _ended(target: LoadTarget, ending: Ending, table: ReplicaTable, name: str, keys: str) -> str:
    """Returns the statement that ends the current versions before `keys`. A version that has ended stays as it is."""
    began, ended, current = (quote_name(target.names[n]) for n in (ending.began, ending.ended, ending.current))
    others = (position for position in target.key if position != ending.began)
    same = " AND ".join(f"t.{quote_name(target.names[position])} = s.k{position}" for position in others)
    time = f"make_timestamp((CAST(s.k{ending.began} AS BIGINT) >> {LOGICAL_BITS}) * 1000)"
    return (
        f"UPDATE {name} t SET {ended} = CAST({time} AS {table.types[target.names[ending.ended]]}), {current} = 0"
        f" FROM ({keys}) s WHERE {same} AND t.{began} < s.k{ending.began} AND t.{ended} IS NULL"
    )


def _complete(connection: duckdb.DuckDBPyConnection, target: LoadTarget, table: ReplicaTable, staged: _Staged) -> None:
    """Writes the rows into the temporary table `completed`, with the replica's values of the columns that they lack:
    ``v0 .. vN``, ``e0 .. eM`` by `target.extra_columns`, and whether the row is ``there``."""
    values = ", ".join(f"{value} AS v{position}" for position, value in enumerate(staged.values))
    held = [f"{quote_name(column)} AS e{position}" for position, column in enumerate(target.extra_columns)]
    held += [f"{quote_name(target.names[position])} AS k{position}" for position in target.key]
    kept = ", ".join(f"t.e{position}" for position in range(len(target.extra_columns)))
    same = " AND ".join(f"t.k{position} = s.v{position}" for position in target.key)
    connection.execute(
        f"CREATE OR REPLACE TEMP TABLE completed AS SELECT s.*, {kept}, t.there IS NOT NULL AS there "
        f"FROM (SELECT {values} FROM {staged.source} WHERE put) s "
        f"LEFT JOIN (SELECT {', '.join(held)}, true AS there FROM {qualified_name(connection, table.name)}) t ON {same}"
    )
    required = [column for column in target.extra_columns if column in table.required]
    # DuckDB accepts one change per statement.
    defaults = "; ".join(
        f"ALTER TABLE {qualified_name(connection, table.name)} ALTER COLUMN {quote_name(name)} SET DEFAULT 0"
        for name in required
    )
    if required and connection.execute("SELECT 1 FROM completed WHERE NOT there LIMIT 1").fetchall():
        raise SchemaDrift(
            f"a new row has no value for the replica's columns {', '.join(required)}, NOT NULL and without a default",
            hint=f"give them a default, as here the one for numbers: {defaults}",
            table=str(target.table),
        )


def _merge_multiset(
    connection: duckdb.DuckDBPyConnection, target: LoadTarget, table: TableName, staged: _Staged, counted: bool
) -> None:
    """Brings the table to the staged numbers of copies. With `counted` these are totals, else differences."""
    name = qualified_name(connection, table)
    aliases = ", ".join(f"v{position}" for position in range(len(target.names)))
    selected = ", ".join(f"{value} AS v{position}" for position, value in enumerate(staged.values))
    asked_for = (
        f"SELECT {'copies AS n' if counted else 'n'}, {quote_name('row')} AS name, {selected} FROM {staged.source}"
    )
    if counted:
        held = ", ".join(f"t.{quote_name(column)} AS v{position}" for position, column in enumerate(target.names))
        wanted = f"(SELECT {aliases} FROM ({asked_for})) s"
        same = " AND ".join(
            f"h.v{position} IS NOT DISTINCT FROM s.v{position}" for position in range(len(target.names))
        )
        existing = f"(SELECT {held} FROM {name} t) h SEMI JOIN {wanted} ON {same}"
        asked_for += f" UNION ALL SELECT -1, NULL, h.* FROM {existing}"
    connection.execute(
        "CREATE OR REPLACE TEMP TABLE net AS SELECT CAST(sum(n) AS BIGINT) AS n, row_number() OVER () AS id, "
        f"min(name) AS name, {aliases} FROM ({asked_for}) GROUP BY ALL HAVING sum(n) <> 0"
    )
    (asked,) = connection.execute("SELECT coalesce(-sum(n), 0) FROM net WHERE n < 0").fetchall()[0]
    if asked:
        _remove(connection, target, name, asked)
    connection.execute(
        f"INSERT INTO {name} ({', '.join(map(quote_name, target.names))}) "
        f"SELECT {aliases} FROM (SELECT *, unnest(range(n)) FROM net WHERE n > 0)"
    )
    connection.execute("DROP TABLE temp.main.net")


def _remove(connection: duckdb.DuckDBPyConnection, target: LoadTarget, name: str, asked: int) -> None:
    """Removes `asked` rows in total from the table `name`, of each image as many copies as `net` says.

    Equal rows cannot be deleted one by one: `rowid` is an ordinary column in a table that has a column of that name. So
    all copies of an image are deleted, and the remaining ones are inserted again.
    """
    same = " AND ".join(
        f"t.{quote_name(column)} IS NOT DISTINCT FROM net.v{position}" for position, column in enumerate(target.names)
    )
    columns = ", ".join(f"t.{quote_name(column)} AS v{position}" for position, column in enumerate(target.names))
    connection.execute(
        f"CREATE OR REPLACE TEMP TABLE found AS SELECT {columns}, net.id, "
        "row_number() OVER (PARTITION BY net.id) > -net.n AS stays "
        f"FROM {name} t JOIN net ON {same} WHERE net.n < 0"
    )
    (removed,) = connection.execute("SELECT count(*) FROM found WHERE NOT stays").fetchall()[0]
    if removed != asked and target.load.quarantine is not None:
        raise _lacking(connection, target)
    if removed != asked:
        raise CannotBeExact(
            f"{count_text(asked, 'row is', 'rows are')} to be removed from {target.table}, a table with no key, but"
            f" only {count_text(removed, 'is', 'are')} there",
            hint=load_again(target.table),
            table=str(target.table),
        )
    connection.execute(f"DELETE FROM {name} t USING net WHERE net.n < 0 AND {same}")
    connection.execute(
        f"INSERT INTO {name} ({', '.join(map(quote_name, target.names))}) "
        "SELECT * EXCLUDE (stays, id) FROM found WHERE stays"
    )
    connection.execute("DROP TABLE temp.main.found")


def _lacking(connection: duckdb.DuckDBPyConnection, target: LoadTarget) -> RowRefused:
    rows = connection.execute(
        "SELECT net.name, -any_value(net.n), count(found.id) FROM net LEFT JOIN found ON found.id = net.id "
        "WHERE net.n < 0 GROUP BY net.id, net.name HAVING count(found.id) < -any_value(net.n)"
    ).fetchall()
    refusals = [
        Refusal(
            int(name),
            False,
            f"{count_text(asked, 'copy of a row is', 'copies of a row are')} to be removed, but the DuckDB file has"
            f" {held}",
        )
        for name, asked, held in rows
    ]
    return RowRefused(refusals[0].reason, table=str(target.table), more=refusals)


def _widen(
    connection: duckdb.DuckDBPyConnection, target: LoadTarget, table: ReplicaTable, source: str, present: frozenset[str]
) -> tuple[str, ...]:
    """Changes to VARCHAR each typed column for which a value was staged that its type cannot hold."""
    widened = []
    for position, (column, name) in enumerate(zip(target.columns, target.names, strict=True)):
        match table.types[name]:
            case "JSON":
                strange = f"SELECT 1 FROM {source} WHERE NOT json_valid(c{position}) LIMIT 1"
                unfit = bool(connection.execute(strange).fetchall())
            case "DATE" | "TIMESTAMP":
                unfit = f"t{position}" in present
            case _:
                continue
        if unfit:
            connection.execute(
                f"ALTER TABLE {qualified_name(connection, table.name)} ALTER {quote_name(name)} TYPE {TEXT} "
                f"USING {text_expression(column, quote_name(name))}"
            )
            widened.append(name)
    return tuple(widened)


def _values(target: LoadTarget, types: Mapping[str, str], present: frozenset[str]) -> Iterator[tuple[str, str]]:
    """Yields each column's staged value as an SQL expression, and the present type of its table column."""
    assert isinstance(target.settings, ColumnarTarget)
    for position, (column, held) in enumerate(zip(target.columns, target.settings.held, strict=True)):
        type_now = types[target.names[position]]
        # c: the value in its own type; t: texts that are no valid date or time
        forms = {"c": f"c{position}", "t": f"t{position}"}
        if type_now == TEXT and held is Held.TIME:
            forms["c"] = text_expression(column, forms["c"])
        present_forms = [form for letter, form in forms.items() if f"{letter}{position}" in present]
        yield (
            (present_forms[0] if len(present_forms) == 1 else f"coalesce({present_forms[0]}, {present_forms[1]})"),
            type_now,
        )


def _pattern(path: str) -> str:
    """Returns a path as a string literal without wildcards for DuckDB."""
    return quote_text("".join(f"[{letter}]" if letter in "*?[" else letter for letter in path))


_SHOWN = 100


def refused_rows(
    connection: duckdb.DuckDBPyConnection,
    name: TableName,
    source: str,
    values: Mapping[str, tuple[str, str]],
    *,
    key: Collection[str],
    put: str,
    most: int,
) -> list[Refusal]:
    """Returns the first `most` rows of `source` that `name` cannot hold, as far as they can be found.

    `values` maps the table's columns to what is staged and the type that it must get. Rows must exist where `put`
    holds; of the others only the values of `key` count, if there is one. The current transaction is broken, so another
    connection looks.
    """
    with connection.cursor() as other:
        required = {
            column
            for (column,) in other.execute(
                "SELECT column_name FROM information_schema.columns WHERE is_nullable = 'NO' "
                "AND table_catalog = current_database() AND table_schema = ? AND table_name = ?",
                [name.database, name.table],
            ).fetchall()
        }
        wrong = []
        for column, (value, kind) in values.items():
            unfit = f"TRY_CAST({value} AS {kind}) IS NULL{'' if column in required else f' AND {value} IS NOT NULL'}"
            sentence = quote_text(f"column {column} ({kind}) cannot hold ")
            shown = f"left(coalesce(CAST({value} AS VARCHAR), 'NULL'), {_SHOWN})"
            where = unfit if not key or column in key else f"{put} AND {unfit}"
            wrong.append(f"WHEN {where} THEN {sentence} || {shown}")
        looked = (
            f"SELECT {quote_name('row')}, {put}, CASE {' '.join(wrong)} END AS why FROM {source} "
            f"WHERE why IS NOT NULL LIMIT {most}"
        )
        try:
            return [Refusal(int(row), bool(put), why) for row, put, why in other.execute(looked).fetchall()]
        except duckdb.Error:
            return []
