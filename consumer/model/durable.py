"""A local file that is there wholly or not at all, also if the machine fails."""

from __future__ import annotations

import os
from typing import IO


def put_in_place(written: IO[bytes], place: str) -> None:
    """Make the file `written`, which is open and has a name in the folder of `place`, the one at `place`: durably, and
    over the one that was there. Raises OSError."""
    written.flush()
    os.fsync(written.fileno())
    os.replace(written.name, place)
    folder = os.open(os.path.dirname(place) or ".", os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
