"""The releases of Spark on which the program runs."""

from __future__ import annotations

import re
from pathlib import Path

from consumer.errors import BadConfig

OLDEST = (4, 0)


def release_in(home: str) -> str:
    """Returns the release of the Spark that is installed in that folder; "" if its jars do not show it."""
    names = [jar.stem for jar in Path(home, "jars").glob("spark-core_*.jar")]
    return names[0].split("-", 2)[2] if names else ""


def check_release(spark: str, home: str = "") -> None:
    """Raises BadConfig for an old release, and for one that is not PySpark's own: the two speak another protocol then.
    `spark` is the release of the JVM's side, as ``4.1.4`` or ``4.0.2-amzn-0``, "" if it is not known; `home` is the
    folder that it is installed in."""
    import pyspark

    where = f", in {home}" if home else ""
    for name, release in (("Spark", spark), ("PySpark", pyspark.__version__)):
        if release and minor(release) < OLDEST:
            raise BadConfig(
                f"{name} is {release}{where}: {OLDEST[0]}.{OLDEST[1]} or newer is needed",
                hint="run the program with the Spark that `pip install ticdc-storage-consumer` brings, on this machine"
                " or a cluster of the same release, and without SPARK_HOME; docs/platforms.md",
            )
    if spark and minor(spark) != minor(pyspark.__version__):
        raise BadConfig(
            f"Spark is {spark}{where}, and PySpark is {pyspark.__version__}: they must be of one release",
            hint=f"unset SPARK_HOME, or `pip install pyspark=={'.'.join(map(str, minor(spark)))}.*`",
        )


def minor(release: str) -> tuple[int, int]:
    """Returns its first two numbers."""
    found = re.match(r"(\d+)\.(\d+)", release)
    return (int(found[1]), int(found[2])) if found else OLDEST
