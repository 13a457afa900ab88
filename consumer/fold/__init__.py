"""Change tables -> the changes that decide. Pure functions of Arrow tables; executors import this package."""

from consumer.fold.keyed import bucket_of, fold_keyed, split_by_bucket
from consumer.fold.keyless import FileChanges, fold_keyless

__all__ = ["FileChanges", "bucket_of", "fold_keyed", "fold_keyless", "split_by_bucket"]
