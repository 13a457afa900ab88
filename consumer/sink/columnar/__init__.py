"""What targets of typed columns in files have in common: values as Arrow, staged Parquet, and one writer by a lock."""
