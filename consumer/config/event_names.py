"""TiCDC's names of events in its event filters, and what they are here."""

from __future__ import annotations

from collections.abc import Mapping

from consumer.model.ddl_policy import KINDS
from consumer.model.rules import DELETE, INSERT, UPDATE

DML = (INSERT, UPDATE, DELETE)
_ALTERS = {
    "rename table": "rename-table",
    "modify table comment": "modify-table-comment",
    "modify table charset and collate": "modify-table-charset",
    "add table partition": "add-partition",
    "drop table partition": "drop-partition",
    "truncate table partition": "truncate-partition",
    "exchange table partition": "exchange-partition",
    "reorganize table partition": "reorganize-partition",
    "alter table partitioning": "alter-table-partitioning",
    "remove table partitioning": "remove-partitioning",
    "add column": "add-column",
    "drop column": "drop-column",
    "modify column": "modify-column",
    "set default value": "set-default-value",
    "rebase auto id": "rebase-auto-id",
    "add primary key": "add-primary-key",
    "drop primary key": "drop-primary-key",
    "create index": "add-index",
    "drop index": "drop-index",
    "rename index": "rename-index",
    "alter index visibility": "alter-index-visibility",
    "alter ttl info": "alter-ttl",
    "alter ttl remove": "remove-ttl",
    "multi schema change": "multi-schema-change",
}
KINDS_OF: Mapping[str, tuple[str, ...]] = {
    "all dml": DML,
    "all ddl": KINDS,
    **{kind: (kind,) for kind in DML},
    "create schema": ("create-database",),
    "create database": ("create-database",),
    "drop schema": ("drop-database",),
    "drop database": ("drop-database",),
    "modify schema charset and collate": ("modify-database-charset",),
    "create table": ("create-table",),
    "drop table": ("drop-table",),
    "truncate table": ("truncate-table",),
    "recover table": ("recover-table",),
    "create view": ("create-view",),
    "drop view": ("drop-view",),
    "add foreign key": ("add-foreign-key",),
    "drop foreign key": ("drop-foreign-key",),
    "alter table": tuple(_ALTERS.values()),
    **{name: (kind,) for name, kind in _ALTERS.items()},
}
"""By TiCDC's name of an event, or of several: changes of rows, and kinds of statements as [consumer.ddl] names them."""


def ignored_kinds(name: str) -> tuple[str, ...]:
    """What a name stands for; () for none of TiCDC's."""
    return KINDS_OF.get(name.lower(), ())
