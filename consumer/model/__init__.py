"""Frozen values that every other package uses. Standard library only."""
