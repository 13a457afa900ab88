"""Lakes: tables of an open format on a file system or an object store. Spark writes them, one commit a table."""
