"""The query parameters of a sink URI, by who reads them."""

from __future__ import annotations

STORAGE_OPTIONS = {
    "file": frozenset[str](),
    "s3": frozenset(
        {
            "endpoint",
            "region",
            "access-key",
            "secret-access-key",
            "session-token",
            "force-path-style",
            "use-accelerate-endpoint",
            "profile",
            "provider",
            "role-arn",
            "external-id",
            "storage-class",
            "sse",
            "sse-kms-key-id",
            "acl",
            "object-lock-enabled",
        }
    ),
    "gcs": frozenset({"endpoint", "credentials-file", "storage-class", "predefined-acl"}),
    "azblob": frozenset(
        {
            "endpoint",
            "account-name",
            "account-key",
            "sas-token",
            "access-tier",
            "encryption-scope",
            "encryption-key",
        }
    ),
}
"""How each kind of storage is reached; those that only say how objects are written change nothing for a reader."""

SECRETS = frozenset(
    {
        "access-key",
        "secret-access-key",
        "session-token",
        "account-key",
        "sas-token",
        "encryption-key",
        "schema-registry",
    }
)
"""Whose values are never shown; a registry's address can carry a login."""

CHANGEFEED_PARAMETERS = frozenset(
    {
        # the storage sink
        "protocol",
        "terminator",
        "date-separator",
        "enable-partition-separator",
        "output-column-id",
        "worker-count",
        "flush-interval",
        "flush-concurrency",
        "file-size",
        "file-index-digit",
        "file-index-width",
        "file-expiration-days",
        "file-cleanup-cron-spec",
        "spool-disk-quota",
        "spool-dir",
        "enable-table-across-nodes",
        "use-table-id-as-path",
        "output-raw-change-event",
        "transaction-atomicity",
        "enable-old-value",
        # the codecs
        "enable-tidb-extension",
        "output-row-key",
        "only-output-updated-columns",
        "delete-only-output-handle-key-columns",
        "content-compatible",
        "max-batch-size",
        "max-message-bytes",
        "schema-registry",
        "encoding-format",
        "avro-decimal-handling-mode",
        "avro-bigint-unsigned-handling-mode",
        "avro-include-before-value",
        "avro-enable-watermark",
        "debezium-disable-schema",
        "debezium-include-start-ts",
        "debezium-decimal-handling-mode",
        "debezium-bigint-unsigned-handling-mode",
        "debezium-binary-handling-mode",
        "simple-include-start-ts",
        # those of message queues: accepted, of no effect
        "kafka-version",
        "kafka-client-id",
        "partition-num",
        "replication-factor",
        "compression",
        "auto-create-topic",
        "required-acks",
        "dial-timeout",
        "read-timeout",
        "write-timeout",
    }
)
"""What TiCDC takes in the URI of a storage sink beside the storage's own options."""
