"""The one table of conversions beside what a real TiDB made of values."""

from __future__ import annotations

from dataclasses import replace

import pytest

from consumer.model.columns import Column, Family
from consumer.model.types.conversions import Conversion, Way
from consumer.model.types.values import NoValue
from tests.support.conversions import by_type, column_of, computed, pairs, same

TYPES = by_type(pair for pair in pairs() if not pair.refused)


@pytest.mark.parametrize("type_", TYPES)
def test_a_value_is_the_one_that_tidb_has_or_none(type_: str) -> None:
    for pair in TYPES[type_]:
        for measured, made in computed(pair):
            assert same(pair.new, made, measured.behind), (str(pair), measured.text, made)
        if Conversion(pair.old, pair.new).way is Way.KEPT:
            assert [measured.behind for measured in pair.values] == [measured.before for measured in pair.values]


@pytest.mark.parametrize("type_", TYPES)
def test_a_value_that_hangs_on_the_sessions_mode_has_none(type_: str) -> None:
    """A strict session could not run the statement, as of at least one of the values."""
    for pair in TYPES[type_]:
        if pair.depends:
            assert len(computed(pair)) < len(pair.values), str(pair)


NOT_TOLD = {
    "by the session's zone": {(Family.TIMESTAMP, family) for family in Family} - {(Family.TIMESTAMP,) * 2},
    "by the session's zone, too": {(family, Family.TIMESTAMP) for family in Family} - {(Family.TIMESTAMP,) * 2},
    "by the day of the statement": {(Family.TIME, Family.DATE), (Family.TIME, Family.DATETIME)},
    "numbers read as times": {(Family.INTEGER, Family.TIME), (Family.YEAR, Family.TIME)},
    "bits as bytes of JSON": {(Family.BIT, Family.JSON)},
}
ODD = {
    ("BIGINT", "BIT(64)"), ("INT", "BIT(64)"), ("TINYINT", "BIT(64)"),  # the bits of a number below 0
    ("TIME(6)", "TIME"), ("DATETIME(6)", "TIME"), ("DATETIME(6)", "TIME(3)"),  # halves below 0, and 24:00:00
    *((old, new) for old in ("TIME(6)", "DATETIME(6)") for new in (
        "INT", "BIGINT", "BIGINT UNSIGNED", "DECIMAL(10,2)", "DECIMAL(20,0)", "DECIMAL(50,20)", "FLOAT", "DOUBLE",
    )),  # fractions of a second are rounded to 60 seconds, or over midnight
}  # fmt: skip
"""Of these pairs some values are not told, though all sessions had the same: nobody would miss them."""


@pytest.mark.parametrize("type_", TYPES)
def test_no_statement_is_refused_that_every_session_ran_alike(type_: str) -> None:
    for pair in TYPES[type_]:
        told = not any((pair.old.family, pair.new.family) in not_told for not_told in NOT_TOLD.values())
        whole = len(computed(pair)) == len(pair.values)
        assert pair.depends or whole == (told and (pair.before, pair.behind) not in ODD), str(pair)


@pytest.mark.parametrize(
    ("text", "number"),
    [("+5", "5"), (".5", "1"), ("5.", "5"), (" 7 ", "7"), ("1e-1", "0"), ("15e-1", "2"), ("-0.4", "0"), ("1E2", "100")],
)
def test_a_text_is_the_number_that_all_of_it_means(text: str, number: str) -> None:
    conversion = Conversion(column_of("VARCHAR(40)"), column_of("INT"))
    assert conversion.value(text) == number
    for strange in (f"{text}x", f"\t{text}", "", "0x1F", "1_0", "٣", "nan", "1e999"):
        with pytest.raises(NoValue):
            conversion.value(strange)


def test_a_text_that_is_too_long_has_none_though_only_blanks_go() -> None:
    for kind in ("VARCHAR(3)", "CHAR(3)"):
        with pytest.raises(NoValue, match="longer than"):
            Conversion(column_of("VARCHAR(40)"), column_of(kind)).value("abc ")


def test_labels_move_by_their_names() -> None:
    old, new = column_of("SET('x','y','z')"), column_of("SET('z','x')")
    assert Conversion(old, new).value("5") == "3"
    with pytest.raises(NoValue, match="'y' is no label"):
        Conversion(old, new).value("7")
    error = Conversion(column_of("ENUM('a','b')"), column_of("ENUM('c','b')"))
    assert (error.value("0"), error.value("2")) == ("0", "2")


def test_labels_that_nobody_told_have_no_names() -> None:
    untold = Column("c", "ENUM")
    for kind in ("VARCHAR(9)", "SET('a')", "BLOB"):
        with pytest.raises(NoValue, match="no statement shows the labels"):
            Conversion(untold, column_of(kind)).value("1")
    assert Conversion(untold, column_of("INT")).value("1") == "1"
    assert Conversion(untold, untold).way is Way.KEPT
    assert Conversion(untold, replace(untold, default="b")).way is Way.UNKNOWN


def test_a_null_is_refused_where_upstream_had_none() -> None:
    old, new = column_of("INT"), replace(column_of("INT"), nullable=False)
    assert (Conversion(old, new).way, Conversion(old, new).refuses_null) == (Way.KEPT, True)
    assert not Conversion(new, old).refuses_null


def test_a_float_that_is_rounded_to_digits_is_not_guessed() -> None:
    rounded = Column("c", "FLOAT", length=10, scale=2)
    assert Conversion(column_of("FLOAT"), rounded).way is Way.UNKNOWN
    assert Conversion(rounded, column_of("FLOAT")).way is Way.KEPT
