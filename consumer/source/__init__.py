"""Spark's own face: a storage as a data source, `spark.read.format("ticdc")`.

On the driver `options` reads what was asked, `planning` finds what it comes of, `pruning` what need not be read; on
executors `reading` makes its rows. `data_source` is what Spark calls.
"""
