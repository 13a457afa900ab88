"""TIMESTAMPs: the files have the changefeed's local time, targets get UTC."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from consumer.errors import CorruptFile
from consumer.model.times import Clock

_SECONDS = len("2006-01-02 15:04:05")
_ZERO = "0000-00-00"
_TZ = (
    "the changefeed has another time zone (that of the TiCDC server, unless its --tz says otherwise): fill an empty"
    " target under another --name with --tz set to it"
)
_NOWHERE = np.iinfo(np.int64).min


def to_utc(texts: pa.Array, clock: Clock) -> pa.Array:
    """Local times, texts of either size, -> UTC, with the fraction digits that they have; null and
    '0000-00-00 00:00:00' stay.

    Raises CorruptFile for what is no time, or none that the clock ever showed.
    """
    if clock.is_utc or texts.null_count == len(texts):
        return texts
    zero = pc.starts_with(texts, _ZERO)
    local = pc.if_else(zero, None, pc.utf8_slice_codeunits(texts, 0, _SECONDS))
    try:
        seconds = pc.cast(pc.cast(local, pa.timestamp("s")), pa.int64())
    except pa.ArrowInvalid as error:
        raise CorruptFile("a value is not a time") from error
    known = seconds.is_valid().to_numpy(zero_copy_only=False)
    at = pc.fill_null(seconds, 0).to_numpy()
    offsets = np.array([_NOWHERE if offset is None else offset for offset in clock.offsets], np.int64)
    offset = offsets[np.searchsorted(np.array(clock.starts, np.int64), at, side="right")]
    if np.any(missing := known & (offset == _NOWHERE)):
        wrong = texts[int(np.argmax(missing))].as_py()
        raise CorruptFile(f"the clocks of {clock.name} were turned forward over '{wrong}'", hint=_TZ)
    moved = pc.cast(pc.cast(pa.array(at - offset, mask=~known), pa.timestamp("s")), texts.type)
    utc = pc.binary_join_element_wise(moved, pc.utf8_slice_codeunits(texts, _SECONDS), pa.scalar("", texts.type))
    return pc.if_else(zero, texts, utc)
