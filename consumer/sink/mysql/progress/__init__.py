"""The progress in the target: its tables, its one writer, and the order of writes."""
