"""The entry point: ``storage-consumer`` and ``python -m consumer``."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from consumer.cli import early


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line; leaves by SystemExit with the exit code."""
    if arguments is None:
        early.keep()
    from consumer.cli.program import run_program  # half a second, in which a signal can come

    code = run_program(sys.argv[1:] if arguments is None else arguments)
    if arguments is None:
        early.leave_with(code)
    sys.exit(code)
