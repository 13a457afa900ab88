"""The text that TiDB gives to a JSON value."""

from __future__ import annotations

import pytest

from consumer.model.json_texts import tidb_json


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ('{"b":1,"a":2}', '{"a": 2, "b": 1}'),
        ('{"a":1,"a":2}', '{"a": 2}'),
        ('{"bb":{"d":[ ],"c":{ }},"a":null,"é":true}', '{"a": null, "bb": {"c": {}, "d": []}, "é": true}'),
        ('[1e2, 1.50, 1e-5, 1E100, 1e15, 0.0, -0]', "[100.0, 1.5, 0.00001, 1e100, 1e15, 0.0, 0]"),
        ("[18446744073709551615, 18446744073709551616, -9223372036854775809]",
         "[18446744073709551615, 1.8446744073709552e19, -9.223372036854776e18]"),
        (r'"\u00e9\ud83d\ude00\/<&>\b\u0001\u2028\ud800"', '"é😀/<&>\\b\\u0001\\u2028\ufffd"'),
        (" 7 ", "7"),
        ('"q"', '"q"'),
    ],
)  # fmt: skip
def test_a_value_has_one_text(given: str, text: str) -> None:
    assert tidb_json(given) == text
    assert tidb_json(text) == text


@pytest.mark.parametrize("text", ["", "x", "{", "NaN", "[1e999]", '{"a": 1} 2'])
def test_what_is_no_json_stays(text: str) -> None:
    assert tidb_json(text) == text
