"""Spark's Python daemon without Spark's archives on the module path, for ``spark.python.daemon.module``.

Every Python task begins with `importlib.invalidate_caches`, which reads the list of each archive on the path again:
of pyspark.zip, and the much longer one of a jar of Spark. Where pyspark is installed as a package neither is needed,
and without them a task that has nothing to do costs a tenth. What tasks import is imported here once, before workers
are forked.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import runpy
import sys
import zipimport


def drop_archives() -> None:
    """Remove archives from the module path, when pyspark is found without them."""
    kept = [entry for entry in sys.path if not entry.endswith((".zip", ".jar"))]
    if importlib.util.find_spec("pyspark") is None:
        return
    sys.path[:] = kept
    for entry, importer in list(sys.path_importer_cache.items()):
        if isinstance(importer, zipimport.zipimporter):
            del sys.path_importer_cache[entry]


def import_tasks() -> None:
    """Import what every task needs. A task that lacks a part of it reports that itself."""
    for module in ("consumer.spark.tasks", "pyspark.worker"):
        with contextlib.suppress(ImportError):
            importlib.import_module(module)


if __name__ == "__main__":
    drop_archives()
    import_tasks()
    runpy.run_module("pyspark.daemon", run_name="__main__", alter_sys=True)
