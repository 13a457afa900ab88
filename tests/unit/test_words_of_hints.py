"""What a hint names is there: flags, settings, variables, parameters, commands. None writes a command by hand."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from dataclasses import fields
from pathlib import Path

import pytest

from consumer.cli.program import COMMANDS
from consumer.codec import PROTOCOLS
from consumer.config import changefeed
from consumer.config.settings import Settings
from consumer.config.spelling import env_of, file_key_of, key_of
from consumer.sink.duckdb.settings import DuckDbSettings
from consumer.sink.lake.jars import FOLDER
from consumer.sink.mysql.settings import MySqlSettings
from consumer.source.options import OPTIONS
from consumer.storage.settings import CHANGEFEED_PARAMETERS, STORAGE_OPTIONS
from tests.support.flags import flags_of_settings, own_flags
from tests.support.syntax import tree_of

PACKAGE = Path(__file__).parents[2] / "consumer"
_FLAG = re.compile(r"(?<![\w-])--[a-z][a-z-]*[a-z]")
_VARIABLE = re.compile(r"\bSTORAGE_CONSUMER_[A-Z_]*[A-Z]")
_ASSIGNED = re.compile(r"(?<![\w-])([a-z]+(?:-[a-z]+)+) ?=")
_QUOTED = re.compile(r"`([a-z][a-z-]*)`")
_BY_HAND = re.compile(r"storage-consumer (?:resync|skip-ddl)")


def _known_keys() -> set[str]:
    """Of the changefeed's file, our own part of it, and both URIs."""
    tables = (found for name, found in vars(changefeed).items() if name.endswith("_KEYS"))
    target = {
        field.name.replace("_", "-") for settings in (MySqlSettings, DuckDbSettings) for field in fields(settings)
    }
    in_file = {file_key_of(field).rpartition(" ")[2] for field in Settings.model_fields}
    return {*CHANGEFEED_PARAMETERS, *target, *in_file, *map(key_of, Settings.model_fields)}.union(
        *tables, *STORAGE_OPTIONS.values()
    )


def _known_flags() -> set[str]:
    return flags_of_settings().union(*map(own_flags, COMMANDS))


@pytest.fixture(scope="module")
def hints() -> list[tuple[str, str]]:
    return list(_hints())


def _hints() -> Iterator[tuple[str, str]]:
    """Where a hint is written, and its text without what is put into it."""
    yield from ((protocol.name, protocol.commit_ts) for protocol in PROTOCOLS.values())
    trees = {file: tree_of(file.read_text(encoding="utf-8")) for file in sorted(PACKAGE.rglob("*.py"))}
    nodes = {file: list(ast.walk(tree)) for file, tree in trees.items()}
    used = _used(node for walked in nodes.values() for node in walked)
    for file, tree in trees.items():
        place = file.relative_to(PACKAGE).as_posix()
        if place == "model/hints.py":
            continue  # the one place that writes commands
        for node in nodes[file]:
            if isinstance(node, ast.keyword) and node.arg == "hint":
                yield f"{place}:{node.value.lineno}", _text(node.value)
            elif isinstance(node, ast.FunctionDef) and node.name.endswith("hint"):
                yield f"{place}:{node.lineno}", " ".join(_text(part) for part in node.body[1:])
        for node in tree.body:
            names = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
            named = [name.id for name in names if isinstance(name, ast.Name)]
            if named and named[0] in used and isinstance(node, (ast.Assign, ast.AnnAssign)) and node.value is not None:
                yield f"{place}:{node.lineno}", _text(node.value)


def _text(value: ast.AST) -> str:
    return " ".join(str(node.value) for node in ast.walk(value) if isinstance(node, ast.Constant))


def _used(nodes: Iterable[ast.AST]) -> set[str]:
    """The constants that hints are taken from."""
    hints = (node for node in nodes if isinstance(node, ast.keyword) and node.arg == "hint")
    named = {node.id for hint in hints for node in ast.walk(hint.value) if isinstance(node, ast.Name)}
    return {name for name in named if name.strip("_").isupper()}


def test_all_of_them_are_looked_at(hints: list[tuple[str, str]]) -> None:
    assert len(hints) > 170
    assert sum(bool(_FLAG.search(text)) for _, text in hints) > 30
    assert sum(bool(_ASSIGNED.search(text)) for _, text in hints) > 10


def test_what_hints_name_is_there(hints: list[tuple[str, str]]) -> None:
    keys, variables = _known_keys(), {FOLDER, *(env_of(field) for field in Settings.model_fields)}
    quoted = {"metadata", *keys, *(command.name for command in COMMANDS)}
    known = ((_FLAG, _known_flags()), (_VARIABLE, variables), (_ASSIGNED, {*keys, *OPTIONS}), (_QUOTED, quoted))
    unknown = [
        (place, word) for place, text in hints for rule, words in known for word in {*rule.findall(text)} - words
    ]
    assert unknown == []


def test_no_hint_has_a_command_as_a_text_alone() -> None:
    """An f-string takes its text, and it would be printed without the flags of the call: they are put together by +."""
    parts = {"AS_FILES_SHOW", "GRANT", "ACCEPT_LOSS"}
    found = []
    for file in sorted(PACKAGE.rglob("*.py")):
        for node in ast.walk(tree_of(file.read_text(encoding="utf-8"))):
            value = node.value if isinstance(node, ast.FormattedValue) else None
            name = value.func if isinstance(value, ast.Call) else value
            if isinstance(name, ast.Name) and (name.id in parts or name.id.endswith(("_command", "_hint"))):
                found.append(f"{file.relative_to(PACKAGE)}:{name.lineno}")
    assert found == []


def test_no_hint_writes_a_command_by_hand(hints: list[tuple[str, str]]) -> None:
    """`consumer.model.hints` quotes names as a shell takes them."""
    assert [place for place, text in hints if _BY_HAND.search(text)] == []
