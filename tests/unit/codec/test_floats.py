"""FLOAT texts as the doubles that equal them."""

from __future__ import annotations

from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from consumer.codec.values import float32_exact, without_exponent
from consumer.errors import CorruptFile


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


@pytest.mark.parametrize(
    ("written", "plain"),
    [
        ("1e+06", "1000000"),
        ("-1.234567e+06", "-1234567"),
        ("2.097152025e+07", "20971520.25"),
        ("1e-05", "0.00001"),
        ("-1.5e-07", "-0.00000015"),
        ("3.4028235e+38", "340282350000000000000000000000000000000"),
        ("5e-324", "0." + "0" * 323 + "5"),
        ("1.7976931348623157e+308", "17976931348623157" + "0" * 292),
        ("123456.79", "123456.79"),
        ("0", "0"),
    ],
)
def test_exponents_go_away(written: str, plain: str) -> None:
    assert without_exponent(pa.array([None, written, "1e+06", written])).to_pylist() == [None, plain, "1000000", plain]


@settings(max_examples=200, deadline=None)
@given(st.lists(st.none() | st.floats(allow_nan=False, allow_infinity=False), max_size=9), st.integers(0, 3))
def test_texts_without_exponent_are_the_same_numbers(numbers: list[float | None], start: int) -> None:
    values = pa.array([None if n is None else repr(n) for n in numbers], pa.string()).slice(start)
    plain = without_exponent(values)
    assert [None if n is None else Decimal(repr(n)) for n in numbers[start:]] == [
        None if text is None else Decimal(text) for text in plain.to_pylist()
    ]
    assert not any("e" in text for text in plain.to_pylist() if text)


@pytest.mark.parametrize("text", ["1e", "e5", "1.5e+9999", "12e3", "true", "1.e5"])
def test_what_is_no_float_is_refused(text: str) -> None:
    with pytest.raises(CorruptFile, match="FLOAT"):
        without_exponent(pa.array(["1e+06", text]))
