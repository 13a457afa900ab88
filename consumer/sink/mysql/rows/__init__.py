"""The executors' side: folded changes into tables."""
