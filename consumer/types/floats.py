"""FLOAT: a 32-bit value that travels as its shortest decimal text, which as a double is another number."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from consumer.errors import CorruptFile


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


def _not_a_float(what: str) -> CorruptFile:
    return CorruptFile(
        f"a FLOAT column holds what is not such a value: {what}",
        hint="the data file is damaged, or its schema file does not belong to it",
    )
