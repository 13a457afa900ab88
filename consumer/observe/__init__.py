"""What people and log collectors see of a run."""
