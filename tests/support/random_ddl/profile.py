"""How many histories are played: the same few each time, or as many new ones as the environment says."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, Phase, settings

HISTORIES = int(os.environ.get("RANDOM_DDL", "0"))
LONGEST = 50 if HISTORIES else 12
"""The most events between two checkpoints, of which a history has up to four."""
PROFILE = settings(
    max_examples=HISTORIES or 25,
    derandomize=not HISTORIES,
    database=None,
    deadline=None,
    phases=[Phase.generate],
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
