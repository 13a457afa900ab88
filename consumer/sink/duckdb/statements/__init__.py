"""Upstream's statements, by their effect on columns and rows."""
