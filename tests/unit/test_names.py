"""Names that TiDB takes for one: it lowers each character by itself."""

from __future__ import annotations

import pytest

from consumer.model.names import TableName


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("Shop", "shop", True),
        ("ΑΣ", "ασ", True),
        ("ΑΣ", "ας", False),  # in words, Python ends with another sigma
        ("ſhop", "shop", False),
        ("straße", "strasse", False),
    ],
)
def test_what_is_one_name(one: str, other: str, same: bool) -> None:
    assert (TableName("d", one).folded == TableName("d", other).folded) is same
    assert (TableName(one, "t").folded == TableName(other, "t").folded) is same
