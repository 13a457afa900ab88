"""Registers the format ``ticdc``: Spark imports installed modules whose names begin with ``pyspark_``, and takes their
`DefaultSource`. If this import failed, Spark would lose all other Python sources too, so an error is only logged, and
there is no `DefaultSource`."""

from __future__ import annotations

import logging

__all__ = ["DefaultSource"]

try:
    from consumer.source.data_source import TicdcSource as DefaultSource
except Exception as problem:
    try:
        from pyspark import __version__ as pyspark_version
    except ImportError:
        pyspark_version = "missing"
    logging.getLogger(__name__).warning(
        "The format ticdc is not available: %s. It needs Python 3.11 and PySpark 4.0 or newer; PySpark here: %s.",
        problem,
        pyspark_version,
    )
