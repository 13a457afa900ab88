"""The user's cache folder. Its content may be lost, cut or cleared at any time, which is never an error."""

from __future__ import annotations

import os
from pathlib import Path

_OF_OTHERS = 0o022


def cache_folder(kind: str) -> Path:
    """Where files of this kind are kept; RuntimeError where the user has no home. It need not be there."""
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(cache) / "storage-consumer" / kind


def is_ours(path: Path) -> bool:
    """Whether nobody else can have written it. Raises OSError."""
    found = path.stat()
    return found.st_uid == os.geteuid() and not found.st_mode & _OF_OTHERS
