"""Upstream's statements, rewritten for the server and run there."""
