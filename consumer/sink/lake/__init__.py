"""Lakes: tables of an open format on a file system or an object store, written by Spark, one commit a table."""
