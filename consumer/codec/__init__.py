"""Bytes of data files -> change tables. Runs on executors."""
