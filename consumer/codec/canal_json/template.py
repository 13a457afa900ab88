"""What lines of one kind share, as one of them shows it: constant text, and values between."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import Any

import numpy as np
import numpy.typing as npt
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from consumer.codec.change_table import Flags

_MOST_DIGITS = 18
"""Digits that fit into 64 bits in any case."""
_OF_NUMBER, _OF_TEXT = 2, 4
"""The quotes of a member."""
_NUMBER = re.compile(rb'("[^"]*"):-?(0|[1-9]\d{0,8})(,|\})')
MANY = 24
"""From this number on, the texts of a line are located at once."""
_MOST_LEARNED = 64
_FEW_MEMBERS, _MOST_ORDERS = 6, 1000
"""Six members have 720 orders: a block has nearly all of them."""
_BAGS = ("sqlType", "mysqlType")
"""Objects that TiCDC writes in any order, one of them with numbers that depend on the row's values."""

Path = tuple[str, ...]
"""``(member,)``, or ``(member, name)`` of a member in an object."""


@dataclass(frozen=True, slots=True)
class Fixed:
    """The same bytes in each line: `text` except for whole numbers without a sign, whose positions (from, to) are in
    `numbers`."""

    text: bytes
    numbers: dict[Path, tuple[int, int]]


@dataclass(frozen=True, slots=True)
class Text:
    """A text in quotes, or null."""

    path: Path


@dataclass(frozen=True, slots=True)
class Texts:
    """Texts, and what stands between each two: it has one name."""

    paths: tuple[Path, ...]
    between: tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class Bag:
    """An object after its opening brace: `text`, or its `count` members in another order. Each member extends to the
    next, so a comma follows it, or a brace the last one.

    `known` has the number of each member by its written form; plus `count` for the last.
    """

    text: bytes
    count: int
    quotes: int
    """The quotes of each member."""
    known: dict[bytes, int]
    orders: dict[bytes, None] = field(default_factory=dict)
    """Texts as long as `text` that have each member once, kept if the members are so few that they have few orders."""

    def all_known(self, texts: npt.NDArray[np.uint8]) -> bool:
        """Returns whether all rows of `texts`, which are as long as `text`, are in `orders`."""
        if not self.orders:
            return False
        kind = pa.binary(len(self.text))
        rows = pa.FixedSizeBinaryArray.from_buffers(kind, len(texts), [None, pa.py_buffer(texts)])
        return bool(pc.index_in(rows, value_set=pa.array(self.orders, kind)).null_count == 0)

    def learn(self, texts: pa.LargeStringArray) -> None:
        """Adds `texts`, which have each member once."""
        if self.count > _FEW_MEMBERS or len(self.orders) > _MOST_ORDERS:
            return
        as_long = texts.filter(pc.equal(pc.binary_length(texts), len(self.text)))
        self.orders.update(dict.fromkeys(as_long.cast(pa.large_binary()).unique().to_pylist()))

    def has_each(self, members: pa.LargeBinaryArray) -> Flags:
        """Returns which rows have each member once: `members` are `count` of each row."""
        indexes = self._index(members)
        if indexes.null_count and self._learned(members.filter(indexes.is_null()).unique()):
            indexes = self._index(members)
        numbers = np.array([*self.known.values(), -1])[indexes.fill_null(len(self.known))].reshape(-1, self.count)
        numbers[:, -1] -= self.count
        each: Flags = np.all(np.sort(numbers, axis=1) == np.arange(self.count), axis=1)
        return each

    def _index(self, members: pa.LargeBinaryArray) -> pa.Int32Array:
        return pc.index_in(members, value_set=pa.array(self.known, pa.large_binary()))

    def _learned(self, members: pa.LargeBinaryArray) -> bool:
        """Returns whether any of the members is a known one with another number, and adds these."""
        names = {text[: text.index(b'":') + 1]: number % self.count for text, number in self.known.items()}
        before = len(self.known)
        for member in members[:_MOST_LEARNED].to_pylist() if self.quotes == _OF_NUMBER else ():
            match = _NUMBER.fullmatch(member)
            if match is not None and match[1] in names:
                self.known[member] = names[match[1]] + (self.count if match[3] == b"}" else 0)
        return len(self.known) > before


FormPiece = Fixed | Text | Texts | Bag


def line_form(line: bytes) -> list[FormPiece] | None:
    """Returns the pieces of a line without a backslash; None if it is not written as TiCDC does, with no blanks and
    each member once."""
    body = line.removesuffix(b"\r")
    try:
        row = orjson.loads(body)
        as_written = isinstance(row, dict) and orjson.dumps(row) == body
    except (orjson.JSONDecodeError, orjson.JSONEncodeError):  # a value can be nested too deeply to be written
        return None
    if not as_written:
        return None
    form = _Form()
    form.object(row, ())
    form.text += line[len(body) :]
    return _joined(form.ended())


def _joined(pieces: Sequence[FormPiece]) -> list[FormPiece]:
    """Returns the pieces with `Texts` where many texts follow one another."""
    joined: list[FormPiece] = []
    while pieces:
        texts = _texts_at_the_beginning(pieces)
        many = len(texts.paths) >= MANY
        joined.append(texts if many else pieces[0])
        pieces = pieces[2 * len(texts.paths) - 1 if many else 1 :]
    return joined


def _texts_at_the_beginning(pieces: Sequence[FormPiece]) -> Texts:
    paths: list[Path] = []
    between: list[bytes] = []
    for text, separator in zip_longest(pieces[::2], pieces[1::2]):
        if not isinstance(text, Text):
            break
        paths.append(text.path)
        if not (isinstance(separator, Fixed) and not separator.numbers and separator.text.count(b'"') == 2):
            break
        between.append(separator.text)
    return Texts(tuple(paths), tuple(between[: len(paths) - 1]))


class _Form:
    def __init__(self) -> None:
        self.text = b""
        self._numbers: dict[Path, tuple[int, int]] = {}
        self._pieces: list[FormPiece] = []

    def ended(self) -> list[FormPiece]:
        if self.text:
            self._pieces.append(Fixed(self.text, self._numbers))
            self.text, self._numbers = b"", {}
        return self._pieces

    def object(self, members: dict[str, Any], path: Path) -> None:
        self.text += b"{"
        for number, (name, value) in enumerate(members.items()):
            self.text += (b"," if number else b"") + orjson.dumps(name) + b":"
            self._value(value, (*path, name))
        self.text += b"}"

    def _value(self, value: Any, path: Path) -> None:
        match path, value:
            case (("data" | "old",), [dict() as row]):
                self.text += b"["
                self.object(row, path)
                self.text += b"]"
            case ("_tidb",), dict():
                self.object(value, path)
            case (("data" | "old", _), None | str()):
                self.ended().append(Text(path))
            case ((("es" | "ts",) | ("_tidb", _)), int()) if type(value) is int and 0 <= value < 10**_MOST_DIGITS:
                begin = len(self.text)
                self.text += str(value).encode()
                self._numbers[path] = begin, len(self.text)
            case (name,), dict() if name in _BAGS and (bag := _bag(value)) is not None:
                self.text += b"{"
                self.ended().append(bag)
            case _:
                self.text += orjson.dumps(value)


def _bag(members: dict[str, Any]) -> Bag | None:
    kinds = {type(value) for value in members.values()}
    if kinds not in ({int}, {str}):
        return None
    written = [orjson.dumps({name: value})[1:-1] for name, value in members.items()]
    numbers = {member + b",": number for number, member in enumerate(written)}
    numbers |= {member + b"}": number + len(written) for number, member in enumerate(written)}
    return Bag(b",".join(written) + b"}", len(written), _OF_NUMBER if kinds == {int} else _OF_TEXT, numbers)
