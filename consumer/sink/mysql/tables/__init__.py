"""The target's tables as they are, and how rows fit them."""
