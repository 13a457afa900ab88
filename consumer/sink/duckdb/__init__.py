"""An embedded target: one DuckDB file. Writers stage Parquet files next to it, and the driver merges them together with
the progress."""
