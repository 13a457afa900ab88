"""What is recorded in the file, and by whom."""
