from __future__ import annotations

from datetime import timedelta

from consumer.ddl.definitions import statement_of
from consumer.ddl.session_times import shift_to_session_zone
from consumer.ddl.tokens import Edits
from consumer.model.columns import Column

BERLIN = timedelta(hours=2)


def written(query: str, columns: tuple[Column, ...]) -> str:
    edits = Edits()
    shift_to_session_zone(statement_of(query), edits, columns, BERLIN)
    return edits.apply(query)


def test_a_literal_default_is_written_as_the_session_means_it() -> None:
    query = "CREATE TABLE `t` (`a` TIMESTAMP DEFAULT '2024-06-01 12:00:00', `b` DATETIME DEFAULT '2024-06-01 12:00:00')"
    columns = (Column("a", "TIMESTAMP", default="2024-06-01 11:00:00"), Column("b", "DATETIME", default="2024-06-01"))
    changed = written(query, columns)
    assert changed == query.replace(
        "TIMESTAMP DEFAULT '2024-06-01 12:00:00'", "TIMESTAMP DEFAULT '2024-06-01 13:00:00'"
    )


def test_the_columns_of_a_view_have_no_types() -> None:
    query = "CREATE VIEW `v` AS SELECT 1 AS `a`"
    assert written(query, (Column("a", "UNSPECIFIED"),)) == query
