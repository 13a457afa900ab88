"""What the replica has of a table's changes: event filters and row filters, over change tables."""
