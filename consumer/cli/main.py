"""The entry point: ``storage-consumer`` and ``python -m consumer``."""

from __future__ import annotations

import gc
import sys
from collections.abc import Sequence

from consumer.cli import early

COLLECT_AFTER = (100_000, 20, 20)
"""What is imported, and a listing, are hundreds of thousands of values that stay: looked through for cycles as often as
is usual, they cost a tenth of a start and a sixth of a round."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs the command line; leaves by SystemExit with the exit code."""
    if arguments is None:
        early.open_missing()
        early.keep()
    gc.set_threshold(*COLLECT_AFTER)
    from consumer.cli.program import run_program  # a quarter of a second, in which a signal can come

    code = run_program(sys.argv[1:] if arguments is None else arguments)
    if arguments is None:
        early.leave_with(code)
        if "duckdb" not in sys.modules:  # it would call all that it has a leak
            gc.freeze()  # Python's end looks through all values for cycles: a fifth of a run with nothing new
    sys.exit(code)
