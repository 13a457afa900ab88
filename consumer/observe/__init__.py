"""What a person or a log collector sees of a run."""
