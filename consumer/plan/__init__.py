"""Listing + progress + checkpoint -> steps. Pure: no clock, no environment, no IO."""
