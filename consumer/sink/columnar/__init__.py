"""What targets of typed columns in files share: values as Arrow, staged Parquet, a lock for the one writer, and what
casts and partitions mean, as expressions over a table. Knows no target."""
