"""A catalog as a round has it, of schema files alone."""

from __future__ import annotations

from collections.abc import Iterable

from consumer.model.files import Listing, SchemaFile
from consumer.model.progress import Progress
from consumer.model.times import MAX_TSO
from consumer.plan.assembly import Assembly
from consumer.plan.catalog import Catalog


def catalog_of(files: Iterable[SchemaFile], checkpoint: int = MAX_TSO) -> Catalog:
    return Assembly.of(Listing(checkpoint, list(files), {}), Progress(), lambda name: True).catalog
