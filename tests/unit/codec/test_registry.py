"""Arrow types of columns."""

from __future__ import annotations

import pyarrow as pa
import pytest

from consumer.codec.change_table import arrow_type
from consumer.model.columns import Column


@pytest.mark.parametrize("name", ["BINARY", "VARBINARY", "TINYBLOB", "BLOB", "MEDIUMBLOB", "LONGBLOB"])
def test_bytes_for_binary_columns(name: str) -> None:
    assert arrow_type(Column("c", name)) == pa.large_binary()


@pytest.mark.parametrize(
    "name",
    ["INT", "BIGINT", "DECIMAL", "FLOAT", "DOUBLE", "BIT", "YEAR", "LONGTEXT", "ENUM", "SET", "DATE", "JSON", "TIME"],
)
def test_text_for_all_others(name: str) -> None:
    assert arrow_type(Column("c", name)) == pa.large_string()


def test_a_type_that_ticdc_does_not_write() -> None:
    with pytest.raises(KeyError):
        arrow_type(Column("c", "GEOMETRY"))
