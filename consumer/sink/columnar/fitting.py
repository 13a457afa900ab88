"""Matches rows to a table of typed columns."""

from __future__ import annotations

from dataclasses import replace

from consumer.errors import SchemaDrift
from consumer.model.columns import Column, mislabelled
from consumer.model.hints import load_again
from consumer.model.names import same_name
from consumer.sink.columnar.table import Upstream, quote_name, visible_columns
from consumer.target import LoadRequest


def sent_columns(request: LoadRequest, upstream: Upstream | None) -> dict[str, Column]:
    """Returns the rows' columns by lower-case name. An ENUM or SET has the labels with which its table was created, and
    those that upstream has after them. `upstream` is what is known of the table."""
    columns = {
        same_name(column.name): column
        for column in visible_columns(request.columns)
        if column.name not in request.load.absent
    }
    if upstream is None:
        return columns
    for table_column in upstream.columns:
        name = same_name(table_column.name)
        if table_column.name in upstream.virtual:
            columns.pop(name, None)
        elif name in columns:
            labels = request.labels.get(name, ())
            more = table_column.elements and not mislabelled(table_column.elements, labels)
            columns[name] = replace(columns[name], elements=labels if more else table_column.elements)
    return columns


def check_label_numbers(request: LoadRequest, column: Column) -> None:
    """Checks that `column` has the labels by which the table's rows were written so far. Raises SchemaDrift."""
    labels = request.labels.get(same_name(column.name), ())
    if column.elements and (wrong := mislabelled(labels, column.elements)):
        raise columns_drift(
            request,
            f"column {quote_name(column.name)}: {wrong}, and the rows carry the labels' numbers",
            "where the statement about its labels did not reach the storage, load the table from an export with"
            " `load-export`; else ",
        )


def columns_drift(request: LoadRequest, text: str, first: str = "") -> SchemaDrift:
    """Returns the error for rows that do not fit the table. `first` is an alternative to a reload, for the hint."""
    hint = first + load_again(request.table)
    return SchemaDrift(text, hint=hint, table=str(request.table))
