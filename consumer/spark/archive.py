"""An archive of the classes that Spark's JVM loads at every start (Java's class data sharing), and a start with it.

`consumer.spark.make_archive` keeps, in the user's cache folder, the archive and the command that `spark-submit`
produced, so that neither its shell nor its launcher runs again. Both are for exactly one kind of start: the same Java,
Spark, options and environment. In any other case, and if the archive is missing or truncated, Spark is started as
usual. Java itself finds damage within the archive (``VerifySharedSpaces``).
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from consumer.model.process import cache_folder, is_ours

_OF_THE_JVM = ("SPARK_", "JAVA_", "JDK_", "_JAVA_", "CLASSPATH", "LD_", "PYSPARK_SUBMIT_ARGS")
_OURS = ("SPARK_LOCAL_IP", "SPARK_AUTH_SOCKET_TIMEOUT", "SPARK_BUFFER_SIZE")
"""Those variables that we and PySpark set ourselves."""
_QUIET = ("-Xlog:disable", "-Xlog:all=warning:stderr", "-XX:-UsePerfData")
"""Java would print messages about an archive to stdout, which is for the result. A JVM that is killed would leave a
file of counters behind."""


@dataclass(frozen=True, slots=True)
class Start:
    """A JVM's command up to Spark's own words, and the variables that `spark-submit` adds to the environment."""

    command: tuple[str, ...]
    environment: Mapping[str, str]


def archived_start(conf: Mapping[str, str]) -> Start | None:
    """Returns how to start with the archive; None if there is none for this start. Never raises an error."""
    with suppress(OSError, ValueError, KeyError, TypeError, RuntimeError):
        note = cache_folder("spark") / f"{_key(conf)}.json"
        if not is_ours(note.parent) or not is_ours(note):
            return None
        kept = json.loads(note.read_text())
        archive = note.parent / kept["archive"]
        if is_ours(archive) and archive.stat().st_size == kept["size"]:
            java, *options = kept["command"]
            sharing = (f"-XX:SharedArchiveFile={archive}", "-XX:+UnlockDiagnosticVMOptions", "-XX:+VerifySharedSpaces")
            return Start((java, *_QUIET, *sharing, *options), kept["environment"])
    return None


@contextmanager
def maker(conf: Mapping[str, str]) -> Iterator[Path | None]:
    """Returns the file that a JVM writes at its end; None if the archive exists already. One process makes it at a
    time."""
    folder = cache_folder("spark")
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if archived_start(conf) is not None:
            yield None
            return
        for left in (*folder.glob(f"{_key(conf)}*"), *folder.glob("*.new"), *_forsaken(folder)):
            left.unlink(missing_ok=True)
        yield folder / f"{_key(conf)}.{os.getpid()}.new"


def _forsaken(folder: Path) -> Iterator[Path]:
    """Yields archives, of 150 MB each, whose Java or Spark no longer exists."""
    for note in folder.glob("*.json"):
        kept = {}
        with suppress(ValueError):
            kept = json.loads(note.read_text())
        if not all(Path(part).exists() for part in kept.get("parts", ["/not/known"])):
            yield from (folder / kept.get("archive", note.name), note)


def keep(conf: Mapping[str, str], archive: Path, start: Start) -> None:
    """Makes `archive`, which is complete, available to later starts."""
    archive.chmod(0o600)
    place = archive.with_suffix(".jsa")
    archive.rename(place)
    note = {
        "archive": place.name,
        "size": place.stat().st_size,
        "command": start.command,
        "parts": [str(part) for part in _parts()],
        "environment": dict(start.environment),
    }
    written = archive.with_suffix(".new")
    written.write_text(json.dumps(note))
    written.chmod(0o600)
    written.rename(place.parent / f"{_key(conf)}.json")


def start_of(process: int, without: Sequence[str]) -> Start:
    """Returns how the JVM `process` was started, `without` those words. Raises OSError if the system does not show
    it."""
    words = Path(f"/proc/{process}/cmdline").read_text().split("\0")[:-1]
    options = words[: words.index("org.apache.spark.deploy.SparkSubmit")]
    pairs = (pair.split("=", 1) for pair in Path(f"/proc/{process}/environ").read_text().split("\0") if "=" in pair)
    passing = {"_PYSPARK_DRIVER_CONN_INFO_PATH", "SPARK_CONNECT_MODE", "_", "SHLVL", "PWD", "OLDPWD", "LC_ALL"}
    added = {name: value for name, value in pairs if os.environ.get(name) != value and name not in passing}
    return Start(tuple(word for word in options if word not in without), added)


def _key(conf: Mapping[str, str]) -> str:
    """Returns what a start depends on, as a hash. Raises the errors of `_parts`."""
    # Whole seconds: the layers of an image keep no more.
    about = [
        *(f"{part} {int(part.stat().st_mtime)}" for part in _parts()),
        *sorted(f"{name}={value}" for name, value in conf.items() if name.startswith("spark.driver.")),
        *sorted(f"{n}={v}" for n, v in os.environ.items() if n.startswith(_OF_THE_JVM) and n not in _OURS),
    ]
    return hashlib.sha256("\n".join(about).encode()).hexdigest()[:16]


def _parts() -> tuple[Path, Path]:
    """Returns Java, and Spark's classes. Raises OSError if one is missing, or if Spark's own configuration changes the
    start."""
    spec = find_spec("pyspark")
    home = Path((spec and spec.origin) or "/no/pyspark/there").parent
    if (home / "conf").exists():
        raise FileNotFoundError(home)
    java = Path(own_java() or "/no/java").resolve(strict=True)
    return java, home / "jars"


def own_java() -> str | None:
    """Returns the Java that Spark's scripts take; None if there is none."""
    own = os.environ.get("JAVA_HOME")
    return shutil.which(f"{own}/bin/java" if own else "java")
