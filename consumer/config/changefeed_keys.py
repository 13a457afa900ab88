"""The keys of a changefeed's TOML that matter to a consumer's reading of it, over all versions of TiCDC."""

from __future__ import annotations

CHANGEFEED_KEYS = frozenset(
    {
        "active-active-progress-interval",
        "active-active-sync-stats-interval",
        "bdr-mode",
        "case-sensitive",
        "changefeed-error-stuck-duration",
        "check-gc-safe-point",
        "consistent",
        "consumer",
        "cyclic-replication",
        "enable-active-active",
        "enable-old-value",
        "enable-sync-point",
        "enable-table-monitor",
        "event-collector-batch-bytes",
        "event-collector-batch-count",
        "filter",
        "force-replicate",
        "ignore-ineligible-table",
        "integrity",
        "memory-quota",
        "mounter",
        "performance-mode",
        "scheduler",
        "sink",
        "sql-mode",
        "sync-point-interval",
        "sync-point-retention",
        "synced-status",
    }
)
"""Top level; `consumer` is our own table."""

SINK_KEYS = frozenset(
    {
        "advance-timeout-in-sec",
        "case-sensitive",
        "cloud-storage-config",
        "column-selectors",
        "content-compatible",
        "date-separator",
        "debezium",
        "debezium-disable-schema",
        "delete-only-output-handle-key-columns",
        "dispatchers",
        "enable-kafka-sink-v2",
        "enable-partition-separator",
        "encoder-concurrency",
        "file-index-digit",
        "force-replicate",
        "iceberg-config",
        "integrity",
        "kafka-config",
        "mysql-config",
        "only-output-updated-columns",
        "open",
        "protocol",
        "pulsar-config",
        "safe-mode",
        "schema-registry",
        "send-all-bootstrap-at-start",
        "send-bootstrap-in-msg-count",
        "send-bootstrap-interval-in-sec",
        "send-bootstrap-to-all-partition",
        "terminator",
        "transaction-atomicity",
    }
)
"""[sink]"""

CLOUD_STORAGE_KEYS = frozenset(
    {
        "file-cleanup-cron-spec",
        "file-expiration-days",
        "file-size",
        "flush-concurrency",
        "flush-interval",
        "output-column-id",
        "output-raw-change-event",
        "use-table-id-as-path",
        "worker-count",
    }
)
"""[sink.cloud-storage-config]"""

FILTER_KEYS = frozenset(
    {
        "event-filters",
        "ignore-dbs",
        "ignore-tables",
        "ignore-txn-commit-ts",
        "ignore-txn-start-ts",
        "rules",
    }
)
"""[filter]"""

EFFECTS = {
    (
        "[filter]",
        "event-filters",
    ): "TiCDC does not write the rows and statements that they name: the replica lacks them",
    ("[filter]", "ignore-txn-start-ts"): "TiCDC does not write these transactions: the replica lacks them",
    ("[filter]", "ignore-txn-commit-ts"): "TiCDC does not write these transactions: the replica lacks them",
    ("[filter]", "ignore-dbs"): "TiCDC does not write these databases: the replica lacks them",
    ("[filter]", "ignore-tables"): "TiCDC does not write these tables: the replica lacks them",
    ("[sink]", "column-selectors"): "rows have the selected columns only: others keep what the target has, or defaults",
    ("[sink]", "dispatchers"): "they route tables: the files, and so the replica, have the names after routing",
}
"""Effects of keys of the changefeed's file on the files that it writes."""

QUEUE_KEYS = frozenset({"matcher", "dispatcher", "partition", "topic", "index", "columns"})
"""What a dispatcher says to a message queue alone."""
