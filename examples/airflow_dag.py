"""An Airflow DAG: apply what TiCDC has written, then compare the target with the storage once a day.

The workers' environment holds STORAGE_CONSUMER_UPSTREAM_URI and STORAGE_CONSUMER_DOWNSTREAM_URI. With
STORAGE_CONSUMER_IN_PROCESS_BYTES=16MiB a run with few changes starts no Spark.

Tried by hand with Airflow 3.3.2: its DagBag takes the file without errors, and both tasks ran on a DuckDB target.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from airflow.exceptions import AirflowFailException
from airflow.sdk import dag, task


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
    stopped = [
        f"{name}: {table.error} {table.hint}" for name, table in result.tables.items() if table.state == "stopped"
    ]
    if stopped:
        raise AirflowFailException("\n".join(stopped))
    return result.lag_seconds


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
