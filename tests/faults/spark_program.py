"""The program; with ``HALVES`` in the environment every table with a key is loaded in two halves, as large ones are."""

from __future__ import annotations

import os
import sys

from consumer.cli.main import main
from consumer.spark import sizes

HALVES = "FAULTS_HALVES"

if __name__ == "__main__":
    if HALVES in os.environ:
        setattr(sizes, "PACKED_BYTES", 0)  # noqa: B010 - it is a constant
    main(sys.argv[1:])
