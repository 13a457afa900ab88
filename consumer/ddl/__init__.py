"""Statements: their text, what it means, and text again for a target."""
