"""ENUM and SET: CSV writes their labels; everything else wants their numbers."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pyarrow as pa

from consumer.errors import CorruptFile


def enum_numbers(labels: pa.StringArray, elements: Sequence[str]) -> pa.StringArray:
    """The place of each label among `elements`, from 1; null stays null. Raises CorruptFile for any other label."""
    numbers = {label: str(number) for number, label in enumerate(elements, 1)}
    return _each_distinct(labels, lambda label: numbers[label], "ENUM", elements)


def set_numbers(labels: pa.StringArray, elements: Sequence[str]) -> pa.StringArray:
    """The bits of the labels that are set, the first element's being 1; null stays null.

    Raises CorruptFile for any other label.
    """
    bits = {label: 1 << place for place, label in enumerate(elements)}
    return _each_distinct(
        labels, lambda text: str(sum(bits[label] for label in text.split(",") if text)), "SET", elements
    )


def _each_distinct(
    labels: pa.StringArray, number: Callable[[str], str], type_: str, elements: Sequence[str]
) -> pa.StringArray:
    encoded = labels.dictionary_encode()
    numbers = []
    for text in encoded.dictionary.to_pylist():
        try:
            numbers.append(number(text))
        except KeyError as error:
            raise CorruptFile(
                f"the label {error.args[0]!r} is none of {type_}({', '.join(map(repr, elements))})",
                hint="the target's column must have the labels that upstream's has, in the same order: alter it, then"
                " run again",
            ) from error
    return pa.array(numbers, pa.string()).take(encoded.indices)
