"""Random statements and rows: run directly on a server, and written to a storage as TiCDC would."""
