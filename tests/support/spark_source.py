"""The format ``ticdc`` as Spark calls it, without Spark: what goes from process to process there is pickled here."""

from __future__ import annotations

import pickle
from typing import Any

import pyarrow as pa
from pyspark.cloudpickle import dumps
from pyspark.sql.types import StructType

from consumer.source.data_source import TicdcSource


def planned(uri: str, schema: StructType | None = None, **options: str) -> tuple[Any, list[Any]]:
    """A reader, and the partitions of a read; options are written with ``_`` for ``-``."""
    given = {name.replace("_", "-"): text for name, text in options.items()}
    source = TicdcSource({"path": uri, "tz": "UTC", **given})
    schema = schema or source.schema()
    source = pickle.loads(dumps(source))
    reader = source.reader(schema)
    carried = dumps((source, reader))
    return pickle.loads(carried)[1], [pickle.loads(dumps(one)) for one in reader.partitions()]


def read(uri: str, schema: StructType | None = None, **options: str) -> pa.Table:
    """All rows, before Spark looks at them."""
    reader, partitions = planned(uri, schema, **options)
    batches = [batch for partition in partitions for batch in reader.read(partition)]
    return pa.Table.from_batches(batches) if batches else pa.table({})
