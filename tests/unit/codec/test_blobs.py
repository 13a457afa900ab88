"""Bytes as code points, and as hexadecimal digits."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from consumer.codec.values import base64_to_binary, binary_to_hex, hex_to_binary, latin1_to_binary
from consumer.errors import CorruptFile

EVERY = bytes(range(256))
VALUES = st.lists(st.none() | st.binary(max_size=9) | st.just(EVERY), max_size=12)
CUTS = st.tuples(st.integers(0, 12), st.integers(0, 12))


@settings(max_examples=300, deadline=None)
@given(VALUES, CUTS, st.booleans())
def test_both_ways_on_any_slice(values: list[bytes | None], cut: tuple[int, int], large: bool) -> None:
    texts = [None if value is None else value.decode("latin-1") for value in values]
    text = pa.array(texts, pa.large_string() if large else pa.string()).slice(*cut)
    expected = values[cut[0] : cut[0] + cut[1]]

    binary = latin1_to_binary(text)
    binary.validate(full=True)
    assert binary.type == (pa.large_binary() if large else pa.binary())
    assert binary.to_pylist() == expected
    assert binary.null_count == expected.count(None)

    for array in (binary, pa.array(values, binary.type).slice(*cut)):
        hexed = binary_to_hex(array)
        hexed.validate(full=True)
        assert hexed.type == (pa.large_string() if large else pa.string())
        assert hexed.to_pylist() == [None if value is None else value.hex().upper() for value in expected]


@pytest.mark.parametrize("text", ["Ā", "ÿĀ", "\u07ff", "\u0800", "\uffff", "😀"])
@pytest.mark.parametrize("before", [[], ["ÿ", None, "a"]])
def test_a_character_above_a_byte(text: str, before: list[str | None]) -> None:
    with pytest.raises(CorruptFile, match=r"U\+00FF"):
        latin1_to_binary(pa.array([*before, text]))


def test_what_lies_outside_a_slice_does_not_matter() -> None:
    assert latin1_to_binary(pa.array(["Ā", "ÿ", "Ā"]).slice(1, 1)).to_pylist() == [b"\xff"]


def test_ascii_is_not_copied() -> None:
    text = pa.array(["abc", None, "d"])
    assert latin1_to_binary(text).buffers()[2].address == text.buffers()[2].address


@pytest.mark.parametrize(
    ("convert", "from_type", "to_type"),
    [
        (latin1_to_binary, pa.string(), pa.binary()),
        (binary_to_hex, pa.binary(), pa.string()),
        (latin1_to_binary, pa.large_string(), pa.large_binary()),
    ],
)
def test_no_values(convert: Callable[[pa.Array], pa.Array], from_type: pa.DataType, to_type: pa.DataType) -> None:
    for array in (pa.array([], from_type), pa.nulls(3, from_type), pa.array(["", ""], from_type)):
        found = convert(array)
        found.validate(full=True)
        assert found.type == to_type
        assert found.null_count == array.null_count
        assert len(found) == len(array)


@settings(max_examples=200, deadline=None)
@given(VALUES, CUTS)
def test_base64_and_hexadecimal_digits(values: list[bytes | None], cut: tuple[int, int]) -> None:
    for decode, encode in ((base64_to_binary, base64.b64encode), (hex_to_binary, binascii.hexlify)):
        encoded = pa.array([None if value is None else encode(value) for value in values], pa.binary()).slice(*cut)
        decoded = decode(encoded)
        decoded.validate(full=True)
        assert decoded.to_pylist() == values[cut[0] : cut[0] + cut[1]]


@pytest.mark.parametrize(
    "text", [b"A", b"AA", b"AAA", b"A===", b"AA=A", b"=AAA", b"AA==AA==", b"A A=", b"AA=\n", b"A-_=", b"====", b"A=A="]
)
def test_what_is_not_base64_is_refused(text: bytes) -> None:
    with pytest.raises(CorruptFile, match="base64"):
        base64_to_binary(pa.array([b"AAAA", text, b"AAAA"], pa.binary()))


@pytest.mark.parametrize("text", [b"0", b"0g", b" 00 ", b"AAAA"])
def test_what_is_not_hexadecimal_is_refused(text: bytes) -> None:
    with pytest.raises(CorruptFile, match="hex"):
        hex_to_binary(pa.array([b"00", text, text], pa.binary()))
