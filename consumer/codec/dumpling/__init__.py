"""Dumpling's SQL and CSV files, compressed or not -> change tables: each row is a put at a moment of its file."""
