"""Decode the lines of one file, or say why that failed."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

from consumer.codec.decoder import SliceDecoder
from consumer.errors import ConsumerError
from consumer.model.columns import Column
from consumer.model.load import FileSlice, LoadTarget
from tests.support.canal_json import MemoryReader, as_rows, dialect, target_of, whole

ID = Column("id", "INT", nullable=False, is_pk=True)
V = Column("v", "VARCHAR")
KEYED = target_of([ID, V])
KEYLESS = target_of([ID, V], ())


def file_of(*lines: bytes) -> bytes:
    return b"".join(line + b"\r\n" for line in lines)


def decode(content: bytes, target: LoadTarget = KEYED, piece: FileSlice | None = None, **more: Any) -> list[Any]:
    return as_rows(
        list(SliceDecoder(MemoryReader(content), piece or whole(content), target, dialect(), **more).batches())
    )


def failure(content: bytes, target: LoadTarget = KEYED) -> ConsumerError:
    with pytest.raises(ConsumerError) as caught:
        decode(content, target)
    error = caught.value
    assert (error.table, error.path) == ("d.t", "d/t/1/CDC1.json")
    assert error.hint
    assert pickle.loads(pickle.dumps(error)).as_dict() == error.as_dict()
    return error


def gives_rows_or_an_error(decoder: SliceDecoder, path: str) -> None:
    """Whatever the bytes of `path` are."""
    failed = None
    try:
        for table in decoder.batches():
            table.validate(full=True)
    except ConsumerError as error:
        failed = error
    assert failed is None or (failed.path, bool(failed.hint)) == (path, True)
