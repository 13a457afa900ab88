"""Folded changes into tables: staged by executors, merged by the driver."""
