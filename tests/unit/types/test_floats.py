"""FLOAT texts as the doubles that equal them."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from consumer.errors import CorruptFile
from consumer.types.floats import float32_exact


@pytest.mark.parametrize(
    ("text", "double"),
    [
        ("340282350000000000000000000000000000000", 3.4028234663852886e38),
        ("-340282350000000000000000000000000000000", -3.4028234663852886e38),
        ("0.1", 0.10000000149011612),
        ("16777216", 16777216.0),
        ("0.000000000000000000000000000000000000000000001", 1.401298464324817e-45),
        ("0.000000000000000000000000000000000000011754944", 1.1754943508222875e-38),
        ("0", 0.0),
        ("-1.5", -1.5),
    ],
)
def test_known_values(text: str, double: float) -> None:
    assert [float(found) for found in float32_exact(pa.array([text])).to_pylist()] == [double]


@settings(max_examples=500, deadline=None)
@given(st.lists(st.none() | st.floats(width=32, allow_nan=False, allow_infinity=False), max_size=20))
def test_the_text_is_the_float32(values: list[float | None]) -> None:
    # nine digits tell any two float32 apart, as the shortest text does
    texts = [None if value is None else f"{value:.9g}" for value in values]
    found = float32_exact(pa.array(texts, pa.string()))
    assert found.type == pa.string()
    assert [None if text is None else float(text) for text in found.to_pylist()] == values


def test_slices_keep_their_place() -> None:
    assert float32_exact(pa.array(["x", "0.5", None, "y"]).slice(1, 2)).to_pylist() == ["0.5", None]


@pytest.mark.parametrize("text", ["", "x", "nan", "inf", "-inf", "1e39", "1,5"])
def test_no_float(text: str) -> None:
    with pytest.raises(CorruptFile, match="FLOAT"):
        float32_exact(pa.array(["1", None, text]))
