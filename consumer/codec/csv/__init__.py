"""TiCDC's CSV: one row change a record."""
