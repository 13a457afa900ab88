"""One read of a table's rows by a Spark of its own: ``python -m tests.bench.reading HOW FOLDER TABLE``, where HOW is a
`mode` of the data source, or ``json`` for Spark's own reader of the same files."""

from __future__ import annotations

import sys

from tests.bench.generate import DATABASE
from tests.bench.plain_job import SCHEMA, files_of, read, started


def main() -> None:
    how, folder, table = sys.argv[1:]
    spark = started()
    if how == "json":
        spark.read.schema(SCHEMA).json(files_of(folder, table)).write.format("noop").mode("overwrite").save()
    else:
        read(spark, f"file://{folder}?protocol=canal-json", f"{DATABASE}.{table}", how)
    spark.stop()


if __name__ == "__main__":
    main()
