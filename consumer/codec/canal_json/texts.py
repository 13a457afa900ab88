"""The many texts of wide rows, found in all rows at once: where a block has few rows, the calls for each text would
cost more than the work."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from consumer.codec.batches import Flags, Ints
from consumer.codec.canal_json.forms import Path, Texts

_QUOTE, _COLON = b'":'
_NULL = b"null"


@dataclass(slots=True)
class FoundTexts:
    """Of each row (first axis) and text (second axis) of `places` where it begins and ends in `text`, without quotes,
    and whether it is in quotes, else null."""

    places: dict[Path, int]
    text: pa.Buffer
    begins: Ints
    ends: Ints
    quoted: Flags

    @property
    def behind(self) -> Ints:
        """Where each row goes on behind the last text."""
        behind: Ints = self.ends[:, -1] + self.quoted[:, -1]
        return behind

    def keep(self, good: Flags) -> None:
        """Drop all other rows."""
        self.begins, self.ends, self.quoted = self.begins[good], self.ends[good], self.quoted[good]

    def columns(self, paths: Sequence[Path]) -> dict[Path, pa.LargeStringArray]:
        """The values of those of `paths` that are here; they need not be UTF-8."""
        if not (there := [path for path in paths if path in self.places]):
            return {}
        rows, width = self.begins.shape
        at = (np.array([self.places[path] for path in there])[:, None] + np.arange(rows) * width).ravel()
        null = None if self.quoted.all() else ~self.quoted.ravel()[at]
        values = with_gaps(self.text, self.begins, self.ends).take(pa.array(2 * at, mask=null))
        return {path: values.slice(number * rows, rows) for number, path in enumerate(there)}


def find_texts(texts: Texts, text: pa.Buffer, quotes: Ints, begins: Ints) -> tuple[Flags, FoundTexts | None]:
    """Which rows have all of `texts` at their beginning, and where, if all rows do.

    `begins` says where each row begins in `text`, and where the last one ends; `quotes` where there is a quote, none of
    them inside of a text. So they open and close strings by turns. A name is a string with a colon behind it.
    """
    content, last = np.frombuffer(text, np.uint8), len(text) - 1
    strings = np.searchsorted(quotes, begins)
    good: Flags = np.diff(strings) % 2 == 0
    if not good.all():
        return good, None
    closes, strings = quotes[1::2], strings[:-1] // 2
    names = np.flatnonzero(content[np.minimum(closes + 1, last)] == _COLON)
    first_names, between = np.searchsorted(names, strings), len(texts.between)
    good = first_names + between <= np.append(first_names[1:], len(names))
    if not good.all():
        return good, None
    names = names[first_names[:, None] + np.arange(between)]
    at = np.column_stack((begins[:-1], np.minimum(closes[names] + 2, last)))
    own = np.column_stack((strings, np.minimum(names + 1, len(closes) - 1)))
    quoted: Flags = content[at] == _QUOTE
    ends = np.where(quoted, closes[own] + 1, at + len(_NULL))
    good = ends[:, -1] <= begins[1:]
    good &= np.all(at[:, 1:] - ends[:, :-1] == np.array([len(one) for one in texts.between]), axis=1)
    if good.all() and not quoted.all():
        null = content[at[~quoted][:, None] + np.arange(len(_NULL))] == np.frombuffer(_NULL, np.uint8)
        good[np.nonzero(~quoted)[0][~null.all(axis=1)]] = False
    if good.all():
        good = _have(text, ends[:, :-1], at[:, 1:], b"".join(texts.between))
    if not good.all():
        return good, None
    places = {path: place for place, path in enumerate(texts.paths)}
    return good, FoundTexts(places, text, at + quoted, ends - quoted, quoted)


def _have(text: pa.Buffer, begins: Ints, ends: Ints, wanted: bytes) -> Flags:
    """Which rows have `wanted` in their spans, which have as many bytes."""
    spans = with_gaps(text, begins, ends).take(pa.array(np.arange(0, 2 * begins.size, 2)))
    found: npt.NDArray[np.uint8] = np.frombuffer(spans.buffers()[2], np.uint8).reshape(len(begins), len(wanted))
    equal: Flags = np.all(found == np.frombuffer(wanted, np.uint8), axis=1)
    return equal


def with_gaps(text: pa.Buffer, begins: Ints, ends: Ints) -> pa.LargeStringArray:
    """The texts between these places, which rise, are at the even places of an array."""
    borders = np.stack((begins, ends), axis=-1)
    return pa.LargeStringArray.from_buffers(2 * begins.size - 1, pa.py_buffer(borders), text)
