"""Which lines need no parser."""

from __future__ import annotations

import itertools
import random
import tracemalloc

import pytest

from consumer.codec.canal_json import alike
from consumer.codec.canal_json.alike import AlikeLines
from consumer.codec.canal_json.rows import RowParser
from consumer.codec.canal_json.template import Bag
from consumer.model.columns import Column
from tests.property.test_alike_lines import facts, outcome
from tests.support.canal_json import row_line, target_of
from tests.unit.codec.canal_json.test_real_files import FOLDER, NAMES, target_for

COLUMNS = [Column("id", "INT", nullable=False), *(Column(f"c{n}", "VARCHAR") for n in range(11))]
TARGET = target_of(COLUMNS)
COUNT = 400


def line(number: int, kind: str = "INSERT", **more: object) -> bytes:
    """A row as TiCDC writes it: the order of `mysqlType` is another one in each row."""
    chance = random.Random(number)
    row = {"id": str(number), **{f"c{n}": chance.choice(["", "ä", "}null", f"v{number}", None]) for n in range(11)}}
    names = list(row)
    chance.shuffle(names)
    members = {"mysqlType": {name: "int" if name == "id" else "varchar" for name in names}, "ts": 1 << 40} | more
    old = [row | {"c1": "before"}] if kind == "UPDATE" else None
    return row_line(kind, row, commit_ts=(1 << 58) + number, es=1 << 40, old=old, **members) + b"\r\n"


def read(*lines: bytes) -> int:
    """How many of the lines needed no parser; all are what the parser makes of them."""
    parser = RowParser(TARGET)
    reader = AlikeLines(TARGET, parser)
    text = b"".join(lines)
    assert facts(reader.parse(text)) == facts(parser.parse(text))
    return reader.taken


def test_rows_of_all_kinds() -> None:
    kinds = ["INSERT", "UPDATE", "DELETE"]
    assert read(*(line(n, kinds[n % 3]) for n in range(COUNT))) == COUNT


def test_numbers_of_types_that_go_by_the_value() -> None:
    numbers = [4, -5, 12]
    lines = (line(n, sqlType={"id": numbers[n % 3], "c0": numbers[n // 3 % 3]}) for n in range(COUNT))
    assert read(*lines) == COUNT


def test_rows_of_another_form() -> None:
    others = [
        line(1).replace(b'"mysqlType":{', b'"mysqlType":{"x":"int",'),
        line(2).replace(b'"commitTs":2', b'"commitTs":'),
    ]
    assert read(*(line(n) for n in range(COUNT)), *others, *others) == COUNT + 4


@pytest.mark.parametrize(
    "other",
    [
        line(1).replace(b'"id":"1"', b'"id":"1\\n"'),
        line(1).replace(b":", b": "),
        b"  " + line(1),
        line(1).replace(b'"sql":""', b'"sql":' + b"[" * 300 + b"]" * 300),
    ],
)
def test_the_parser_reads_the_others(other: bytes) -> None:
    rows = [line(n) for n in range(COUNT)]
    assert read(*rows[:10], other, *rows[10:], other) == COUNT


def refused(*lines: bytes) -> bool:
    """Whether these lines without their ``}null``, of which each is looked at, are refused, with and without forms."""
    parser = RowParser(TARGET)
    text = b"".join(lines).replace(b"}null", b"x")
    outcomes = [outcome(parse, text) for parse in (parser.parse, AlikeLines(TARGET, parser).parse)]
    assert outcomes[0] == outcomes[1]
    return outcomes[0] == "refused"


@pytest.mark.parametrize("behind", [0, 5])
def test_a_value_that_goes_on_in_another_line(behind: int) -> None:
    """Lines between its parts, and one with two rows, so that there are as many values as lines."""
    rows = [line(n) for n in range(COUNT)]
    begun, opened, rest = line(COUNT).partition(b'"data":[')
    parts = [begun + opened + b"\r\n", *rows[:behind], rest]
    assert refused(*parts, *rows[behind:], line(1).removesuffix(b"\r\n") + line(2))


@pytest.mark.parametrize("column", ["c0", "c10"])
def test_types_that_are_not_utf8_are_refused(column: str) -> None:
    name = f'"{column}":"varchar'.encode()
    assert refused(*(line(n) for n in range(COUNT)), line(1).replace(name, name + b"\xff"))


def test_a_block_with_many_others_is_not_read_twice() -> None:
    def with_others(every: int) -> int:
        return read(*(line(n, extra="" if n % every else "\\") for n in range(COUNT)))

    assert with_others(4) == COUNT * 3 // 4
    assert with_others(2) == 0


def test_blank_lines_are_the_parsers() -> None:
    assert read(*(line(n) for n in range(COUNT)), b"\r\n") == 0


@pytest.mark.parametrize("odd", [b"\n" * (1 << 20), b"  \t" * (1 << 20) + b"\n"])
def test_a_block_of_hardly_any_text_costs_no_more_memory_than_the_parser_takes(odd: bytes) -> None:
    parser = RowParser(TARGET)
    reader = AlikeLines(TARGET, parser)
    text = b"".join(line(n) for n in range(COUNT)) + odd
    tracemalloc.start()
    try:
        assert reader.parse(text).count == COUNT
        assert tracemalloc.get_traced_memory()[1] < 24 * len(text)
    finally:
        tracemalloc.stop()


def test_few_lines_are_the_parsers() -> None:
    assert read(*(line(n) for n in range(alike.LEAST_LINES - 1))) == 0


def test_lines_that_are_not_alike_are_not_compared_again() -> None:
    parser = RowParser(TARGET)
    reader = AlikeLines(TARGET, parser)
    like, unlike = (b"".join(line(n, extra="\\" if n % 3 else "") for n in range(COUNT)) for _ in range(2))
    reader.parse(unlike)
    assert reader.taken == 0
    reader.parse(like.replace(b"\\", b""))
    assert reader.taken == 0


def narrow_line(number: int, order: tuple[str, ...], **types: str) -> bytes:
    row = {"id": str(number), "a": "x", "b": None}
    known = {"id": "int", "a": "varchar", "b": "varchar"} | types
    types = {name: known[name] for name in order}
    return row_line("INSERT", row, commit_ts=(1 << 58) + number, es=1 << 40, ts=1 << 40, mysqlType=types) + b"\r\n"


def test_orders_of_few_types_are_learned(monkeypatch: pytest.MonkeyPatch) -> None:
    target = target_of([Column("id", "INT", nullable=False), Column("a", "VARCHAR"), Column("b", "VARCHAR")])
    parser = RowParser(target)
    reader = AlikeLines(target, parser)
    orders = [*itertools.permutations(["id", "a", "b"])]
    block = b"".join(narrow_line(n, orders[n % len(orders)]) for n in range(COUNT))
    assert facts(reader.parse(block)) == facts(parser.parse(block))
    monkeypatch.delattr(Bag, "has_each")
    assert facts(reader.parse(block)) == facts(parser.parse(block))
    assert reader.taken == 2 * COUNT
    other = block + narrow_line(1, orders[0], a="varchaR") + narrow_line(2, ("a", "a", "a"), a="char")
    with pytest.raises(AttributeError):
        reader.parse(other)
    monkeypatch.undo()
    assert outcome(reader.parse, other) == outcome(parser.parse, other) != "refused"


@pytest.mark.parametrize("name", NAMES)
def test_real_files(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(alike, "LEAST_LINES", 1)
    text = (FOLDER / f"{name}.json").read_bytes()
    parser = RowParser(target_for(name))
    assert outcome(AlikeLines(target_for(name), parser).parse, text) == outcome(parser.parse, text) != "refused"
