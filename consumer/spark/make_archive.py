"""Make the archive of classes for the starts to come: ``python -m consumer.spark.make_archive``.

A session without further settings, jobs of both shapes that loads have, and Java writes what they needed as it ends.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

from consumer.errors import ConsumerError
from consumer.spark.archive import keep, maker, start_of
from consumer.spark.buckets import to_partitions
from consumer.spark.session import start_session
from consumer.spark.settings import SparkSettings, standard_properties

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

_OPTIONS = "spark.driver.extraJavaOptions"
_SECONDS = 300


def main() -> int:
    """Makes the archive. If that is not possible, the reason is printed, and that is no error: every start then works
    as Spark does it."""
    usual = standard_properties(SparkSettings())
    try:
        with maker(usual) as archive:
            if archive is not None:
                option = f"-XX:ArchiveClassesAtExit={archive}"
                session = start_session(SparkSettings(conf=((_OPTIONS, f"{usual[_OPTIONS]} -Xlog:disable {option}"),)))
                from consumer.spark.internals import jvm_process

                jvm = jvm_process()
                start = start_of(jvm.pid, without=("-Xlog:disable", option))
                _use(session.spark)
                session.close()
                jvm.stdin.close()
                jvm.wait(_SECONDS)
                keep(usual, archive, start)
    except (OSError, ValueError, RuntimeError, ConsumerError) as error:
        print(f"no archive of Spark's classes, every start takes a second or two longer: {error}", file=sys.stderr)
    return 0


def _use(spark: SparkSession) -> None:
    def packed(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        for _ in batches:
            yield pa.record_batch([pa.array([0], pa.int32()), pa.array([b""])], names=["task", "body"])

    schema = "task int, body binary"
    spark.range(0, 1, 1, 1).mapInArrow(packed, schema).collect()
    shuffled = to_partitions(spark.range(0, 2, 1, 2).mapInArrow(packed, schema), 2, "task")
    shuffled.sortWithinPartitions("task").mapInArrow(packed, schema).collect()


if __name__ == "__main__":
    sys.exit(main())
