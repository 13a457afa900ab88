"""Many lines are followed through one template at once, by Arrow's and numpy's kernels.

The many texts of wide rows are found in all rows at once: where a block has few rows, the calls for each text would
cost more than the work.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from consumer.codec.canal_json.template import Bag, Fixed, Path, Piece, Text, Texts
from consumer.codec.change_table import Flags, Ints

_LINE_FEED, _RETURN, _QUOTE, _COLON, _BACKSLASH, _BRACE, _ZERO = b'\n\r":\\}0'
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


_FIRST_PRINTED = 0x20
_BITS = 6
_FEW_WORDS = 16
_LEAST_BETWEEN = 16
Octets = npt.NDArray[np.uint8]


class Lines:
    """The lines of a block, each ended by a newline: where they begin and end.

    A line is `plain` if it has no backslash and no control character but CR at its end: so each quote is an end of a
    text.
    """

    @staticmethod
    def of(text: bytes) -> Lines | None:
        """None for a block that has a control character in every few: they may be all that it has."""
        control = np.frombuffer(text, np.uint8) < _FIRST_PRINTED
        few = _LEAST_BETWEEN * np.count_nonzero(control) <= len(text)
        return Lines(text, np.flatnonzero(control)) if few else None

    def __init__(self, text: bytes, controls: Ints) -> None:
        self.text = text
        self.ascii = text.isascii()
        self.content = np.frombuffer(text, np.uint8)
        is_end = self.content[controls] == _LINE_FEED
        self.ends: Ints = controls[is_end]
        self.begins: Ints = np.concatenate(([0], self.ends[:-1] + 1))
        others = controls[~is_end]
        is_return = (self.content[others] == _RETURN) & (self.content[others + 1] == _LINE_FEED)
        self._marks: dict[int, npt.NDArray[np.uint64]] = {}
        self.plain: Flags = np.ones(len(self.ends), np.bool_)
        if b"\\" in text:
            self.plain = self.next(_BACKSLASH, self.begins, self.ends) >= self.ends
        self.plain[np.searchsorted(self.ends, others[~is_return])] = False

    def line(self, number: int) -> bytes:
        """Without its newline."""
        return self.text[self.begins[number] : self.ends[number]]

    def spans(self, begins: Ints, ends: Ints, null: Flags | None = None) -> pa.LargeStringArray:
        """The texts between these places, which rise; they need not be UTF-8."""
        count = len(begins)
        if not count:
            return pa.array([], pa.large_string())
        return with_gaps(pa.py_buffer(self.text), begins, ends).take(pa.array(np.arange(0, 2 * count, 2), mask=null))

    def next(self, byte: int, at: Ints, ends: Ints) -> Ints:
        """Where that byte is first, at or behind each of these places; one not below `ends` where it is not there."""
        marks = self._marks_of(byte)
        word = at >> _BITS
        bits = marks[word] >> (at & ((1 << _BITS) - 1)).astype(np.uint64)
        places: Ints = at + _lowest(bits)
        left = np.flatnonzero(bits == 0)
        for _ in range(_FEW_WORDS):
            if not left.size:
                return places
            word[left] += 1
            bits = marks[word[left]]
            places[left] = (word[left] << _BITS) + _lowest(bits)
            left = left[bits == 0]
        for row, place, end in zip(left.tolist(), at[left].tolist(), ends[left].tolist(), strict=True):
            found = self.text.find(byte, place, end)
            places[row] = end if found < 0 else found
        return places

    def _marks_of(self, byte: int) -> npt.NDArray[np.uint64]:
        """A bit for each place, 64 a word: whether the byte is there. The one behind the last is set."""
        if byte not in self._marks:
            size = len(self.text)
            packed = np.zeros(((size >> _BITS) + 1) << 3, np.uint8)
            bits = np.packbits(self.content == byte, bitorder="little")
            packed[: len(bits)] = bits
            packed[size >> 3] |= 1 << (size & 7)
            self._marks[byte] = packed.view("<u8")
        return self._marks[byte]


def _lowest(bits: npt.NDArray[np.uint64]) -> Octets:
    """The number of the lowest bit that is set."""
    lowest: Octets = np.bitwise_count(~bits & (bits - np.uint64(1)))
    return lowest


class Walk:
    """Those of some `rows` of `lines` that have a form."""

    def __init__(self, lines: Lines, rows: Ints, form: Sequence[Piece]) -> None:
        self._lines = lines
        self.rows = rows
        self._at: Ints = lines.begins[rows]
        self._digits: dict[Path, Octets] = {}
        self._texts: dict[Path, tuple[Ints, Ints, Flags | None]] = {}
        """Where each begins and ends, and whether it is null (None: none is)."""
        self._many: list[FoundTexts] = []
        for piece in form:
            if self.rows.size:
                match piece:
                    case Fixed():
                        self._pass(piece)
                    case Text():
                        self._pass_text(piece.path)
                    case Texts():
                        self._pass_texts(piece)
                    case Bag():
                        self._pass_bag(piece)
        self._keep(self._at == lines.ends[self.rows])

    def texts(self, paths: Sequence[Path]) -> list[pa.LargeStringArray]:
        """The values of each text; they need not be UTF-8. Nulls where the form has none there."""
        found: dict[Path, pa.LargeStringArray] = {}
        for many in self._many:
            found |= many.columns(paths)
        return [found[path] if path in found else self._text(path) for path in paths]

    def _text(self, path: Path) -> pa.LargeStringArray:
        if path not in self._texts:
            return pa.nulls(len(self.rows), pa.large_string())
        return self._lines.spans(*self._texts[path])

    def number(self, path: Path) -> Ints:
        values = np.zeros(len(self.rows), np.int64)
        for digits in self._digits[path].T:
            values = values * 10 + digits
        return values

    def _keep(self, good: Flags) -> None:
        """Drop all other rows."""
        if good.all():
            return
        self.rows, self._at = self.rows[good], self._at[good]
        self._digits = {path: digits[good] for path, digits in self._digits.items()}
        self._texts = {
            path: (begins[good], ends[good], None if null is None else null[good])
            for path, (begins, ends, null) in self._texts.items()
        }
        for many in self._many:
            many.keep(good)

    def _bytes(self, length: int) -> Octets:
        """The next bytes of each row: an array of (rows, length). They are 0 where the block has not so many."""
        last = len(self._lines.text) - length
        if last < 0:
            return np.zeros((len(self._at), length), np.uint8)
        windows = np.ndarray((last + 1,), f"V{length}", self._lines.text, 0, (1,))
        found = windows[np.minimum(self._at, last)].view(np.uint8).reshape(-1, length)
        if self._at[-1] > last:
            found[self._at > last] = 0
        return found

    def _pass(self, piece: Fixed) -> None:
        found = self._bytes(len(piece.text))
        good = np.ones(len(found), np.bool_)
        for path, (begin, end) in piece.numbers.items():
            digits = found[:, begin:end] - np.uint8(_ZERO)
            good &= _all(digits <= 9)
            if end - begin > 1:
                good &= digits[:, 0] > 0
            self._digits[path] = digits
            found[:, begin:end] = np.frombuffer(piece.text, np.uint8)[begin:end]
        self._at = self._at + len(piece.text)
        self._keep(good & _equal(found, piece.text))

    def _pass_text(self, path: Path) -> None:
        quoted = self._lines.content[self._at] == _QUOTE
        if not quoted.all():
            self._keep(quoted | _equal(self._bytes(4), b"null"))
            quoted = self._lines.content[self._at] == _QUOTE
        ends = self._lines.ends[self.rows]
        closing = self._lines.next(_QUOTE, self._at + 1, ends)
        good = ~quoted | (closing < ends)
        if not good.all():
            self._keep(good)
            quoted, closing = quoted[good], closing[good]
        if quoted.all():
            self._texts[path] = self._at + 1, closing, None
            self._at = closing + 1
        else:
            self._texts[path] = self._at + 1, np.where(quoted, closing, self._at + 1), ~quoted
            self._at = np.where(quoted, closing + 1, self._at + 4)

    def _pass_texts(self, texts: Texts) -> None:
        while self.rows.size:
            quotes, begins, text = self._objects(self._lines.ends[self.rows])
            good, found = find_texts(texts, text, quotes, begins)
            if found is not None:
                self._at = self._at + found.behind - begins[:-1]
                self._many.append(found)
                return
            self._keep(good)

    def _pass_bag(self, bag: Bag) -> None:
        alike = self._lines.text.startswith(bag.text, int(self._at[0]))
        if alike or bag.orders:
            found = self._bytes(len(bag.text))
            if (alike and _equal(found, bag.text).all()) or bag.all_known(found):
                self._at = self._at + len(bag.text)
                return
        ends = self._lines.ends[self.rows]
        behind = self._lines.next(_BRACE, self._at, ends) + 1
        good = behind <= ends
        self._keep(good)
        behind = behind[good]
        while self.rows.size:
            quotes, begins, text = self._objects(behind)
            good = np.diff(np.searchsorted(quotes, begins)) == bag.count * bag.quotes
            if good.all():
                break
            self._keep(good)
            behind = behind[good]
        else:
            return
        seconds = quotes.reshape(-1, bag.count * bag.quotes)[:, bag.quotes :: bag.quotes]
        offsets = np.append(np.column_stack((begins[:-1], seconds)).ravel(), begins[-1])
        buffers = [None, pa.py_buffer(offsets), text]
        good = bag.has_each(pa.LargeBinaryArray.from_buffers(pa.large_binary(), len(offsets) - 1, buffers))
        bag.learn(self._lines.spans(self._at[good], behind[good]))
        self._at = behind
        self._keep(good)

    def _objects(self, ends: Ints) -> tuple[Ints, Ints, pa.Buffer]:
        """The text up to `ends`: where it has quotes; where each row begins in it, and the last one ends; the text."""
        _, begins, text = self._lines.spans(self._at, ends).buffers()
        quotes = np.flatnonzero(np.frombuffer(text, np.uint8) == _QUOTE)
        return quotes, np.frombuffer(begins, np.int64)[: len(ends) + 1], text


def _equal(found: Octets, text: bytes) -> Flags:
    """Which rows of `found` are `text`."""
    return _all(found == np.frombuffer(text, np.uint8))


def _all(flags: npt.NDArray[np.bool_]) -> Flags:
    """Which rows are all true: mostly all, which is seen at once."""
    if flags.all():
        return np.ones(len(flags), np.bool_)
    every: Flags = np.all(flags, axis=1)
    return every
