"""Follows many lines through one template at once, by Arrow's and numpy's kernels.

The many texts of wide rows are located in all rows at once: in a block with few rows, calls for each text would cost
more than the work.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from consumer.codec.canal_json.template import Bag, Fixed, FormPiece, Path, Text, Texts
from consumer.codec.change_table import Flags, Ints

_LINE_FEED, _RETURN, _QUOTE, _COLON, _BACKSLASH, _BRACE, _ZERO = b'\n\r":\\}0'
_NULL = b"null"


@dataclass(slots=True)
class TextSpans:
    """For each row (first axis) and each text (second axis) of `places`: where it begins and ends in `text`, without
    quotes, and whether it is in quotes, else null."""

    places: dict[Path, int]
    text: pa.Buffer
    begins: Ints
    ends: Ints
    quoted: Flags

    @property
    def behind(self) -> Ints:
        """Where each row continues after the last text."""
        behind: Ints = self.ends[:, -1] + self.quoted[:, -1]
        return behind

    def keep(self, good: Flags) -> None:
        """Drops all other rows."""
        self.begins, self.ends, self.quoted = self.begins[good], self.ends[good], self.quoted[good]

    def columns(self, paths: Sequence[Path]) -> dict[Path, pa.LargeStringArray]:
        """Returns the values of those of `paths` that are in it. They need not be UTF-8."""
        if not (contained := [path for path in paths if path in self.places]):
            return {}
        rows, width = self.begins.shape
        indexes = (np.array([self.places[path] for path in contained])[:, None] + np.arange(rows) * width).ravel()
        null = None if self.quoted.all() else ~self.quoted.ravel()[indexes]
        values = with_gaps(self.text, self.begins, self.ends).take(pa.array(2 * indexes, mask=null))
        return {path: values.slice(number * rows, rows) for number, path in enumerate(contained)}


def locate_texts(texts: Texts, text: pa.Buffer, quotes: Ints, begins: Ints) -> tuple[Flags, TextSpans | None]:
    """Returns which rows have all of `texts` at their beginning, and where, if all rows do.

    `begins` has where each row begins in `text`, and where the last one ends; `quotes` has where there is a quote, none
    of them inside of a text. So they open and close strings in turn. A name is a string followed by a colon.
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
    text_begins = np.column_stack((begins[:-1], np.minimum(closes[names] + 2, last)))
    text_strings = np.column_stack((strings, np.minimum(names + 1, len(closes) - 1)))
    quoted: Flags = content[text_begins] == _QUOTE
    ends = np.where(quoted, closes[text_strings] + 1, text_begins + len(_NULL))
    good = ends[:, -1] <= begins[1:]
    good &= np.all(text_begins[:, 1:] - ends[:, :-1] == np.array([len(text) for text in texts.between]), axis=1)
    if good.all() and not quoted.all():
        null = content[text_begins[~quoted][:, None] + np.arange(len(_NULL))] == np.frombuffer(_NULL, np.uint8)
        good[np.nonzero(~quoted)[0][~null.all(axis=1)]] = False
    if good.all():
        good = _have(text, ends[:, :-1], text_begins[:, 1:], b"".join(texts.between))
    if not good.all():
        return good, None
    numbers = {path: number for number, path in enumerate(texts.paths)}
    return good, TextSpans(numbers, text, text_begins + quoted, ends - quoted, quoted)


def _have(text: pa.Buffer, begins: Ints, ends: Ints, wanted: bytes) -> Flags:
    """Returns which rows have `wanted` in their spans, which have as many bytes."""
    spans = with_gaps(text, begins, ends).take(pa.array(np.arange(0, 2 * begins.size, 2)))
    contents: npt.NDArray[np.uint8] = np.frombuffer(spans.buffers()[2], np.uint8).reshape(len(begins), len(wanted))
    equal: Flags = np.all(contents == np.frombuffer(wanted, np.uint8), axis=1)
    return equal


def with_gaps(text: pa.Buffer, begins: Ints, ends: Ints) -> pa.LargeStringArray:
    """Returns an array whose even elements are the texts between these positions, which rise."""
    borders = np.stack((begins, ends), axis=-1)
    return pa.LargeStringArray.from_buffers(2 * begins.size - 1, pa.py_buffer(borders), text)


_FIRST_PRINTED = 0x20
_BITS = 6
_FEW_WORDS = 16
_LEAST_BETWEEN = 16
Octets = npt.NDArray[np.uint8]


class BlockLines:
    """The lines of a block, each ended by a newline: where they begin and end.

    A line is `plain` if it has no backslash and no control character except CR at its end. Then each quote begins or
    ends a text.
    """

    @staticmethod
    def of(text: bytes) -> BlockLines | None:
        """Returns None for a block with a control character among every few bytes: they may be all that it has."""
        control = np.frombuffer(text, np.uint8) < _FIRST_PRINTED
        few = _LEAST_BETWEEN * np.count_nonzero(control) <= len(text)
        return BlockLines(text, np.flatnonzero(control)) if few else None

    def __init__(self, text: bytes, controls: Ints) -> None:
        self.text = text
        self.ascii = text.isascii()
        self.content = np.frombuffer(text, np.uint8)
        is_end = self.content[controls] == _LINE_FEED
        self.ends: Ints = controls[is_end]
        self.begins: Ints = np.concatenate(([0], self.ends[:-1] + 1))
        other_controls = controls[~is_end]
        is_return = (self.content[other_controls] == _RETURN) & (self.content[other_controls + 1] == _LINE_FEED)
        self._marks: dict[int, npt.NDArray[np.uint64]] = {}
        self.plain: Flags = np.ones(len(self.ends), np.bool_)
        if b"\\" in text:
            self.plain = self.next(_BACKSLASH, self.begins, self.ends) >= self.ends
        self.plain[np.searchsorted(self.ends, other_controls[~is_return])] = False

    def line(self, number: int) -> bytes:
        """Returns a line without its newline."""
        return self.text[self.begins[number] : self.ends[number]]

    def spans(self, begins: Ints, ends: Ints, null: Flags | None = None) -> pa.LargeStringArray:
        """Returns the texts between these positions, which rise. They need not be UTF-8."""
        count = len(begins)
        if not count:
            return pa.array([], pa.large_string())
        return with_gaps(pa.py_buffer(self.text), begins, ends).take(pa.array(np.arange(0, 2 * count, 2), mask=null))

    def next(self, byte: int, at: Ints, ends: Ints) -> Ints:
        """Returns the first position of that byte at or after each of these positions; if there is none, one not below
        `ends`."""
        marks = self._marks_of(byte)
        word = at >> _BITS
        bits = marks[word] >> (at & ((1 << _BITS) - 1)).astype(np.uint64)
        positions: Ints = at + _lowest(bits)
        remaining = np.flatnonzero(bits == 0)
        for _ in range(_FEW_WORDS):
            if not remaining.size:
                return positions
            word[remaining] += 1
            bits = marks[word[remaining]]
            positions[remaining] = (word[remaining] << _BITS) + _lowest(bits)
            remaining = remaining[bits == 0]
        for row, place, end in zip(remaining.tolist(), at[remaining].tolist(), ends[remaining].tolist(), strict=True):
            position = self.text.find(byte, place, end)
            positions[row] = end if position < 0 else position
        return positions

    def _marks_of(self, byte: int) -> npt.NDArray[np.uint64]:
        """Returns a bit for each position, 64 in a word: whether the byte is there. The bit after the last is set."""
        if byte not in self._marks:
            size = len(self.text)
            packed = np.zeros(((size >> _BITS) + 1) << 3, np.uint8)
            bits = np.packbits(self.content == byte, bitorder="little")
            packed[: len(bits)] = bits
            packed[size >> 3] |= 1 << (size & 7)
            self._marks[byte] = packed.view("<u8")
        return self._marks[byte]


def _lowest(bits: npt.NDArray[np.uint64]) -> Octets:
    """Returns the number of the lowest bit that is set."""
    lowest: Octets = np.bitwise_count(~bits & (bits - np.uint64(1)))
    return lowest


class Walk:
    """Those of some `rows` of `lines` that have a form."""

    def __init__(self, lines: BlockLines, rows: Ints, form: Sequence[FormPiece]) -> None:
        self._lines = lines
        self.rows = rows
        self._at: Ints = lines.begins[rows]
        self._digits: dict[Path, Octets] = {}
        self._texts: dict[Path, tuple[Ints, Ints, Flags | None]] = {}
        """Where each text begins and ends, and whether it is null (None: none is)."""
        self._many: list[TextSpans] = []
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
        """Returns the values of each text. They need not be UTF-8, and are null if the form has none there."""
        values: dict[Path, pa.LargeStringArray] = {}
        for spans in self._many:
            values |= spans.columns(paths)
        return [values[path] if path in values else self._text(path) for path in paths]

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
        """Drops all other rows."""
        if good.all():
            return
        self.rows, self._at = self.rows[good], self._at[good]
        self._digits = {path: digits[good] for path, digits in self._digits.items()}
        self._texts = {
            path: (begins[good], ends[good], None if null is None else null[good])
            for path, (begins, ends, null) in self._texts.items()
        }
        for spans in self._many:
            spans.keep(good)

    def _bytes(self, length: int) -> Octets:
        """Returns the next bytes of each row: an array of (rows, length). They are 0 if the block has fewer."""
        last = len(self._lines.text) - length
        if last < 0:
            return np.zeros((len(self._at), length), np.uint8)
        windows = np.ndarray((last + 1,), f"V{length}", self._lines.text, 0, (1,))
        content = windows[np.minimum(self._at, last)].view(np.uint8).reshape(-1, length)
        if self._at[-1] > last:
            content[self._at > last] = 0
        return content

    def _pass(self, piece: Fixed) -> None:
        content = self._bytes(len(piece.text))
        good = np.ones(len(content), np.bool_)
        for path, (begin, end) in piece.numbers.items():
            digits = content[:, begin:end] - np.uint8(_ZERO)
            good &= _all(digits <= 9)
            if end - begin > 1:
                good &= digits[:, 0] > 0
            self._digits[path] = digits
            content[:, begin:end] = np.frombuffer(piece.text, np.uint8)[begin:end]
        self._at = self._at + len(piece.text)
        self._keep(good & _equal(content, piece.text))

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
            good, spans = locate_texts(texts, text, quotes, begins)
            if spans is not None:
                self._at = self._at + spans.behind - begins[:-1]
                self._many.append(spans)
                return
            self._keep(good)

    def _pass_bag(self, bag: Bag) -> None:
        alike = self._lines.text.startswith(bag.text, int(self._at[0]))
        if alike or bag.orders:
            content = self._bytes(len(bag.text))
            if (alike and _equal(content, bag.text).all()) or bag.all_known(content):
                self._at = self._at + len(bag.text)
                return
        ends = self._lines.ends[self.rows]
        object_ends = self._lines.next(_BRACE, self._at, ends) + 1
        good = object_ends <= ends
        self._keep(good)
        object_ends = object_ends[good]
        while self.rows.size:
            quotes, begins, text = self._objects(object_ends)
            good = np.diff(np.searchsorted(quotes, begins)) == bag.count * bag.quotes
            if good.all():
                break
            self._keep(good)
            object_ends = object_ends[good]
        else:
            return
        seconds = quotes.reshape(-1, bag.count * bag.quotes)[:, bag.quotes :: bag.quotes]
        offsets = np.append(np.column_stack((begins[:-1], seconds)).ravel(), begins[-1])
        buffers = [None, pa.py_buffer(offsets), text]
        good = bag.has_each(pa.LargeBinaryArray.from_buffers(pa.large_binary(), len(offsets) - 1, buffers))
        bag.learn(self._lines.spans(self._at[good], object_ends[good]))
        self._at = object_ends
        self._keep(good)

    def _objects(self, ends: Ints) -> tuple[Ints, Ints, pa.Buffer]:
        """Returns, for the text up to `ends`, where it has quotes; where each row begins in it, and the last one ends;
        and the text."""
        _, begins, text = self._lines.spans(self._at, ends).buffers()
        quotes = np.flatnonzero(np.frombuffer(text, np.uint8) == _QUOTE)
        return quotes, np.frombuffer(begins, np.int64)[: len(ends) + 1], text


def _equal(content: Octets, text: bytes) -> Flags:
    """Returns which rows of `found` are `text`."""
    return _all(content == np.frombuffer(text, np.uint8))


def _all(flags: npt.NDArray[np.bool_]) -> Flags:
    """Returns which rows are all true. Mostly all rows are, which is seen at once."""
    if flags.all():
        return np.ones(len(flags), np.bool_)
    row_flags: Flags = np.all(flags, axis=1)
    return row_flags
