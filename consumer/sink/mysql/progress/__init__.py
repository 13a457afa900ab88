"""The progress in the target: its tables, its single writer, and the order of writes."""
