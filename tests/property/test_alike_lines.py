"""Lines that are read without a parser are what the parser makes of them, damaged ones too."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from consumer.codec.canal_json import alike, template
from consumer.codec.canal_json.alike import AlikeLines
from consumer.codec.canal_json.rows import CanalRows, RowParser
from consumer.model.columns import Column
from consumer.model.load import LoadTarget, TableLoad
from tests.property.test_codec import EXAMPLES, NAMES, PIECES, TEXTS
from tests.property.test_codec import test_slices_decode_to_their_lines as test_slices  # noqa: F401
from tests.support.canal_json import row_line, target_of

PLAIN = st.text(st.characters(min_codepoint=32, exclude_characters='"\\', exclude_categories=["Cs"]), max_size=5)


@pytest.fixture(autouse=True, scope="module", params=[2, template.MANY], ids=["at once", "one by one"])
def _few_lines_are_enough(request: pytest.FixtureRequest) -> Iterator[None]:
    """And few texts are many."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(alike, "LEAST_LINES", 1)
        patch.setattr(template, "MANY", request.param)
        yield


def facts(rows: CanalRows) -> dict[str, Any]:
    """All that rows say, as plain values."""
    arrays = {name: getattr(rows, name).tolist() for name in ("update", "delete", "ts", "exact", "old_rows")}
    texts = {name: [column.to_pylist() for column in getattr(rows, name)] for name in ("data", "types", "old")}
    return arrays | texts


def outcome(parse: Callable[[bytes], CanalRows], text: bytes) -> dict[str, Any] | str:
    """What it makes of a block, or that it refuses it."""
    try:
        rows = parse(text)
    except ValueError:
        return "refused"
    for column in (*rows.data, *rows.types, *rows.old):
        column.validate(full=True)
    return facts(rows)


@st.composite
def targets(draw: Callable[..., Any]) -> LoadTarget:
    names = draw(st.lists(st.sampled_from(NAMES), min_size=1, max_size=4, unique=True))
    columns = [Column(name, draw(st.sampled_from(["VARCHAR", "INT"])), nullable=draw(st.booleans())) for name in names]
    key = draw(st.lists(st.sampled_from(range(len(names))), max_size=len(names), unique=True))
    absent = draw(st.lists(st.sampled_from(["x", "data"]), max_size=1).filter(lambda found: not {*found} & {*names}))
    target = target_of(columns, key)
    return replace(target, load=TableLoad(target.table, absent=tuple(absent)))


@st.composite
def lines(draw: Callable[..., Any], target: LoadTarget) -> bytes:
    """A row as TiCDC writes it: types in any order, and numbers of types that go by the value."""
    names = [column.name for column in target.columns] + draw(st.sampled_from([[], [], ["x"]]))
    values = draw(st.sampled_from([PLAIN, PLAIN, PLAIN | st.none(), TEXTS | st.none()]))
    image = st.fixed_dictionaries(dict.fromkeys(names, values))
    kind = draw(st.sampled_from(["INSERT", "INSERT", "UPDATE", "DELETE"]))
    old = [draw(image)] if kind == "UPDATE" else None
    if old and draw(st.booleans()):
        old = [{name: value for name, value in old[0].items() if draw(st.booleans())}]
    ordered = draw(st.permutations(names))
    types = {
        "sqlType": {name: draw(st.sampled_from([4, 12, -5])) for name in names},
        "mysqlType": {name: "int unsigned" if name < "e" else "varchar" for name in ordered},
    }
    exact = draw(st.sampled_from([True, True, True, False]))
    time = draw(st.integers(1, 12) | st.sampled_from([0, 1 << 44, 1 << 45, 10**17, 10**18]))
    return row_line(
        kind, draw(image), commit_ts=time if exact else None, es=time, old=old, escaped=draw(st.booleans()), **types
    )


@EXAMPLES
@given(st.data())
def test_rows(data: st.DataObject) -> None:
    target = data.draw(targets())
    ending = data.draw(st.sampled_from([b"\r\n", b"\n"]))
    blocks = data.draw(st.lists(st.lists(lines(target), min_size=1, max_size=8), min_size=1, max_size=3))
    parser = RowParser(target)
    reader = AlikeLines(target, parser)
    for block in blocks:
        text = b"".join(line + ending for line in block)
        assert outcome(reader.parse, text) == outcome(parser.parse, text)


@EXAMPLES
@given(st.data())
def test_damaged_lines(data: st.DataObject) -> None:
    target = target_of(
        [Column("id", "INT", nullable=False), Column("v", "VARCHAR")], data.draw(st.sampled_from([(0,), ()]))
    )
    good = b"".join(
        row_line("UPDATE", {"id": str(n), "v": "a"}, commit_ts=9, old=[{"id": "1", "v": None}]) + b"\r\n"
        for n in range(5)
    )
    text = good
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(text)))
        text = text[:at] + data.draw(PIECES | st.just(b"")) + text[at + data.draw(st.integers(0, 9)) :]
    text += data.draw(st.sampled_from([b"", b"\n", b"\r\n"]))
    parser = RowParser(target)
    reader = AlikeLines(target, parser)
    for block in (good, text):
        assert outcome(reader.parse, block) == outcome(parser.parse, block)
