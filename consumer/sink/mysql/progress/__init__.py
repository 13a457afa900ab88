"""What is recorded in the target, by whom, and in which order."""
