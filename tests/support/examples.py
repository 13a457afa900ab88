"""How many examples hypothesis tries: some new ones in each run, and many in `make proof GROUP=properties`."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

TIMES = int(os.environ.get("EXAMPLES", "1"))


def examples(count: int) -> settings:
    """`count` examples, times what the environment says, however slow."""
    return settings(
        max_examples=count * TIMES,
        deadline=None,
        suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
    )
