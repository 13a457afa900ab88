"""Table modes: how they are written, which tables get them, what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from consumer.config.load import load
from consumer.errors import BadConfig
from consumer.model.names import TableName
from consumer.model.naming import SAME
from consumer.model.table_modes import ModeKind, TableMode

URI = {"upstream_uri": "file:///cdc?protocol=canal-json"}


def mode(name: str, *modes: str) -> str:
    database, _, table = name.partition(".")
    return str(load({**URI, "table_modes": list(modes)}, {}).settings.naming.mode(TableName(database, table)))


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("shop.orders", "append"),
        ("SHOP.items", "soft-delete"),
        ("shop.tmp", "None"),
        ("bank.t", "None"),
        ("shop", "None"),
    ],
)
def test_the_first_rule_that_fits_decides_and_all_others_are_mirrors(name: str, expected: str) -> None:
    assert (
        mode(name, "shop.orders = append", "shop.tmp=mirror", "shop.* = soft-delete", "shop.items = append") == expected
    )


def test_flags_the_environment_and_the_file_say_the_same(tmp_path: Path) -> None:
    file = tmp_path / "changefeed.toml"
    file.write_text(
        '[[consumer.table-modes]]\ntables = ["a.*"]\nmode = "append"\n'
        '[[consumer.table-modes]]\ntables = ["b.t"]\nmode = "mirror"\n'
    )
    told = ["a.* = append", "b.t = mirror"]
    settings = [
        load({**URI, "table_modes": told}, {}).settings,
        load(URI, {"STORAGE_CONSUMER_TABLE_MODE": ";".join(told)}).settings,
        load(URI, {}, str(file)).settings,
    ]
    assert [[str(rule) for rule in one.table_modes] for one in settings] == [told] * 3
    assert load(URI, {}).settings.naming is SAME


def test_added_columns_have_the_names_that_the_file_gives_them(tmp_path: Path) -> None:
    file = tmp_path / "changefeed.toml"
    file.write_text(
        '[consumer]\ntable-modes = [{tables = ["a.*", "!a.b"], mode = "append",'
        ' columns = {_op = "kind", _table = "_table"}}]\n'
    )
    naming = load(URI, {}, str(file)).settings.naming
    found = naming.mode(TableName("a", "t"))
    assert found == TableMode(ModeKind.APPEND, (("_op", "kind"),))
    assert [column.name for column in found.added] == ["kind", "_commit_ts", "_table", "_version"]
    assert str(found) == "append (_op as kind)"
    assert naming.mode(TableName("a", "b")) is None


@pytest.mark.parametrize(
    ("entry", "why"),
    [
        ('{tables = ["a.*"]}', "rule 1: mode None is not allowed; give mirror, append, soft-delete, history"),
        ('{tables = ["a.*"], mode = "scd2"}', "mode 'scd2' is not allowed; give mirror, append, soft-delete, history"),
        ('{tables = "a.*", mode = "append"}', "rule 1: tables must be a list of texts, with one at least"),
        ('{tables = [], mode = "append"}', "rule 1: tables must be a list of texts, with one at least"),
        ('{tables = ["a"], mode = "append"}', "'a' is not a table rule"),
        (
            '{tables = ["a.*"], mode = "append", names = {}}',
            "rule 1: names is not a key; known are tables, mode, columns",
        ),
        (
            '{tables = ["a.*"], mode = "append", columns = {_deleted_at = "x"}}',
            "_deleted_at is no column that the mode append adds",
        ),
        ('{tables = ["a.*"], mode = "append", columns = {_op = ""}}', "the name of _op must be a text"),
        (
            '{tables = ["a.*"], mode = "append", columns = {_op = "_TABLE"}}',
            "two columns of the mode append have one name",
        ),
        ('{tables = ["a.*"], mode = "mirror", columns = {_op = "x"}}', "a mirror has no columns of its own"),
        ('"a.* append"', "give RULE = MODE"),
        ('"a.* = append (_op as x)"', "is not allowed"),
    ],
)
def test_what_is_no_mode_is_refused(entry: str, why: str, tmp_path: Path) -> None:
    file = tmp_path / "changefeed.toml"
    file.write_text(f"[consumer]\ntable-modes = [{entry}]\n")
    with pytest.raises(BadConfig) as refused:
        load(URI, {}, str(file))
    assert "[consumer] table-modes is refused: " in refused.value.message
    assert why in refused.value.message
