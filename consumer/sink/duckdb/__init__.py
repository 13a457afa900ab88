"""An embedded target: one DuckDB file. Writers stage Parquet beside it, the driver merges it with the progress."""
