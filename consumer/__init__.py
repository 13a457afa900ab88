"""TiCDC storage-sink consumer.

storage/reader     C, then what is new                    bytes in an object store
pipeline/manager   a TableConsumer per table              plan/: Step = ApplyDdl | LoadRows | Barrier
pipeline/version_consumer                                 the rows of one DDL interval: one load
spark/load         files -> decode -> fold -> write       codec/, changes/, sink/<target>/rows on executors
sink/<target>      publish what was written + progress    one transaction
"""

__version__ = "0.1.0"
