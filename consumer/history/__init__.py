"""The one history of upstream's tables, which the schema files tell: who had which name when, and what became of it."""
