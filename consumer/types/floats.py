"""FLOAT and DOUBLE travel as their shortest decimal text, in CSV with an exponent where they are large or small.

The text of a FLOAT, a 32-bit value, is as a double another number.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from consumer.errors import CorruptFile

_SCIENTIFIC = r"^(?P<sign>-?)(?P<whole>[0-9])(?:\.(?P<fraction>[0-9]+))?e\+?(?P<exponent>-?[0-9]{1,3})$"


def float32_exact(values: pa.Array) -> pa.StringArray:
    """The shortest text of the double that equals each float32 exactly; null stays null.

    A server reads a literal as a double first: FLT_MAX's own shortest text, 3.4028235e38, is above FLT_MAX then and is
    refused in strict mode. Raises CorruptFile for text that is not a finite float32.
    """
    try:
        doubles = pc.cast(pc.cast(values, pa.float32()), pa.float64())
    except pa.ArrowInvalid as error:
        raise _not_a_float(str(error)) from error
    if pc.all(pc.is_finite(doubles)).as_py() is False:
        raise _not_a_float(f"{values.filter(pc.invert(pc.is_finite(doubles)))[0].as_py()!r} is no finite FLOAT")
    return pc.cast(doubles, pa.string())


def without_exponent(values: pa.StringArray) -> pa.StringArray:
    """``1.5e+06`` as ``1500000``, ``-1e-05`` as ``-0.00001``; texts without exponent and nulls stay as they are.

    Raises CorruptFile for an exponent that no double has.
    """
    rows = np.flatnonzero(pc.match_substring(values, "e").fill_null(False).to_numpy(zero_copy_only=False))
    if not rows.size:
        return values
    parts = pc.extract_regex(values.take(pa.array(rows)), _SCIENTIFIC)
    if parts.null_count:
        raise _not_a_float(repr(values[int(rows[_first_null(parts)])].as_py()))
    exponents = parts.field("exponent").cast(pa.int16()).to_numpy()
    texts = [
        _shifted(parts.filter(pa.array(exponents == exponent)), int(exponent)) for exponent in np.unique(exponents)
    ]
    order = np.argsort(np.argsort(exponents, kind="stable"), kind="stable")
    mask = np.zeros(len(values), np.bool_)
    mask[rows] = True
    return pc.replace_with_mask(values, pa.array(mask), pa.concat_arrays(texts).take(pa.array(order)))


def _shifted(parts: pa.StructArray, exponent: int) -> pa.StringArray:
    """`whole`, one digit, and `fraction` times ten to the `exponent`."""
    sign, whole, fraction = (parts.field(name) for name in ("sign", "whole", "fraction"))
    if exponent < 0:
        return pc.binary_join_element_wise(sign, "0." + "0" * (-exponent - 1), whole, fraction, "")
    digits = pc.utf8_rpad(fraction, exponent, "0")
    rest = pc.utf8_slice_codeunits(digits, exponent)
    point = pc.if_else(pc.equal(rest, ""), "", ".")
    return pc.binary_join_element_wise(sign, whole, pc.utf8_slice_codeunits(digits, 0, exponent), point, rest, "")


def _first_null(values: pa.Array) -> int:
    return int(np.argmax(values.is_null().to_numpy(zero_copy_only=False)))


def _not_a_float(what: str) -> CorruptFile:
    return CorruptFile(
        f"a FLOAT column holds what is not such a value: {what}",
        hint="the data file is damaged, or its schema file does not belong to it",
    )
