"""The replica tables as they are, and how rows fit them."""
