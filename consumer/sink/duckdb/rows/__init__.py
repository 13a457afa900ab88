"""Folded changes into tables: executors stage them, the driver merges them."""
