"""canal-JSON: one row change a line."""
