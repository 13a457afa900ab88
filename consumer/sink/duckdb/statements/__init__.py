"""Upstream's statements, by what they do to columns and rows."""
