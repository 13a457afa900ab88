"""By its name Spark finds this module wherever the program is installed, and takes `DefaultSource` for the format
``ticdc``: ``spark.read.format("ticdc")``. An error of its import would hide every other Python source from Spark, too:
it is told, and there is no `DefaultSource`."""

from __future__ import annotations

import logging

__all__ = ["DefaultSource"]

try:
    from consumer.source.data_source import TicdcSource as DefaultSource
except Exception as problem:
    try:
        from pyspark import __version__ as found
    except ImportError:
        found = "missing"
    logging.getLogger(__name__).warning(
        "The format ticdc cannot be used: it needs Python 3.11 and PySpark 4.0 or newer, and PySpark is %s (%s).",
        found,
        problem,
    )
