"""Labels of ENUM and SET as numbers."""

from __future__ import annotations

import pyarrow as pa
import pytest

from consumer.codec.values import enum_numbers, set_numbers
from consumer.errors import CorruptFile
from consumer.model.columns import labels_of, mislabelled

LABELS = ["a", "b,", "", "日"]


def test_enum() -> None:
    labels = pa.array(["日", None, "b,", "", "a", "日"])
    assert enum_numbers(labels, LABELS).to_pylist() == ["4", None, "2", "3", "1", "4"]


def test_set() -> None:
    elements = [f"x{n}" for n in range(64)]
    values = pa.array(["x0,x2", None, "", "x63", ",".join(elements)])
    assert set_numbers(values, elements).to_pylist() == ["5", None, "0", str(2**63), str(2**64 - 1)]


def test_a_slice() -> None:
    assert enum_numbers(pa.array(["x", "a", None])[1:], LABELS).to_pylist() == ["1", None]


def test_a_label_that_is_not_there() -> None:
    with pytest.raises(CorruptFile, match="'A' is none of ENUM"):
        enum_numbers(pa.array(["a", "A"]), LABELS)
    with pytest.raises(CorruptFile, match="'y' is none of SET"):
        set_numbers(pa.array(["x,y"]), ["x"])


@pytest.mark.parametrize(
    ("type_", "expected"),
    [
        ("enum('a','b')", ("a", "b")),
        ("SET('it''s','a,b','')", ("it's", "a,b", "")),
        (r"enum('back\\slash','it\'s')", ("back\\slash", "it's")),
        ("enum('a)','(b')", ("a)", "(b")),
        ("enum('日','b😀') charset utf8mb4", ("日", "b😀")),
        ("enum", ()),
        ("varchar(255)", ()),
    ],
)
def test_labels_that_a_type_tells(type_: str, expected: tuple[str, ...]) -> None:
    assert labels_of(type_) == expected


@pytest.mark.parametrize(
    ("upstream", "there", "wrong"),
    [
        (["a", "b"], ["a", "b"], False),
        (["a "], ["a", "more"], False),
        (["a", "b"], ["b", "a"], True),
        (["a", "b"], ["a"], True),
    ],
)
def test_labels_elsewhere(upstream: list[str], there: list[str], wrong: bool) -> None:
    assert bool(mislabelled(upstream, there)) is wrong
