"""By its name Spark finds this module wherever the program is installed, and takes `DefaultSource` for the format
``ticdc``: ``spark.read.format("ticdc")``."""

from __future__ import annotations

from consumer.source.data_source import TicdcSource as DefaultSource

__all__ = ["DefaultSource"]
