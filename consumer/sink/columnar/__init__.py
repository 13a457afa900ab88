"""Shared by targets of typed columns in files: values as Arrow, staged Parquet, a lock for the single writer, and the
meaning of casts and partitions as expressions over a table. It knows no target."""
