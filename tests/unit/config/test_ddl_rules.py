"""[consumer.ddl]: which policy a statement gets, and what is refused with one sentence."""

from __future__ import annotations

from pathlib import Path

import pytest

from consumer.config.load import load
from consumer.errors import BadConfig
from consumer.model.actions import Action
from consumer.model.ddl_policy import GROUPS, KINDS, NEVER_IGNORED, RENAMED_KINDS, DdlPolicy, PolicyOf, trash_name
from consumer.model.names import TableName

FLAGS = {"upstream_uri": "file:///cdc?protocol=canal-json"}
ORDERS, OTHER, SHOP = TableName("shop", "orders"), TableName("x", "y"), TableName("shop", "")


def policies(folder: Path, text: str) -> PolicyOf:
    path = folder / "changefeed.toml"
    path.write_text(text, encoding="utf-8")
    return load(FLAGS, {}, str(path)).settings.ddl_policy


def rule(action: str, kinds: str = "", tables: str = "") -> str:
    lines = [f"kinds = [{kinds}]"] * bool(kinds) + [f"tables = [{tables}]"] * bool(tables)
    return "\n".join(["[[consumer.ddl.rules]]", *lines, f'action = "{action}"', ""])


def test_everything_evolves_without_settings(tmp_path: Path) -> None:
    policy = policies(tmp_path, "")
    assert {policy(action, ORDERS) for action in Action} == {DdlPolicy.EVOLVE}


def test_the_last_rule_that_fits_decides(tmp_path: Path) -> None:
    text = '[consumer.ddl]\ndefault = "fail"\n' + (
        rule("rename", '"drop-table", "truncate-table"', '"shop.*"')
        + rule("evolve", '"drop-table"', '"shop.tmp_*"')
        + rule("ignore", '"add-index", "ttl"')
    )
    policy = policies(tmp_path, text)
    assert policy(Action.DROP_TABLE, ORDERS) is DdlPolicy.RENAME
    assert policy(Action.TRUNCATE_TABLE, TableName("SHOP", "Orders")) is DdlPolicy.RENAME
    assert policy(Action.DROP_TABLE, TableName("shop", "tmp_1")) is DdlPolicy.EVOLVE
    assert policy(Action.DROP_TABLE, OTHER) is DdlPolicy.FAIL
    assert policy(Action.ADD_INDEX, OTHER) is DdlPolicy.IGNORE
    assert policy(Action.REMOVE_TTL, ORDERS) is DdlPolicy.IGNORE


@pytest.mark.parametrize(
    ("tables", "fits"),
    [
        ("", True),
        ('"shop.*"', True),
        ('"*.*", "!shop.keep"', False),
        ('"shop.orders"', False),
        ('"x.*"', False),
        ('"!shop.*", "shop.*"', True),
    ],
)
def test_a_rule_fits_a_database_with_all_of_its_tables_only(tables: str, fits: bool, tmp_path: Path) -> None:
    policy = policies(tmp_path, rule("fail", '"drop-schema"', tables))
    assert policy(Action.DROP_SCHEMA, SHOP) is (DdlPolicy.FAIL if fits else DdlPolicy.EVOLVE)


def test_numbers_of_one_kind_share_their_policy(tmp_path: Path) -> None:
    policy = policies(tmp_path, rule("fail", '"rename-table", "create-table", "add-column", "drop-column"'))
    for action in (Action.RENAME_TABLES, Action.CREATE_TABLES, Action.ADD_COLUMNS, Action.DROP_COLUMNS):
        assert policy(action, ORDERS) is DdlPolicy.FAIL


def test_the_default_can_come_from_the_environment() -> None:
    settings = load(FLAGS, {"STORAGE_CONSUMER_DDL": "fail"}).settings
    assert settings.ddl_policy(Action.ADD_COLUMN, ORDERS) is DdlPolicy.FAIL


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('[consumer]\nddl = "rename"\n', "'rename' is not allowed; give evolve or fail; the others are for some"),
        ('[consumer.ddl]\ndefault = "ignor"\n', "default 'ignor' is not allowed; give evolve or fail"),
        ('[consumer.ddl]\ndefalt = "fail"\n', "defalt is not a key; known are default, rules"),
        ('[consumer.ddl]\nrules = ["x"]\n', "rules are tables, each written [[consumer.ddl.rules]]"),
        (rule("fail") + "kind = 1\n", "rule 1: kind is not a key; known are tables, kinds, action; did you"),
        (rule("fail") + rule("skip"), "rule 2: action 'skip' is not allowed; give evolve, ignore, fail, rename"),
        (rule("fail", '"drop-tabel"'), "'drop-tabel' is not a kind of statement; did you mean drop-table?"),
        (rule("fail", "", '"shop"'), "rule 1: tables: 'shop' is not a table rule"),
        ("[[consumer.ddl.rules]]\naction = 'fail'\nkinds = []\n", "with one at least, or left out"),
        (rule("rename", '"drop-column"'), "drop-column has no action rename; it is for drop-table, truncate-table"),
        (rule("ignore", '"index"'), "drop-index cannot be ignored: a unique index that upstream no longer has"),
        (rule("ignore"), "cannot be ignored"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said_in_one_sentence(text: str, says: str, tmp_path: Path) -> None:
    with pytest.raises(BadConfig) as refused:
        policies(tmp_path, text)
    assert "[consumer] ddl is refused: " in str(refused.value)
    assert says in str(refused.value)


def test_groups_and_limits_name_kinds_that_exist() -> None:
    named = {kind for group in GROUPS.values() for kind in group} | set(NEVER_IGNORED) | set(RENAMED_KINDS)
    assert named <= set(KINDS)
    assert not set(GROUPS) & set(KINDS)


@pytest.mark.parametrize("own", ["t", "x" * 37, "x" * 38, "名" * 64])
def test_trash_names_fit_and_differ(own: str) -> None:
    version = 470611857042046978
    names = [trash_name(version, TableName("d", own + end)) for end in ("", "a", "b")]
    assert len({name.table for name in names}) == 3
    assert all(len(name.table) <= 64 and name.table.startswith(f"__trash_{version}_") for name in names)
    assert trash_name(version, TableName("d", "")) == TableName(f"__trash_{version}_d", "")
