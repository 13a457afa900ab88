"""A statement is taken apart once, whoever asks what it does, and however often."""

from __future__ import annotations

from collections import Counter

import pytest

from consumer.ddl import changes, text_check
from consumer.ddl.definitions import ParsedStatement, statement_of
from consumer.ddl.text_check import check_text
from consumer.ddl.tokens import Token, tokens_with_comments
from consumer.errors import DdlRefused
from consumer.model.actions import Action
from consumer.model.files import Listing, SchemaFile
from consumer.model.progress import Progress
from consumer.model.times import MAX_TSO
from consumer.plan.assembly import Assembly
from consumer.plan.ddl_step import ddl_step
from tests.support.build import ID, schema_file
from tests.support.memory.sink import MemorySink

FILES = [
    schema_file(
        "d.t", 10, query="CREATE TABLE `t` (`id` INT PRIMARY KEY,`e` ENUM('a'),UNIQUE `u` (`e`))", columns=(ID,)
    ),
    schema_file("d.c", 20, query="CREATE TABLE `c` LIKE `t`", columns=(ID,)),
    schema_file("d.t", 30, Action.DROP_INDEX, "ALTER TABLE `t` DROP INDEX `u`", (ID,)),
    schema_file("d.n", 40, Action.RENAME_TABLE, "RENAME TABLE `d`.`t` TO `d`.`n`", (ID,)),
]


def ask_everything(files: list[SchemaFile]) -> None:
    assembly = Assembly.of(Listing(MAX_TSO, files, {}), Progress(), lambda name: True)
    for file in files:
        assembly.catalog.shape(file)
    MemorySink("compiled", "once").preview_ddls([ddl_step(statement) for statement in assembly.timeline.pending])


def test_every_statement_is_taken_apart_once(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: Counter[str] = Counter()

    def counted(text: str) -> ParsedStatement:
        seen[text] += 1
        return statement_of(text)

    monkeypatch.setattr(changes, "statement_of", counted)
    ask_everything(FILES)
    ask_everything(FILES)
    assert seen == {file.query: 1 for file in FILES}


def test_a_text_is_checked_until_it_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: Counter[str] = Counter()

    def counted(text: str) -> list[Token]:
        seen[text] += 1
        return tokens_with_comments(text)

    monkeypatch.setattr(text_check, "tokens_with_comments", counted)
    good = schema_file("d.t", 10, Action.ADD_COLUMN, "ALTER TABLE `t` ADD COLUMN `v` INT", (ID,))
    bad = schema_file("d.t", 20, Action.ADD_COLUMN, "ALTER TABLE `u` ADD COLUMN `v` INT", (ID,))
    for _ in range(2):
        check_text(good, Action.ADD_COLUMN)
        with pytest.raises(DdlRefused):
            check_text(bad, Action.ADD_COLUMN)
    with pytest.raises(DdlRefused):
        check_text(good, Action.DROP_TABLE)  # passed as something else
    assert seen == {good.query: 2, bad.query: 2}
