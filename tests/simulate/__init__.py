"""A simulator: TiCDC, the storage, the target, Spark's tasks and the clock are played from a seed; the driver is real.

A history is a list of events (`events`). `play` plays it through the consumer and checks it, `shrink` makes a failing
one short, `mutants` shows that undone mends are seen.
"""
