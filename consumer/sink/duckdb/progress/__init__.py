"""The progress in the file, and its lease."""
