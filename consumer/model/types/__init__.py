"""Upstream's types: what TiDB makes of a value when its column becomes one of another type."""
