"""Forms: how they are written, which tables get them, what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from consumer.config.load import load
from consumer.errors import BadConfig
from consumer.model.names import TableName
from consumer.model.naming import SAME
from consumer.model.table_modes import ModeKind, TableMode

URI = {"upstream_uri": "file:///cdc?protocol=canal-json"}


def form(name: str, *forms: str) -> str:
    database, _, table = name.partition(".")
    return str(load({**URI, "forms": list(forms)}, {}).settings.naming.mode(TableName(database, table)))


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
        form(name, "shop.orders = append", "shop.tmp=mirror", "shop.* = soft-delete", "shop.items = append") == expected
    )


def test_flags_the_environment_and_the_file_say_the_same(tmp_path: Path) -> None:
    file = tmp_path / "changefeed.toml"
    file.write_text(
        '[[consumer.forms]]\ntables = ["a.*"]\nform = "append"\n[[consumer.forms]]\ntables = ["b.t"]\nform = "mirror"\n'
    )
    told = ["a.* = append", "b.t = mirror"]
    settings = [
        load({**URI, "forms": told}, {}).settings,
        load(URI, {"STORAGE_CONSUMER_FORM": ";".join(told)}).settings,
        load(URI, {}, str(file)).settings,
    ]
    assert [[str(rule) for rule in one.forms.rules] for one in settings] == [told] * 3
    assert load(URI, {}).settings.naming is SAME


def test_added_columns_have_the_names_that_the_file_gives_them(tmp_path: Path) -> None:
    file = tmp_path / "changefeed.toml"
    file.write_text(
        '[consumer]\nforms = [{tables = ["a.*", "!a.b"], form = "append",'
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
        ('{tables = ["a.*"]}', "form None is not known; give mirror, append, soft-delete, history"),
        ('{tables = ["a.*"], form = "scd2"}', "form 'scd2' is not known"),
        ('{tables = "a.*", form = "append"}', "a list of table rules"),
        ('{tables = [], form = "append"}', "a list of table rules"),
        ('{tables = ["a"], form = "append"}', "'a' is not a table rule"),
        ('{tables = ["a.*"], form = "append", names = {}}', "names is not a key of a form"),
        (
            '{tables = ["a.*"], form = "append", columns = {_deleted_at = "x"}}',
            "_deleted_at is no column that the form append adds",
        ),
        ('{tables = ["a.*"], form = "append", columns = {_op = ""}}', "the name of _op must be a text"),
        (
            '{tables = ["a.*"], form = "append", columns = {_op = "_TABLE"}}',
            "two columns of the form append have one name",
        ),
        ('{tables = ["a.*"], form = "mirror", columns = {_op = "x"}}', "a mirror has no columns of its own"),
        ('"a.* append"', "give RULE = FORM"),
        ('"a.* = append (_op as x)"', "is not known"),
    ],
)
def test_what_is_no_form_is_refused(entry: str, why: str, tmp_path: Path) -> None:
    file = tmp_path / "changefeed.toml"
    file.write_text(f"[consumer]\nforms = [{entry}]\n")
    with pytest.raises(BadConfig) as refused:
        load(URI, {}, str(file))
    assert "[consumer] forms is refused: " in refused.value.message
    assert why in refused.value.message
