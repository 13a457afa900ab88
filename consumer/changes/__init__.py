"""Decoded blocks of rows -> the changes that decide: event and row filters, masks, folds by key or by row, table modes.

Pure functions of Arrow tables; executors import this package. `folding` goes the whole way.
"""
