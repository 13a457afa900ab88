"""Is the target equal to the storage? A wing of its own: nothing of it is used by rounds."""
