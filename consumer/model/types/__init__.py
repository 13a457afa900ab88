"""Upstream's types: what TiDB converts a value to when its column gets another type."""
