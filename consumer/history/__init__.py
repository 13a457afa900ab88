"""The one history of upstream's tables, derived from the schema files: who had which name when, and what became of
it."""
