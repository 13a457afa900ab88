"""Every type with values at its limits, as canal-JSON and CSV write them and as each target must hold them.

Written by hand from the format and from MySQL's rules, never from what the program makes of them.
"""

from __future__ import annotations

from tests.support.type_cases.case import TypeCase, Value
from tests.support.type_cases.numbers import BITS_AND_YEARS, DECIMALS, INTEGERS, REALS
from tests.support.type_cases.texts import BYTES, DOCUMENTS, LABELS, TEXTS
from tests.support.type_cases.times import DATES, TIMES, TIMESTAMPS, ZONE

__all__ = ["FAMILIES", "ZONE", "TypeCase", "Value"]

FAMILIES: dict[str, tuple[TypeCase, ...]] = {
    "integers": INTEGERS,
    "bits and years": BITS_AND_YEARS,
    "decimals": DECIMALS,
    "floating point": REALS,
    "texts": TEXTS,
    "bytes": BYTES,
    "labels": LABELS,
    "documents": DOCUMENTS,
    "dates": DATES,
    "timestamps": TIMESTAMPS,
    "times": TIMES,
}
