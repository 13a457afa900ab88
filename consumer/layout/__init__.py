"""The forms in which TiCDC and Dumpling write: paths, schema files, `metadata`."""
