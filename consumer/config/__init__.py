"""Settings: what they are, where they come from, and how they are documented. `load.py` alone reads them."""
