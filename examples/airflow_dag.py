"""An Airflow DAG: apply what TiCDC has written, then compare the target with the storage once a day.

The workers' environment holds STORAGE_CONSUMER_UPSTREAM_URI and STORAGE_CONSUMER_DOWNSTREAM_URI. With
STORAGE_CONSUMER_IN_PROCESS_BYTES=16MiB a run with few changes starts no Spark.

`make proof GROUP=airflow` runs both DAGs with Airflow 3.3.2.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from airflow.sdk import dag, task
from airflow.sdk.exceptions import AirflowFailException

if TYPE_CHECKING:
    from consumer.results import RunResult


@task(retries=3, retry_delay=timedelta(minutes=1))
def once() -> float | None:
    """Apply up to the checkpoint; the lag in seconds. Trouble that passes is tried again, the rest fails at once."""
    from consumer import api

    try:
        result = api.once(tz="UTC")
    except api.ConsumerError as error:
        if error.exit_code == 4:
            raise
        raise AirflowFailException(f"{error} {error.hint}") from error
    if result.exit_code:
        why = "\n".join([f"once ended with {result.exit_code}. {result.error or ''}", *unwell(result)])
        raise RuntimeError(why) if result.exit_code == 4 else AirflowFailException(why)
    return result.lag_seconds


def unwell(result: RunResult) -> Iterator[str]:
    """What is to be known of each table that is not in order."""
    for name, table in result.tables.items():
        if table.state in ("stopped", "waits"):
            yield f"{name} {table.state}: {table.error} {table.hint}"
        if table.quarantined:
            yield f"{name} lacks {table.quarantined} quarantined rows; the first: {table.bad_row}"


@task
def verify() -> int:
    """How many rows differ; fails unless none does."""
    from consumer import api

    report = api.verify(tz="UTC")
    if report.exit_code:
        raise AirflowFailException(f"{report.error} {report.hint}")
    return report.differences


@dag(schedule=timedelta(minutes=5), start_date=datetime(2026, 1, 1), catchup=False, max_active_runs=1)
def ticdc_replica() -> None:
    once()


@dag(schedule=timedelta(days=1), start_date=datetime(2026, 1, 1), catchup=False, max_active_runs=1)
def ticdc_replica_verified() -> None:
    verify()


ticdc_replica()
ticdc_replica_verified()
